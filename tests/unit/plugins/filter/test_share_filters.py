# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbooks ask about a run: which hosts are pending, what a way back has proved, who has a node now."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.filter import share_pending, share_proof, share_status, slurm_jobs
from hypothesis import given
from hypothesis import strategies as st

PENDING = share_pending.FilterModule().filters()["share_pending"]
PROOF = share_proof.FilterModule().filters()["share_proof"]
STATUS = share_status.FilterModule().filters()["share_status"]
SUMMARY = share_status.FilterModule().filters()["share_summary"]
JOBS_ON = slurm_jobs.FilterModule().filters()["slurm_jobs_on"]
DONE = {"inventory_hostname_short": "n1", "__share_preflight_host": {"found": {"enabled": True}}}


@pytest.mark.parametrize(
    ("found", "pending"),
    [
        ({}, False),
        ({"__node_runtime_state": {"changed": False}}, False),
        ({"__node_runtime_state": {"changed": True}}, True),
        ({"__node_runtime_state": None}, False),
        ({"__share_preflight_host": {"found": {"enabled": False}}}, True),
        ({"__share_preflight_host": {"failed": True}}, True),
        ({"__node_kubelet_labelled": {"labelled": {"n1": {"a": "b"}}}}, True),
        ({"__node_kubelet_labelled": {"labelled": {"n2": {"a": "b"}}}}, False),
        ({"__node_kubelet_admitted": {"untainted": ["n1"]}}, True),
        ({"__node_kubelet_admitted": {"untainted": ["n1"]}, "converged_kube_node": "other"}, False),
    ],
)
def test_a_node_is_pending_where_a_role_would_change_it_or_its_scripts_are_inert(
    found: dict[str, Any], pending: bool
) -> None:
    assert PENDING({"n1": {**DONE, **found}}, ["n1"]) == (["n1"] if pending else [])


@pytest.mark.parametrize("kind", sorted(share_pending.RESULTS))
@given(data=st.data())
def test_a_host_is_pending_for_every_single_result_that_has_changed(kind: str, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(share_pending.RESULTS[kind]))
    way = data.draw(
        st.sampled_from(
            [
                {"changed": True},
                {"changed": False, "would_change": True},
                {"changed": False, "results": [{"changed": False}, {"changed": False, "would_change": True}]},
                {"changed": False, "result": {"results": [{"changed": True}]}},
            ]
        )
    )
    hosts = {"a": {**DONE, name: way}, "b": {**DONE, name: {"changed": False, "would_change": False}}}
    assert PENDING(hosts, ["a", "b"], kind) == ["a"]


def test_a_kind_that_there_is_not_is_an_error() -> None:
    with pytest.raises(AnsibleFilterError, match="'nodes': expected one of slurm, pbs, controller, node"):
        PENDING({}, [], "nodes")


def test_a_proof_is_that_of_all_steps_and_names_what_no_step_could_remove() -> None:
    first = {"proved": ["/a", "/b"], "left": [], "site": ["/s"], "found_record": True, "shared": ["/c"]}
    known = {
        "__node_share_restored": {"report": first},
        "__node_share_left": {"left": ["u.service: exit 1"]},
        "__node_kubelet_left": {"left": ["mount /x: busy"]},
        "__node_runtime_emptied": {"left": ["/var/x: busy"]},
        "__restore": {"report": {"proved": ["/b", "/c"], "left": ["/l: not ours"], "found_record": False}},
        "__restore_api": {"left": ["Node objects: no answer"]},
    }
    proof = PROOF(known)
    assert (proof["proved"], proof["site"], proof["shared"]) == (["/a", "/b", "/c"], ["/s"], [])
    assert proof["left"] == [
        "/l: not ours",
        "u.service: exit 1",
        "mount /x: busy",
        "/var/x: busy",
        "Node objects: no answer",
    ]
    assert proof["found_record"] is True
    assert PROOF({})["found_record"] is False


def fact(**sharing: Any) -> dict[str, Any]:
    state = {"enabled": True, "services": {"kubelet": "active"}, "node": {}, "error": "", **sharing}
    return {"present": True, "summary": "held by node_share: 1 path", "sharing": state}


