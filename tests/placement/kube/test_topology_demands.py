# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What groups and pods of each API ask of racks: read as one request, or refused with field, found and expected."""

import json
from typing import Any

import pytest
from placement.graph.policies.register import POLICIES
from placement.graph.topology import Topology
from placement.kube.decode.pod import decode_pod
from placement.kube.dialects import BY_NAME
from placement.kube.fields.field_error import FieldError
from placement.kube.fields.metadata import Sharing
from placement.kube.write import requests
from placement.model.messages.action import Bind
from placement.model.objects.pod import Pod
from placement.model.objects.workload import (
    CONVERGED,
    COSCHEDULING,
    INCUBATOR,
    SIGS,
    UPSTREAM,
    UPSTREAM_ALPHA,
    VOLCANO,
    PodGroup,
    Queue,
)
from placement.model.rules.topology import MATCH_POLICIES, PATH, TopologyRequest
from placement_kit.builders import amounts, mine, node
from placement_kit.builders import queue as a_queue
from placement_kit.simulated import Simulated

Json = dict[str, Any]
RACK = "cloud.provider.com/topology-rack"
OURS = "converged.hpc/"
KUEUE = "kueue.x-k8s.io/podset-"
GANG: Json = {"schedulingPolicy": {"gang": {"minCount": 2}}}


def group(dialect: str, spec: Json, annotations: dict[str, str] | None = None) -> PodGroup:
    """A group as the API has it."""
    meta = {"uid": "g", "name": "g", "namespace": "team", "resourceVersion": "7", "annotations": annotations}
    read = BY_NAME[dialect].read_group
    assert read is not None
    return read(json.dumps({"metadata": meta, "spec": spec}).encode(), Sharing())


def a_pod(annotations: dict[str, str], labels: dict[str, str] | None = None) -> Pod:
    """A pod as the API has it."""
    meta = {"uid": "p", "name": "p", "namespace": "team", "resourceVersion": "7", "annotations": annotations}
    return decode_pod(json.dumps({"metadata": {**meta, "labels": labels}, "spec": {}}).encode(), Sharing())


def queue(spec: Json) -> Queue:
    """A queue of our own API."""
    read = BY_NAME[CONVERGED].read_queue
    assert read is not None
    meta = {"uid": "q", "name": "q", "resourceVersion": "7"}
    return read(json.dumps({"metadata": meta, "spec": spec}).encode(), Sharing())


@pytest.mark.parametrize("dialect", [UPSTREAM, UPSTREAM_ALPHA, INCUBATOR, SIGS, VOLCANO, COSCHEDULING])
def test_groups_of_every_api_ask_by_our_annotations(dialect: str) -> None:
    found = group(
        dialect,
        {},
        {
            f"{OURS}required-topology": "zone",
            f"{OURS}preferred-topology": "rack, switch",
            f"{OURS}exclusive-nodes": "true",
            f"{OURS}pods-per-node": "4",
            f"{OURS}match-policy": "locality",
        },
    )
    assert not found.unsupported
    assert found.topology == TopologyRequest(
        required=("zone",),
        preferred=("rack", "switch"),
        exclusive=True,
        per_node=4,
        policy="locality",
        field=f"{OURS}required-topology",
    )


def test_a_group_without_a_wish_asks_for_nothing() -> None:
    assert group(INCUBATOR, {}, {"converged.hpc/walltime": "60"}).topology is None
    assert a_pod({"converged.hpc/job-tag": "x"}).spec.topology is None
    assert a_pod({PATH: "a/r1"}).annotations == ()


@pytest.mark.parametrize(
    ("annotations", "topology"),
    [
        ({"required-topology": RACK}, TopologyRequest(required=(RACK,), field=f"{KUEUE}required-topology")),
        ({"preferred-topology": RACK}, TopologyRequest(preferred=(RACK,), field=f"{KUEUE}preferred-topology")),
        ({"unconstrained-topology": "true"}, TopologyRequest(field=f"{KUEUE}preferred-topology")),
        (
            {"required-topology": RACK, "group-name": "both"},
            TopologyRequest(required=(RACK,), sub_group="both", field=f"{KUEUE}required-topology"),
        ),
    ],
)
def test_pods_ask_by_the_annotations_of_kueue(annotations: dict[str, str], topology: TopologyRequest) -> None:
    found = a_pod({f"{KUEUE}{key}": value for key, value in annotations.items()})
    assert (found.spec.topology, found.spec.unsupported) == (topology, ())


def test_the_pod_sets_of_kueue_are_sub_groups() -> None:
    found = a_pod({f"{KUEUE}required-topology": RACK}, {"kueue.x-k8s.io/podset": "workers"})
    assert found.spec.topology is not None
    assert found.spec.topology.sub_group == "workers"


def test_pods_for_which_kueue_has_chosen_the_nodes_ask_for_nothing_more() -> None:
    assert a_pod({f"{KUEUE}required-topology": RACK}, {"kueue.x-k8s.io/tas": "true"}).spec.topology is None


