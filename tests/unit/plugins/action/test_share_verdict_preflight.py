# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""share_verdict: what is judged of each host, and what is said in the end."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.action.share_verdict import answer, aside, left_out, result, seen
from ansible_collections.converged.hpc.plugins.module_utils._preflight import report
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import (
    CLUSTER,
    LEFT_OUT,
    SCRIPTS,
    Finding,
    Verdict,
)
from ansible_collections.converged.hpc.plugins.modules.kube_info import described

SWAP = Finding("refuse", "swap", "swap is on", "turn it off")
PORT = Finding("refuse", "port", "port 10250 is taken")


def test_what_was_registered_is_judged() -> None:
    got = {"wanted": {"wlm_node": "n1"}, "found": {"swap": []}, "offset": [0, 1], "changed": False}
    assert seen("n1", {"r": got}, "r", {}) == {"wanted": {"wlm_node": "n1"}, "found": {"swap": []}, "offset": [0, 1]}


@pytest.mark.parametrize(
    ("variables", "error"),
    [
        ({}, ""),
        ({"r": {"unreachable": True, "msg": "no route\n to host"}}, "no route to host"),
        ({"r": {"failed": True, "msg": "sudo: a password is required"}}, "sudo: a password is required"),
    ],
)
def test_a_host_without_an_answer_is_known_by_the_inventory(variables: dict[str, t.Any], error: str) -> None:
    groups = {"converged_nodes": ["n1.example.org"], "converged_shared": ["n2"]}
    found = seen("n1.example.org", {"converged_wlm_node": "x1", **variables}, "r", groups)
    wanted = {"wlm_node": "x1", "kube_node": "n1", "is_node": True, "is_shared": False}
    assert found == {"wanted": wanted, "error": error}


def test_hosts_that_the_inventory_leaves_out_are_excepted_by_their_name_in_the_batch_system() -> None:
    hostvars = {"n1.example.org": {}, "n2": {"converged_wlm_node": "x2"}, "n3": {}}
    assert left_out({"converged_excepted": ["n1.example.org", "n2"]}, hostvars) == ["n1", "x2"]
    assert left_out({"all": ["n3"]}, hostvars) == []


def test_an_answer_that_failed_is_only_its_reason() -> None:
    assert answer({"version": "22.05", "nodes": []}) == {"version": "22.05", "nodes": []}
    assert answer({"msg": "timed out\nafter 60 s", "rc": 1}) == {"error": "timed out after 60 s"}
    assert answer({}) == {"error": "it was not asked"}


def test_nodes_of_the_inventory_that_a_run_does_not_go_to_are_known() -> None:
    groups = {"converged_nodes": ["n1", "n2", "n3"], "converged_excepted": ["n3"]}
    hostvars = {"n1": {}, "n2": {"converged_wlm_node": "x2"}, "n3": {}}
    assert aside(groups, hostvars, ["n1", "ctl"]) == ["x2"]


def test_a_failure_counts_refusals_and_repeats_none_of_what_was_said() -> None:
    found = result({CLUSTER: Verdict(()), "n1": Verdict((SWAP, PORT)), "n2": Verdict(()), "n3": Verdict((SWAP,))})
    assert found == {
        "changed": False,
        "failed": True,
        "msg": "Refused, and nothing was touched: swap (2 hosts), port (1 host); see above.",
    }


def test_without_a_refusal_nothing_fails_and_what_is_left_out_is_named() -> None:
    warned = Verdict((SWAP._replace(level="warn"),))
    found = result({CLUSTER: warned, "n1": Verdict(()), "n2": Verdict((), SCRIPTS), "n3": Verdict((), LEFT_OUT)})
    assert (found["failed"], found["changed"], found["left_out"]) == (False, False, ["n3"])
    assert found["msg"] == "fit to be shared: 1; fit for scripts that do nothing: 1; left out of this run: 1"


def test_a_finding_is_said_once_with_all_its_hosts() -> None:
    found = {host: [SWAP] for host in ("n1", "n2", "n3")} | {CLUSTER: [PORT._replace(level="note")]}
    assert report.lines(found) == [
        ("refuse", "refuse [swap] n[1-3]: swap is on: turn it off"),
        ("note", "note [port] (cluster): port 10250 is taken"),
    ]


def test_findings_that_differ_in_an_address_alone_are_shown_for_some_hosts_and_counted_for_the_rest() -> None:
    found = {
        f"n{at}": [Finding("refuse", "node_ip", f"several networks (10.0.0.{at})", "say which")] for at in range(600)
    }
    lines = [line for _level, line in report.lines(found)]
    assert lines == [
        *(f"refuse [node_ip] n{at}: several networks (10.0.0.{at}): say which" for at in range(3)),
        "refuse [node_ip] and the same kind of finding on n[3-599]",
    ]


def test_of_a_node_object_what_is_compared_is_kept() -> None:
    node = {
        "metadata": {"annotations": {"converged.hpc/held-by": "slurm/7/0"}},
        "spec": {"unschedulable": True, "taints": [{"key": "converged.hpc/batch", "effect": "NoSchedule"}]},
        "status": {
            "addresses": [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://1.6.20"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    found = {
        "kubelet": "v1.36.3",
        "runtime": "containerd://1.6.20",
        "addresses": ["10.0.0.1"],
        "ready": True,
        "unschedulable": True,
        "taints": ["converged.hpc/batch:NoSchedule"],
        "held_by": "slurm/7/0",
    }
    assert described({"n1": node}) == {"n1": found}
    assert described({"n2": {"spec": {}}})["n2"]["ready"] is False
