# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role node_runtime writes for each network and each distribution, and which hosts must reach the API."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from rehearsals.conftest import HOSTS, Rehearsal

CONFIG = "/etc/containerd/config.toml"
AT_BOOT = "/etc/tmpfiles.d/90-converged-node-runtime.conf"
SANDBOX = "0123456789abcdef" * 4


def written(rehearsal: Any, family: str, **given: Any) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """Return the packages, containerd's configuration and the contents of all files by path."""
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
    return call.args["packages"], tomllib.loads(files[CONFIG]), files


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
    assert AT_BOOT not in files, "what CNI keeps of an add-on's network is the add-on's"


def test_a_runtime_of_the_site_keeps_what_cni_remembers(rehearsal: Any) -> None:
    given = {"node_runtime_manage": False, "node_runtime_pod_cidr": "10.244.1.0/24"}
    done = rehearsal.role("node_runtime", "main", hosts="n1", **given)
    assert done.passed, done.said
    (call,) = (call for call in done.calls if call.module == "node_state")
    assert call.args["files"] == []


def test_a_boot_and_nothing_else_forgets_the_sandboxes_of_the_bridge_and_no_others(
    rehearsal: Any, tmp_path: Path
) -> None:
    _packages, _config, files = written(rehearsal, "Debian", node_runtime_pod_cidr="10.244.1.0/24")
    name = files["/etc/cni/net.d/10-converged.conflist"]["name"]
    ours = {f"results/{name}-{SANDBOX}-eth0", f"networks/{name}/10.244.1.2", f"networks/{name}/last_reserved_ip.0"}
    others = {
        f"results/calico-{SANDBOX}-eth0",
        f"results/{name}-lab-{SANDBOX}-eth0",
        f"networks/{name}-lab/10.1.0.2",
        "networks/podman/10.88.0.2",
        "cache/of-another-plugin",
    }
    root = tmp_path / "node"
    cni = root / "var/lib/cni"
    for path in (root / AT_BOOT[1:], *(cni / one for one in ours | others)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (root / AT_BOOT[1:]).write_text(files[AT_BOOT], encoding="utf-8")

    def left(*options: str) -> set[str]:
        argv = ["systemd-tmpfiles", f"--root={root}", "--create", "--remove", *options]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return {str(path.relative_to(cni)) for path in cni.rglob("*") if path.is_file()}

    assert left() == ours | others, "packages and administrators call it while pods run"
    assert left("--boot") == others
    assert (cni / f"networks/{name}").is_dir(), "the folder keeps its owner and its context"


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
    done = rehearsal.playbook("site", "--check", "--tags", "share_preflight", **given)
    tried = {call.host: call.args["api_server"] for call in done.calls if call.module == "share_node_info"}
    assert tried == {"ctl": address, "n1": address, "n2": ""}, done.said


def test_a_controller_that_is_a_node_of_jobs_alone_tries_to_reach_the_api_as_well(stage: Any, tmp_path: Path) -> None:
    hosts = {**HOSTS, "converged_controllers": ["n2"], "converged_shared": ["n1"]}
    rehearsal = Rehearsal(stage, tmp_path, hosts)
    rehearsal.answer({"api_server": "https://vip:6443"}, module="kube_info")
    done = rehearsal.playbook("site", "--check", "--tags", "share_preflight")
    tried = {call.host: call.args["api_server"] for call in done.calls if call.module == "share_node_info"}
    assert tried == {"n1": "https://vip:6443", "n2": "https://vip:6443"}, done.said
