# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role node_runtime writes for each network and each distribution, and which hosts must reach the API."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from unit.rehearsals.conftest import HOSTS, Rehearsal

CONFIG = "/etc/containerd/config.toml"


def written(rehearsal: Any, family: str, **given: Any) -> tuple[list[str], dict[str, Any], set[str]]:
    """Return the packages, containerd's configuration and the paths of all files."""
    rehearsal.answer({"found": {"family": family}}, module="share_node_info")
    play = {
        "hosts": "n1",
        "gather_facts": False,
        "tasks": [
            {"converged.hpc.share_node_info": {}, "register": "__share_preflight_host"},
            {"import_role": {"name": "converged.hpc.node_runtime"}},
        ],
    }
    done = rehearsal.play([play], **given)
    assert done.passed, done.said
    (call,) = (call for call in done.calls if call.module == "node_state")
    files = {one["path"]: one["content"] for one in call.args["files"]}
    return call.args["packages"], tomllib.loads(files[CONFIG]), set(files)


@pytest.mark.parametrize(
    ("family", "package", "plugins"),
    [
        ("Debian", "containernetworking-plugins", "/usr/lib/cni"),
        ("RedHat", "containernetworking-plugins", "/usr/libexec/cni"),
        ("Suse", "cni-plugins", "/usr/lib/cni"),
    ],
)
def test_the_bridge_has_its_plugins_from_the_distribution(
    rehearsal: Any, family: str, package: str, plugins: str
) -> None:
    packages, config, files = written(rehearsal, family, node_runtime_pod_cidr="10.244.1.0/24")
    assert package in packages
    assert config["plugins"]["io.containerd.grpc.v1.cri"]["cni"]["bin_dir"] == plugins
    assert "/etc/cni/net.d/10-converged.conflist" in files


def test_an_add_on_finds_its_plugins_and_its_drop_in_read(rehearsal: Any) -> None:
    _packages, config, files = written(rehearsal, "Debian")
    assert config["plugins"]["io.containerd.grpc.v1.cri"]["cni"]["bin_dir"] == "/opt/cni/bin"
    assert config["imports"] == ["/etc/containerd/conf.d/*.toml"]
    assert "/etc/cni/net.d/10-converged.conflist" not in files


def test_the_sites_own_folder_and_packages_count(rehearsal: Any) -> None:
    given = {"node_runtime_cni_bin_dir": "/srv/cni", "node_runtime_packages": ["containerd=1.7"]}
    packages, config, _files = written(rehearsal, "RedHat", node_runtime_pod_cidr="10.244.1.0/24", **given)
    assert packages == ["containerd=1.7"]
    assert config["plugins"]["io.containerd.grpc.v1.cri"]["cni"]["bin_dir"] == "/srv/cni"


def test_a_distribution_whose_packages_are_not_known_is_refused_with_a_way_out(rehearsal: Any) -> None:
    rehearsal.answer({"found": {"family": "Archlinux"}}, module="share_node_info")
    tasks = [
        {"converged.hpc.share_node_info": {}, "register": "__share_preflight_host"},
        {"import_role": {"name": "converged.hpc.node_runtime"}},
    ]
    done = rehearsal.play([{"hosts": "n1", "gather_facts": False, "tasks": tasks}])
    assert not done.passed
    assert "set node_runtime_manage to false and node_kubelet_socket" in " ".join(done.said.split())
    assert not [call for call in done.calls if call.module == "node_state"]


@pytest.mark.parametrize(
    ("given", "address"),
    [({}, "https://127.0.0.1:6443"), ({"converged_api_server": "https://vip:6443"}, "https://vip:6443")],
)
def test_the_hosts_that_need_the_api_try_to_reach_it_where_they_will(
    stage: Any, tmp_path: Path, given: dict[str, str], address: str
) -> None:
    rehearsal = Rehearsal(stage, tmp_path, {**HOSTS, "converged_shared": ["n1"]})
    rehearsal.answer({"api_server": "https://127.0.0.1:6443"}, module="kube_info")
    done = rehearsal.playbook("site", "--check", **given)
    assert done.passed, done.said
    tried = {call.host: call.args["api_server"] for call in done.calls if call.module == "share_node_info"}
    assert tried == {"ctl": address, "n1": address, "n2": ""}


def test_a_controller_that_is_a_node_of_jobs_alone_tries_to_reach_the_api_as_well(stage: Any, tmp_path: Path) -> None:
    hosts = {**HOSTS, "converged_controllers": ["n2"], "converged_shared": ["n1"]}
    rehearsal = Rehearsal(stage, tmp_path, hosts)
    rehearsal.answer({"api_server": "https://vip:6443"}, module="kube_info")
    done = rehearsal.playbook("site", "--check", "--tags", "share_preflight")
    tried = {call.host: call.args["api_server"] for call in done.calls if call.module == "share_node_info"}
    assert tried == {"n1": "https://vip:6443", "n2": "https://vip:6443"}, done.said
