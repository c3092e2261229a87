# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet's configuration before there is one, and whether a kubelet says that it is healthy."""

from __future__ import annotations

import threading
import typing as t
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.module_utils._kube.node import kubelet
from ansible_collections.converged.hpc.plugins.module_utils._record.host.host import Host
from ansible_collections.converged.hpc.plugins.module_utils._record.run.session import Session
from unit.plugins.module_utils._record.fake_node import FakeNode
from unit.plugins.module_utils._record.site_node import RECORD, call, world_in_a_folder


def keep(folder: Path, config: dict[str, t.Any], *, check: bool) -> dict[str, t.Any]:
    wanted = kubelet.Wanted(str(folder / "config.yaml"), config, "kubelet.service", ())
    return kubelet.keep(Session(Host(), str(folder / "record")), wanted, timeout=1, check=check)


def test_before_the_join_check_mode_names_the_fields_and_a_real_run_is_refused(tmp_path: Path) -> None:
    config = {"maxPods": 50, "authentication": {"webhook": {"enabled": True}}}
    planned = keep(tmp_path, config, check=True)
    assert planned["changed"]
    assert "set maxPods, authentication.webhook.enabled in" in planned["steps"][0]
    with pytest.raises(KubeError, match="does not exist, or is empty: join the node first"):
        keep(tmp_path, config, check=False)


def test_a_file_that_a_power_cut_emptied_is_no_configuration_yet(tmp_path: Path) -> None:
    config = {"maxPods": 50}
    path = tmp_path / "config.yaml"
    path.touch()
    assert "set maxPods in" in keep(tmp_path, config, check=True)["steps"][0]
    with pytest.raises(KubeError, match="is empty: join the node first"):
        keep(tmp_path, config, check=False)
    assert path.read_bytes() == b""


def test_no_field_is_no_change(tmp_path: Path) -> None:
    assert not keep(tmp_path, {}, check=True)["changed"]


@pytest.mark.parametrize("check", [True, False])
def test_the_directory_of_static_pods_is_not_changed_while_there_are_some_in_the_old_one(
    tmp_path: Path, check: bool
) -> None:
    old = tmp_path / "manifests"
    old.mkdir()
    (tmp_path / "config.yaml").write_text(f"staticPodPath: {old}\n", encoding="utf-8")
    (old / "proxy.yaml").touch()
    with pytest.raises(KubeError, match=r"which holds proxy\.yaml: with /new these pods would end"):
        keep(tmp_path, {"staticPodPath": "/new"}, check=check)


@pytest.mark.parametrize("check", [True, False])
def test_a_node_on_which_jobs_stand_is_refused_another_directory_and_told_to_be_drained(
    tmp_path: Path, check: bool
) -> None:
    old = tmp_path / "placeholders"
    old.mkdir()
    config = f"staticPodPath: {old}\n"
    (tmp_path / "config.yaml").write_text(config, encoding="utf-8")
    (old / "lease-pbs-15-srv-r1.json").touch()
    with pytest.raises(KubeError, match=r"holds lease-pbs-15-srv-r1\.json: .*drain the node in the batch system"):
        keep(tmp_path, {"staticPodPath": "/run/converged-placeholders"}, check=check)
    assert (tmp_path / "config.yaml").read_text(encoding="utf-8") == config


@pytest.mark.parametrize("check", [True, False])
def test_the_way_back_shows_what_it_changes(check: bool) -> None:
    with world_in_a_folder() as world:
        line = {"path": "/etc/lines.conf", "line": "maxPods: 50"}
        call(world, FakeNode(world), {"role": "kubelet_config", "lines": [line]})
        found = kubelet.take_back(Session(FakeNode(world), RECORD, wait=0), check=check)
        (shown,) = found["diff"]
        assert (found["changed"], found["left"]) == (True, [])
        assert shown["before_header"] == "/etc/lines.conf"
        assert shown["before"] == shown["after"] + "maxPods: 50\n"


class Answer(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, format: str, *args: t.Any) -> None:
        """Says nothing."""


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (500, False)])
def test_a_kubelet_is_healthy_when_it_says_so(tmp_path: Path, status: int, healthy: bool) -> None:
    path = tmp_path / "config.yaml"
    with HTTPServer(("127.0.0.1", 0), type("Answers", (Answer,), {"status": status})) as server:
        path.write_text(f"kind: KubeletConfiguration\nhealthzPort: {server.server_port}\n")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            if healthy:
                kubelet.await_healthy(str(path), unit="kubelet.service", timeout=120)
            else:
                with pytest.raises(KubeError, match=r"kubelet\.service: is not healthy"):
                    kubelet.await_healthy(str(path), unit="kubelet.service", timeout=0.3)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("line", "asked"), [("healthzPort: 0\n", []), ("healthzPort: 1\n", [1]), ("", [10248])])
def test_only_a_kubelet_without_a_health_port_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, asked: list[int]
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(kubelet, "_healthy", lambda port: not seen.append(port))  # type: ignore[func-returns-value]
    path = tmp_path / "config.yaml"
    path.write_text(f"kind: KubeletConfiguration\n{line}")
    kubelet.await_healthy(str(path), unit="kubelet.service", timeout=0)
    assert seen == asked