def host(**sharing: Any) -> dict[str, Any]:
    return {
        "inventory_hostname": "n1.site",
        "inventory_hostname_short": "n1",
        "group_names": ["converged_nodes"],
        "ansible_facts": {"converged_share": fact(**sharing)},
    }


SHOWN = {"phase": "held", "way": "quiesce", "off": False, "leases": [{"wlm": "slurm", "job": "7", "run": "0"}]}
KUBE = {
    "n1": {"ready": True, "unschedulable": True, "taints": ["converged.hpc/batch:NoSchedule"], "held_by": "slurm/7/0"}
}


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([{"name": "n1", "host": "n1", "states": ["offline", "down"]}], "PBS down+offline"),
        (
            [{"name": f"n1[{one}]", "host": "n1", "states": [state]} for one, state in enumerate(["free", "job-busy"])],
            "PBS free+job-busy",
        ),
        ([{"name": "n2", "host": "n2", "states": ["free"]}], "not in PBS"),
        (None, "PBS unknown"),
    ],
)
def test_a_node_of_pbs_is_told_by_the_states_of_its_vnodes(nodes: list[dict[str, Any]] | None, said: str) -> None:
    known = {**host(), "converged_wlm": "pbs"}
    answer = {"msg": "no answer"} if nodes is None else {"nodes": nodes}
    assert f"; {said}; Kubernetes unknown" in STATUS(known, None, answer)


def test_a_node_is_told_as_it_sees_itself_and_as_both_clusters_see_it() -> None:
    slurm = {"nodes": [{"name": "n1", "state": "ALLOCATED", "flags": ["DRAIN"]}]}
    assert STATUS(host(node=SHOWN), {"nodes": KUBE}, slurm) == (
        "n1.site: held by node_share: 1 path; mode handover; batch scripts act; node held by quiesce; "
        "leases slurm/7/0; kubelet active; Slurm ALLOCATED+DRAIN; "
        "Kubernetes Ready cordoned converged.hpc/batch:NoSchedule, held by slurm/7/0"
    )


def test_what_did_not_answer_is_unknown_and_never_nothing() -> None:
    line = STATUS(host(error="disk is full", services={}), {"failed": True}, None)
    assert "nodeshare does not answer: disk is full" in line
    assert line.endswith("kubelet unknown; Slurm unknown; Kubernetes unknown")


def summed(**hosts: dict[str, Any]) -> list[str]:
    return list(SUMMARY(hosts, list(hosts)))


def test_a_site_is_summed_up_with_the_hosts_that_need_a_look() -> None:
    open_node = {"phase": "open", "way": "", "off": False, "leases": []}
    ready = {"ready": True, "unschedulable": False}
    nodes = {"n1": ready, "n2": {**ready, "ready": False}}
    bare = {"present": False, "summary": "nothing", "sharing": {}}
    kept = {**host(), "inventory_hostname_short": "n5", "ansible_facts": {"converged_share": bare}}
    assert summed(
        n1={**host(node=SHOWN), "__status_kube": {"nodes": nodes}},
        n2={**host(node=open_node), "inventory_hostname_short": "n2"},
        n3={**host(node={**open_node, "off": True}), "inventory_hostname_short": "n3"},
        n4={"group_names": ["converged_nodes"]},
        n5=kept,
        n6={**kept, "group_names": ["converged_nodes", "converged_shared"]},
        ctl={**host(services={"converged-controller": "failed"}), "group_names": ["converged_controllers"]},
    ) == [
        "5 nodes: 1 shared, held, 1 shared, open, 1 shared, switched off, 2 with jobs alone",
        "look at n6: in converged_shared, and not converted",
        "look at n3: not in Kubernetes",
        "look at n4: not reached",
        "look at n2: open, and not Ready in Kubernetes",
        "look at ctl: the controller's service is not active",
    ]


def test_where_nothing_needs_a_look_the_summary_says_so() -> None:
    assert summed(n1=host(node=SHOWN)) == ["1 node: 1 shared, held", "nothing needs a look"]


