# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role singularity_cri makes of the site's variables: its units, its files, and the policy for its nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.converged.hpc.plugins.filter import kube_nodes
from ansible_collections.converged.hpc.plugins.module_utils import _runtime
from ansible_collections.converged.hpc.plugins.module_utils._preflight.node import singularity

ROLES = Path(__file__).parents[2] / "roles"
ROLE = ROLES / "singularity_cri"
HOSTS = {
    "n1": {"inventory_hostname_short": "n1", "converged_runtime": "singularity_cri"},
    "n2": {"inventory_hostname_short": "n2"},
}


def rendered(name: str, **given: Any) -> Any:
    """Return a variable of the role as a play has it, with these of the site."""
    texts: dict[str, Any] = {"role_path": str(ROLE), "groups": {"converged_shared": ["n1", "n2"]}, "hostvars": HOSTS}
    for file in ("defaults/main.yml", "vars/main.yml"):
        texts.update(yaml.safe_load((ROLE / file).read_text(encoding="utf-8")))
    templar = Templar(loader=DataLoader(), variables={})
    templar.available_variables = {key: _trusted(value) for key, value in {**texts, **given}.items()}
    return templar.template(templar.available_variables[name])


def _trusted(value: Any) -> Any:
    if isinstance(value, str):
        return trust_as_template(value)
    if isinstance(value, dict):
        return {key: _trusted(one) for key, one in value.items()}
    return [_trusted(one) for one in value] if isinstance(value, list) else value


def test_units_start_in_the_order_runtime_bridge_kubelet() -> None:
    runtime, bridge = rendered("_singularity_cri_unit"), rendered("_singularity_cri_v1_unit")
    assert "Before=converged-cri-bridge.service kubelet.service" in runtime.splitlines()
    assert {"After=sycri.service", "Before=kubelet.service", "Wants=sycri.service"} < set(bridge.splitlines())
    assert rendered("_singularity_cri_v1_name") == singularity.BRIDGE


def test_the_unit_has_every_line_that_singularity_cri_was_found_to_need() -> None:
    lines = set(rendered("_singularity_cri_unit").splitlines())
    assert {"Restart=always", "KillMode=mixed", "TasksMax=infinity", "TimeoutStopSec=30", "Delegate=yes"} < lines
    cleaning = {line.partition("=")[0] for line in lines if "sycri-clean --socket /run/singularity.sock" in line}
    assert cleaning == {"ExecStartPre", "ExecStopPost"}


def test_every_file_of_the_bridge_that_changes_has_it_restarted() -> None:
    folders = {path.parent for path in ROLE.glob("files/cri_bridge/**/*.py")}
    assert rendered("_singularity_cri_v1_globs") == sorted(f"{folder}/*.py" for folder in folders)


def test_the_bridge_has_a_folder_of_its_own_whose_end_ends_no_lease() -> None:
    """systemd empties the folder when the bridge ends; leases of jobs lie in /run/converged."""
    lines = rendered("_singularity_cri_v1_unit").splitlines()
    assert {"Type=notify", "RuntimeDirectory=converged-cri", "RuntimeDirectoryMode=0700", "Restart=always"} < set(lines)
    (start,) = [line for line in lines if line.startswith("ExecStart=")]
    assert start == (
        "ExecStart=/usr/local/sbin/converged-cri-bridge --listen unix:///run/converged-cri/cri.sock"
        " --backend unix:///run/singularity.sock --cache-seconds 1.0"
        " --seccomp-profile /usr/local/etc/sycri/seccomp.json"
    )
    more = rendered("_singularity_cri_v1_unit", singularity_cri_v1_metrics="127.0.0.1:9417")
    assert " --metrics 127.0.0.1:9417 --cache-seconds" in more


def test_an_engine_in_a_folder_is_found_before_those_of_the_system() -> None:
    path = rendered("_singularity_cri_path", singularity_cri_engine_folder="/sw/engine")
    assert path.startswith("/sw/engine/libexec/singularity/bin:/sw/engine/bin:/usr/local/")
    assert rendered("_singularity_cri_path").startswith("/usr/local/libexec/singularity/bin:/usr/local/sbin:")