@pytest.mark.parametrize(
    ("annotations", "field", "found"),
    [
        ({f"{OURS}pods-per-node": "many"}, f"{OURS}pods-per-node", "many"),
        ({f"{OURS}pods-per-node": "0"}, f"{OURS}pods-per-node", "0"),
        ({f"{OURS}pods-per-node": "9" * 5000}, f"{OURS}pods-per-node", "999"),
        ({f"{OURS}exclusive-nodes": "yes"}, f"{OURS}exclusive-nodes", "yes"),
        ({f"{OURS}match-policy": "best"}, f"{OURS}match-policy", "best"),
        ({f"{OURS}required-topology": "rack,,zone"}, f"{OURS}required-topology", "rack,,zone"),
        ({f"{OURS}required-topology": ",".join("abcdefghijklmnopq")}, f"{OURS}required-topology", "a,b"),
        ({f"{OURS}pods-per-node": "2", f"{OURS}spread-evenly": "true"}, f"{OURS}spread-evenly", "true"),
        (
            {f"{KUEUE}required-topology": RACK, f"{KUEUE}preferred-topology": RACK},
            f"{KUEUE}preferred-topology",
            RACK,
        ),
        ({f"{OURS}required-topology": "rack", f"{KUEUE}required-topology": RACK}, f"{KUEUE}required-topology", RACK),
        ({f"{KUEUE}slice-size": "2", f"{KUEUE}required-topology": RACK}, f"{KUEUE}slice-size", "2"),
    ],
)
def test_annotations_that_make_no_sense_are_refused_by_field(
    annotations: dict[str, str], field: str, found: str
) -> None:
    for said in (group(INCUBATOR, {}, annotations).unsupported, a_pod(annotations).spec.unsupported):
        assert len(said) == 1
        assert said[0].startswith(f"{field}: found ")
        assert found in said[0]
        assert ", expected " in said[0]
        assert len(said[0]) < 400


@pytest.mark.parametrize(
    ("wish", "topology"),
    [
        ({"mode": "hard", "highestTierAllowed": 2}, {"tier": 2, "tier_required": True}),
        ({}, {"tier": 1, "tier_required": True}),
        ({"mode": "soft", "highestTierAllowed": 2}, {"tier": 2}),
        ({"mode": "hard", "highestTierName": "rack"}, {"required": ("rack",)}),
        ({"mode": "soft", "highestTierName": "rack"}, {"preferred": ("rack",)}),
    ],
)
def test_volcano_s_network_topology_is_read(wish: Json, topology: Json) -> None:
    found = group(VOLCANO, {"networkTopology": wish})
    field = "highestTierName" if "highestTierName" in wish else "highestTierAllowed"
    assert found.topology == TopologyRequest(field=f"spec.networkTopology.{field}", **topology)
    assert not found.unsupported


@pytest.mark.parametrize("dialect", [UPSTREAM, UPSTREAM_ALPHA])
def test_upstream_s_topology_constraint_is_read(dialect: str) -> None:
    found = group(dialect, {**GANG, "schedulingConstraints": {"topology": [{"key": RACK}]}})
    assert found.topology == TopologyRequest(required=(RACK,), field="spec.schedulingConstraints.topology")
    assert not found.unsupported


def test_a_field_and_an_annotation_that_ask_for_two_things_are_refused() -> None:
    spec = {**GANG, "schedulingConstraints": {"topology": [{"key": RACK}]}}
    (said,) = group(UPSTREAM, spec, {f"{OURS}required-topology": "zone"}).unsupported
    assert (
        said == f"{OURS}required-topology: found ('zone',), expected nothing beside spec.schedulingConstraints.topology"
    )


def test_a_group_of_the_api_that_asks_for_a_rack_is_bound_in_one_and_its_bindings_say_which() -> None:
    api = Simulated(topology=Topology(levels=("rack",), labels=(RACK,)))
    for index in range(4):
        api.see(node(f"n{index}", labels=((RACK, f"r{(index + 1) // 2}"),)))
    api.see(a_queue("default"), group(INCUBATOR, {"minMember": 2}, {f"{OURS}required-topology": "rack"}))
    for index in range(2):
        api.see(mine(f"p{index}", group="g", request=amounts(cpu="4")))
    bodies = [json.loads(requests.bind(action).body) for action in api.run() if isinstance(action, Bind)]
    assert {body["target"]["name"] for body in bodies} == {"n1", "n2"}
    assert [body["metadata"]["annotations"][PATH] for body in bodies] == ["r1", "r1"]


def test_the_names_of_the_match_policies_are_those_of_the_graph() -> None:
    assert set(MATCH_POLICIES) == POLICIES.keys()


@pytest.mark.parametrize(
    ("spec", "placer"),
    [
        ({}, "columns"),
        ({"backedBy": "pbs"}, "pbs"),
        ({"placedBy": "pbs"}, "pbs"),
        ({"placedBy": "pbs", "backedBy": "pbs"}, "pbs"),
        ({"placedBy": "graph", "matchPolicy": "locality"}, "graph"),
    ],
)
def test_a_queue_says_what_chooses_its_nodes(spec: Json, placer: str) -> None:
    found = queue(spec)
    assert (found.placed_by, found.backed, found.reclaimable) == (placer, placer == "pbs", placer != "pbs")
    assert found.match_policy == spec.get("matchPolicy", "")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"placedBy": "luck"}, "spec.placedBy"),
        ({"placedBy": "graph", "backedBy": "pbs"}, "spec.placedBy"),
        ({"backedBy": "graph"}, "spec.backedBy"),
        ({"matchPolicy": "best"}, "spec.matchPolicy"),
    ],
)
def test_a_queue_that_names_no_placer_is_refused_by_field(spec: Json, field: str) -> None:
    with pytest.raises(FieldError, match=f"^{field}: "):
        queue(spec)


@pytest.mark.parametrize(
    ("tag", "expected"), [(None, {PATH: "a/r1"}), ("", {"converged.hpc/job-tag": "", PATH: "a/r1"})]
)
def test_a_binding_says_where_in_the_tree_the_node_is(tag: str | None, expected: dict[str, str]) -> None:
    request = requests.bind(Bind(uid="u", namespace="n", name="p", node="n1", tag=tag, selection="a/r1"))
    assert json.loads(request.body)["metadata"]["annotations"] == expected
    plain = requests.bind(Bind(uid="u", namespace="n", name="p", node="n1"))
    assert "annotations" not in json.loads(plain.body)["metadata"]
