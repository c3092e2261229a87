# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site brings along: the kubelet's programs from a web server with checksums, and a runtime of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e import listing, playing
from e2e.beds import own_bed
from testbed import api

pytestmark = pytest.mark.seconds(120)

BED = f"sources-{os.getpid()}"
NODE = "n1"
PORT = 8099
# systemd keeps a target that was reached; the kubelet's unit wants it.
NOT_RESTORED = {"unit network-online.target"}
RESTORE = ("node_kubelet/restore", "node_runtime/restore")
CORES = "cd /sys/fs/cgroup; cat cpuset/kubepods/cpuset.cpus || cat kubepods/cpuset.cpus.effective"
SERVE = ("systemd-run", "--unit=programs", "python3", "-m", "http.server", str(PORT), "--directory=/opt/testbed/bin")


@pytest.fixture(scope="module")
def plain(request: pytest.FixtureRequest) -> Iterator[api.RunningBed]:
    """A plain node and a control plane."""
    with own_bed(request, BED, "--wlm", "none", "--nodes", "1") as bed:
        yield bed


class Site(playing.Site):
    """The administrator's folder."""

    def __init__(self, bed: api.RunningBed, folder: Path) -> None:
        super().__init__(bed, folder)
        self.set("converged_nodes", **playing.IN_CONTAINERS)

    def play(self, *roles: str, check: bool = True, **variables: Any) -> playing.Said:
        return self.run([playing.play("converged_nodes", *roles)], check=check, **variables)

    def shell(self, command: str) -> str:
        return self.bed.exec(NODE, ["sh", "-c", command]).out

    def ready(self) -> bool:
        node = json.loads(self.bed.kubectl("get", "node", NODE, "--output=json"))
        return any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])


@pytest.fixture
def site(plain: api.RunningBed, tmp_path: Path) -> Iterator[Site]:
    """However a test ends, the next one begins with a plain node."""
    found = Site(plain, tmp_path)
    yield found
    if plain.exec(NODE, ["test", "-e", "/var/lib/converged"], check=False).rc == 0:
        found.play("node_share/restore", *RESTORE, check=False)


@pytest.fixture
def from_a_server(site: Site) -> Iterator[dict[str, Any]]:
    """The variables of a site that keeps the programs on a web server."""
    server = site.bed.bed.host("kube")
    site.bed.exec(server.name, list(SERVE))
    said = site.bed.exec(NODE, ["sha256sum", "/opt/testbed/bin/kubelet", "/opt/testbed/bin/kubeadm"]).out
    sums = {Path(path).name: digest for digest, path in map(str.split, said.splitlines())}
    yield {
        "node_kubelet_source": "url",
        "node_kubelet_url": f"http://{server.ip}:{PORT}",
        "node_kubelet_checksums": sums,
        "node_kubelet_cache": str(site.folder / "cache"),
    }
    site.bed.exec(server.name, ["systemctl", "stop", "programs"])


def test_programs_come_from_a_server_once_and_only_with_the_right_checksum(
    site: Site, from_a_server: dict[str, Any]
) -> None:
    before = site.listing(NODE)
    wrong = {
        **from_a_server,
        "node_kubelet_checksums": {**from_a_server["node_kubelet_checksums"], "kubeadm": "0" * 64},
    }
    refused = site.play("node_kubelet", check=False, **wrong)
    assert refused.rc != 0
    assert "did not match" in refused.out, refused.out
    assert listing.difference(before, site.listing(NODE)) == {}

    site.play("node_runtime", "node_kubelet", **from_a_server)
    playing.until(site.ready, "the node is ready")
    installed = site.bed.exec(NODE, ["sha256sum", "/usr/local/bin/kubelet"]).out.split()[0]
    assert installed == from_a_server["node_kubelet_checksums"]["kubelet"]

    site.bed.exec("kube", ["systemctl", "stop", "programs"])
    assert site.play("node_runtime", "node_kubelet", **from_a_server).changed()[NODE] == 0
    site.bed.exec("kube", list(SERVE))

    site.play(*RESTORE, **from_a_server)
    left = listing.difference(before, site.listing(NODE))
    assert set(left) <= NOT_RESTORED, left


def test_a_runtime_of_the_site_is_used_by_its_socket_and_comes_back_although_a_job_has_stopped_it(site: Site) -> None:
    site.play("node_runtime")
    # The record gone, the runtime is as if the site had put it there.
    site.bed.exec(NODE, ["rm", "-r", "/var/lib/converged"])
    playing_with: dict[str, Any] = {
        "node_runtime_manage": False,
        "node_share_handover": "stop",
        "converged_record_copy_dir": str(site.folder / "own"),
    }
    before = site.listing(NODE)

    site.play("node_share", "node_runtime", "node_kubelet", **playing_with)
    playing.until(site.ready, "the node is ready")
    assert site.play("node_share", "node_runtime", "node_kubelet", **playing_with).changed()[NODE] == 0

    cores = site.shell(CORES)
    site.shell("nodeshare begin --wlm slurm --job 1")
    assert site.shell("systemctl is-active containerd kubelet || true").split() == ["inactive", "inactive"]
    assert site.shell(CORES) == "0\n"
    site.play("node_share/restore", **playing_with)
    running = "systemctl is-active containerd kubelet || true"
    playing.until(  # a kubelet that was quicker than its runtime starts once more
        lambda: site.shell(running).split() == ["active", "active"], "both run again"
    )
    assert site.shell(CORES) == cores != "0\n"

    site.play(*RESTORE, **playing_with)
    left = listing.difference(before, site.listing(NODE))
    assert not {name for name in left if not name.startswith("/var/lib/containerd")} - NOT_RESTORED, left
    assert site.shell("systemctl is-active containerd") == "active\n"