def test_the_program_comes_from_a_folder_from_a_link_or_from_an_address() -> None:
    def source(**given: Any) -> list[Any]:
        files = rendered("_singularity_cri_files", **given)
        return [file["src"] for file in files if file["path"] == "/usr/local/bin/sycri"]

    assert source(singularity_cri_folder="/srv") == ["/srv/sycri"]
    assert source(singularity_cri_folder="/srv", singularity_cri_folder_on="node") == []
    fetched = {"singularity_cri_url": "https://example.org/sycri", "singularity_cri_checksum": "0" * 64}
    (kept,) = source(**fetched, singularity_cri_cache="/cache")
    assert kept == f"/cache/sycri-{'0' * 64}"
    (download,) = rendered("_singularity_cri_downloads", **fetched)
    assert download["sum"] == "0" * 64


def test_a_profile_of_the_site_is_not_written_by_the_role() -> None:
    paths = {
        file["path"] for file in rendered("_singularity_cri_files", singularity_cri_seccomp_profile="/etc/site.json")
    }
    assert "/usr/local/etc/sycri/seccomp.json" not in paths
    assert "/usr/local/etc/sycri/seccomp.json" in {file["path"] for file in rendered("_singularity_cri_files")}


def test_crictl_asks_through_the_bridge_as_the_kubelet_does() -> None:
    (asked,) = [file for file in rendered("_singularity_cri_files") if file["path"] == "/etc/crictl.yaml"]
    assert asked["content"]["runtime-endpoint"] == "unix:///run/converged-cri/cri.sock"
    assert asked["content"]["image-endpoint"] == "unix:///run/converged-cri/cri.sock"
    paths = {file["path"] for file in rendered("_singularity_cri_files", singularity_cri_crictl_config="")}
    assert "/etc/crictl.yaml" not in paths


def test_the_profile_of_the_role_refuses_what_changes_the_kernel() -> None:
    profile = json.loads((ROLE / "files/seccomp.json").read_text(encoding="utf-8"))
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    (rule,) = profile["syscalls"]
    assert rule["action"] == "SCMP_ACT_ERRNO"
    assert {"bpf", "kexec_load", "init_module", "mount", "setns", "unshare", "reboot"} < set(rule["names"])


def test_the_pod_network_is_apart_from_that_of_containerd_which_may_run_beside_it() -> None:
    given = {"node_runtime_pod_cidr": "10.1.2.0/24"}
    config, network = rendered("_singularity_cri_config", **given), rendered("_singularity_cri_network", **given)
    assert config["cniConfDir"] == "/usr/local/etc/sycri/net.d"
    assert network["name"] == "converged-sycri"
    assert network["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.1.2.0/24"}]]
    assert "--network converged-sycri" in rendered("_singularity_cri_unit", **given)
    assert rendered("_singularity_cri_config")["cniConfDir"] == "/etc/cni/net.d"


def test_the_policy_is_for_these_nodes_alone_and_leaves_out_the_cluster_s_own_namespace() -> None:
    known = {"hostvars": HOSTS, "groups": {"converged_shared": ["n1", "n2"]}}
    assert [host for host in HOSTS if _runtime.LABEL in kube_nodes.kube_nodes([host], HOSTS)[host]] == ["n1"]
    text = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    assert text["_singularity_cri_label"] == _runtime.LABEL
    assert text["_singularity_cri_taint"] == _runtime.TAINT
    policy = rendered("_singularity_cri_policy", _singularity_cri_nodes=["n1"], **known)
    (nodes,) = [one["expression"] for one in policy["spec"]["variables"] if one["name"] == "nodes"]
    assert nodes == '["n1"]'
    selector = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert selector == [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]


def test_every_rule_of_the_policy_says_what_would_happen_to_the_pod() -> None:
    rules = rendered("_singularity_cri_policy", _singularity_cri_nodes=["n1"])["spec"]["validations"]
    written = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))["_singularity_cri_refused"]
    assert len(rules) == len(written) == 10
    for rule in rules:
        assert rule["expression"].startswith("!variables.here || ")
        assert _runtime.TAINT in rule["message"]


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        ("singularity_cri", ["kubelet.service", "converged-cri-bridge.service", "sycri.service"]),
        ("containerd", ["kubelet.service", "containerd.service"]),
    ],
)
def test_nodeshare_stops_the_services_of_the_runtime_that_the_node_has(runtime: str, expected: list[str]) -> None:
    text = yaml.safe_load((ROLES / "node_share/defaults/main.yml").read_text(encoding="utf-8"))["node_share_services"]
    templar = Templar(loader=DataLoader(), variables={"converged_runtime": runtime})
    assert templar.template(trust_as_template(text)) == expected