BARE = {"present": False, "summary": "nothing", "sharing": {"enabled": False, "services": {}, "node": {}, "error": ""}}
OPEN = {"phase": "open", "way": "", "off": False, "leases": []}
UNCONVERTED = "look at n1: in converged_shared, and not converted"
INERT = "look at n1: batch scripts are inert, so pods do not make way for jobs"
SERVICELESS = "look at ctl: a batch controller without the controller's service"


def looks(**hosts: dict[str, Any]) -> list[str]:
    """Return all lines but the first, which counts."""
    return summed(**hosts)[1:]


@pytest.mark.parametrize(
    ("sharing", "said"),
    [
        ({"node": OPEN, "enabled": False}, INERT),
        ({"node": SHOWN, "enabled": False}, INERT),
        ({"node": {**OPEN, "off": True}, "enabled": False}, "nothing needs a look"),
        ({"node": {}, "enabled": False}, "nothing needs a look"),
        ({"node": OPEN, "enabled": True}, "nothing needs a look"),
    ],
)
def test_a_node_with_nodeshare_and_inert_scripts_needs_a_look_unless_it_is_switched_off(
    sharing: dict[str, Any], said: str
) -> None:
    assert looks(n1=host(**sharing)) == [said]


def test_inert_scripts_are_no_look_at_a_host_that_is_no_node() -> None:
    serves = {"converged-controller": "active"}
    ctl = {**host(node=OPEN, enabled=False, services=serves), "group_names": ["converged_controllers"]}
    assert looks(ctl=ctl) == ["nothing needs a look"]


@pytest.mark.parametrize(
    ("sharing", "said"),
    [
        ({"node": {}, "enabled": False}, UNCONVERTED),
        ({"node": None, "enabled": False}, UNCONVERTED),
        ({"node": {}, "error": "exit 1"}, "look at n1: nodeshare does not answer"),
        ({"node": OPEN}, "nothing needs a look"),
    ],
)
def test_a_node_that_has_the_scripts_alone_is_not_converted(sharing: dict[str, Any], said: str) -> None:
    assert looks(n1={**host(**sharing), "group_names": ["converged_nodes", "converged_shared"]}) == [said]


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("__status_kube", "Kubernetes"),
        ("__status_slurm", "Slurm"),
        ("__status_pbs", "PBS"),
        ("__status_torque", "Torque"),
    ],
)
@pytest.mark.parametrize(
    ("answer", "silent"),
    [
        ({"failed": False, "msg": "no answer"}, True),
        ({"unreachable": True, "msg": "refused"}, True),
        ({"skipped": True}, False),
        ({"nodes": {"n1": {"ready": True}}}, False),
        (None, False),
    ],
)
def test_a_cluster_that_was_asked_and_did_not_answer_needs_one_look(
    name: str, system: str, answer: dict[str, Any] | None, silent: bool
) -> None:
    known = {**host(node=OPEN), name: answer} if answer else host(node=OPEN)
    said = f"look at {system}: it did not answer" if silent else "nothing needs a look"
    assert looks(n1=known, n2={**known, "inventory_hostname_short": "n1"}) == [said]


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (host(node=OPEN), SERVICELESS),
        (host(), "nothing needs a look"),
        ({"group_names": []}, "look at n1: not reached"),
    ],
)
def test_a_controller_on_which_nothing_is_needs_a_look_where_a_node_is_shared(node: dict[str, Any], said: str) -> None:
    ctl = {"group_names": ["converged_controllers"], "ansible_facts": {"converged_share": BARE}}
    assert looks(ctl=ctl, n1=node) == [said]


@pytest.mark.parametrize(
    ("state", "node", "found"),
    [
        ("RUNNING", "n1", ["7/1"]),
        ("COMPLETING", "n1", ["7/1"]),
        ("PENDING", "n1", []),
        ("RESIZING", "n1", ["7/1"]),
        ("STAGE_OUT", "n1", []),
        ("COMPLETED", "n1", []),
        ("RUNNING", "n10", []),
    ],
)
def test_a_job_holds_its_nodes_from_their_allocation_until_they_are_clean(
    state: str, node: str, found: list[str]
) -> None:
    assert JOBS_ON([{"id": 7, "run": 1, "state": state, "nodes": ["n1", "n2"]}], node) == found
