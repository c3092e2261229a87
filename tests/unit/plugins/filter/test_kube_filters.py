# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the roles that put Kubernetes on nodes, as templates see them."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.filter.kube_nodes import (
    kube_become,
    kube_nodes,
    kube_nodes_of_pods,
    kube_reached,
    kube_taints,
)
from ansible_collections.converged.hpc.plugins.filter.share_mode_on_node import FilterModule
from ansible_collections.converged.hpc.plugins.filter.toml import to_toml

SHARE_MODE = "node-restriction.kubernetes.io/converged-share-mode"
FENCE = "node-restriction.kubernetes.io/converged-share-fence"
HOSTVARS = {
    "a.example.org": {"inventory_hostname_short": "a"},
    "b": {
        "inventory_hostname_short": "b",
        "converged_kube_node": "b.cluster",
        "converged_share_mode": "backed",
        "converged_wlm": "pbs",
        "converged_wlm_node": "B",
        "node_kubelet_labels": {"rack": 7},
    },
    "c": {"inventory_hostname_short": "c", "converged_kube_node": "a"},
}


def test_each_host_is_a_node_with_its_own_labels() -> None:
    assert kube_nodes(["a.example.org", "b"], HOSTVARS) == {
        "a": {SHARE_MODE: "handover"},
        "b.cluster": {
            "rack": "7",
            SHARE_MODE: "backed",
            "node-restriction.kubernetes.io/converged-batch-node": "B",
            FENCE: "cores",
        },
    }


@pytest.mark.parametrize(
    ("mode", "wlm", "fence", "labels"),
    [
        ("placeholder", "pbs", "split", {"node-restriction.kubernetes.io/converged-batch-node": "a", FENCE: "split"}),
        ("backed", "pbs", "counts", {"node-restriction.kubernetes.io/converged-batch-node": "a", FENCE: "counts"}),
        ("handover", "pbs", "split", {}),
        ("placeholder", "slurm", "split", {}),
    ],
)
def test_where_pods_run_beside_jobs_of_pbs_a_node_says_what_pbs_calls_it_and_what_keeps_them_apart(
    mode: str, wlm: str, fence: str, labels: dict[str, str]
) -> None:
    known = {"inventory_hostname_short": "a", "converged_share_mode": mode, "converged_wlm": wlm}
    known["node_share_fence"] = fence
    assert kube_nodes(["a"], {"a": known}) == {"a": {SHARE_MODE: mode, **labels}}


def test_a_pod_counts_on_its_node_when_it_is_ready_and_stays() -> None:
    def pod(node: str, ready: str, **metadata: str) -> dict[str, object]:
        conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": ready}]
        return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"conditions": conditions}}

    waiting = {"metadata": {}, "spec": {}, "status": {"phase": "Pending"}}
    leaving = pod("n3", "True", deletionTimestamp="2026-11-29T12:00:00Z")
    assert kube_nodes_of_pods([pod("n2", "True"), pod("n1", "True"), pod("n4", "False"), leaving, waiting]) == [
        "n1",
        "n2",
    ]


def test_a_host_that_has_no_result_or_has_failed_is_left_out() -> None:
    well = {"changed": False, "failed": False}
    hostvars = {
        "a": {"__done": well},
        "b": {"__done": {**well, "failed": True}},
        "c": {"__done": {}},
        "d": {"__else": well},
        "e": {"__done": {"changed": True, "skipped": True}},
    }
    assert kube_reached(hostvars, hostvars, "__done") == ["a", "e"]
    assert kube_reached(["b", "a"], hostvars, "__done") == ["a"]


def test_backed_nodes_have_a_taint_that_others_lose() -> None:
    assert kube_taints(["a.example.org", "b"], HOSTVARS)["converged.hpc/backed"] == ["b.cluster"]
    assert kube_taints(["a.example.org"], HOSTVARS)["converged.hpc/backed"] == []


def test_nodes_of_singularity_cri_have_a_label_and_a_taint_that_others_lose() -> None:
    limited = {"c": {"inventory_hostname_short": "c", "converged_runtime": "singularity_cri"}}
    known = {**HOSTVARS, **limited, "d": {"inventory_hostname_short": "d", "converged_runtime": "containerd"}}
    assert kube_taints(["a.example.org", "c", "d"], known)["converged.hpc/singularity-cri"] == ["c"]
    assert kube_taints(["a.example.org", "d"], known)["converged.hpc/singularity-cri"] == []
    found = kube_nodes(["a.example.org", "c", "d"], known)
    runtime = "node-restriction.kubernetes.io/converged-runtime"
    assert {node: labels.get(runtime) for node, labels in found.items()} == {
        "a": None,
        "c": "singularity_cri",
        "d": None,
    }


def test_jobs_show_on_a_backed_node_as_beside_other_pods() -> None:
    on_node = FilterModule().filters()["share_mode_on_node"]
    modes = ("handover", "placeholder", "backed", "borrow")
    assert [on_node(mode) for mode in modes] == ["handover", "placeholder", "placeholder", "borrow"]


def test_two_hosts_cannot_be_one_node() -> None:
    with pytest.raises(AnsibleFilterError, match="host c: another host is node a"):
        kube_nodes(["a.example.org", "c"], HOSTVARS)


def test_a_table_is_written_as_toml() -> None:
    assert to_toml({"version": 2, "a.b": {"on": True}}) == 'version = 2\n["a.b"]\non = true\n'


@pytest.mark.parametrize("value", ["text", {"a": None}])
def test_what_is_no_table_is_a_filter_error(value: object) -> None:
    with pytest.raises(AnsibleFilterError, match="to_toml"):
        to_toml(value)


@pytest.mark.parametrize(
    ("host", "known", "root"),
    [
        ("localhost", {}, False),
        ("localhost", {"ansible_connection": "ssh"}, True),
        ("kube", {"ansible_connection": "local"}, False),
        ("kube", {}, True),
    ],
)
def test_the_api_is_asked_as_root_but_from_the_machine_on_which_ansible_runs(
    host: str, known: dict[str, str], root: bool
) -> None:
    assert kube_become([host], {host: known}) == root
    assert kube_become([], {})
