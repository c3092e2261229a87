# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbooks ask about a run: which hosts are pending, what a way back has proved, which jobs have a node."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.filter import share_pending, share_proof, slurm_jobs
from hypothesis import given
from hypothesis import strategies as st

PENDING = share_pending.FilterModule().filters()["share_pending"]
PROOF = share_proof.FilterModule().filters()["share_proof"]
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
