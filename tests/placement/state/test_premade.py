# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a claim finds a volume is, after any history, what a walk through all volumes finds."""

import sys
from dataclasses import replace
from types import FrameType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from placement.model.messages.event import Deleted, Object, Upserted
from placement.model.objects.node import Node
from placement.model.objects.pod import Pod
from placement.model.objects.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from placement.model.rules.selector import NodeSelectorTerm, Operator, Requirement
from placement.state.cluster import Cluster
from placement_kit.builders import node, pairs, pod

NAMES, SIZES = ("n1", "n2", "n3"), (5, 10)
# Terms that name hosts, that are of another kind, and none.
TIES = (
    (NodeSelectorTerm((Requirement("host", Operator.IN, ("n1",)),)),),
    (NodeSelectorTerm((Requirement("host", Operator.IN, ("n2", "n3")),)),),
    (NodeSelectorTerm((Requirement("rack", Operator.IN, ("r",)),)),),
    (NodeSelectorTerm((Requirement("rack", Operator.DOES_NOT_EXIST),)),),
    None,
)
CLAIMS = tuple(
    PersistentVolumeClaim(uid=f"c{size}", namespace="team", name=f"c{size}", version=1, storage_class="d", size=size)
    for size in SIZES
)
# These would like what the others would, one of them with less than all of it.
RIVALS = (
    replace(CLAIMS[0], uid="twin", name="twin"),
    replace(CLAIMS[0], uid="for-many", name="for-many", modes=("ReadWriteMany",)),
)
TOGETHER = (("c5", "c10"), ("c10", "twin", "c5"), ("c5", "for-many"), ("for-many", "c10", "twin"))
DISK_CLASS = StorageClass(uid="d", name="d", version=1, provisioner="kubernetes.io/no-provisioner", waits=True)
BEGIN: tuple[Object, ...] = (
    DISK_CLASS,
    *CLAIMS,
    *RIVALS,
    *(node(name, labels=pairs(host=name)) for name in NAMES),
    *(pod(f"p{size}", volume_claims=(f"c{size}",)) for size in SIZES),
)
draw = st.sampled_from
NODES_SEEN = st.builds(
    lambda name, rack: node(name, labels=pairs(host=name, **rack)), draw(NAMES), draw(({}, {"rack": "r"}))
)
DISKS = st.builds(
    lambda name, terms, size, open_to_all, claim, modes: PersistentVolume(
        uid=name,
        name=name,
        version=1,
        node_terms=terms,
        size=size,
        storage_class="d",
        available=open_to_all,
        claim=claim,
        modes=modes,
    ),
    draw(("v", "w", "x")),
    draw(TIES),
    draw(SIZES),
    draw((True, True, False)),
    draw((None, None, None, ("team", "c5"), ("team", "another"))),
    draw(((), ("ReadWriteMany",))),
)
# A node or a volume is seen or gone, or a pod is given what it gets on a node, or gives it back.
Step = Node | PersistentVolume | tuple[int, str]
STEPS = st.one_of(
    st.tuples(st.one_of(NODES_SEEN, DISKS, DISKS), draw((True, True, False))),
    st.tuples(st.tuples(draw(SIZES), draw(NAMES)), draw((True, False))),
)


def naive(cluster: Cluster, claim: PersistentVolumeClaim) -> set[str]:
    """By definition; `spoken` is what pods are to have."""
    spoken = {
        volume: uid for entry in cluster.pods.by_uid.values() for uid, volume in entry.plan.volumes if entry.row >= 0
    }
    known = [volume for volume in cluster.objects.every(PersistentVolume) if volume.size >= claim.size]
    own = [volume for volume in known if spoken.get(volume.name) == claim.uid and volume.claim in (None, claim.key)]
    # Of several that were made for it, the one that has been so for longest.
    own = own or sorted((volume for volume in known if volume.claim == claim.key), key=lambda volume: volume.version)
    free = [item for item in known if item.claim is None and item.available and item.name not in spoken]
    return {
        item.name
        for item in cluster.columns.nodes
        if item is not None
        for volume in own[:1] or free
        if volume.node_terms is None or any(term.matches(item.name, dict(item.labels)) for term in volume.node_terms)
    }


def check(cluster: Cluster) -> None:
    for claim in CLAIMS:
        allowed = cluster.volumes.allowed(pod("probe", volume_claims=(claim.name,)))
        assert allowed is not None
        wanted = naive(cluster, claim)
        assert {name for name, row in cluster.columns.rows.items() if allowed[row]} == wanted
        for name in cluster.columns.rows:
            ((_uid, volume),) = cluster.volumes.choose(pod("probe", volume_claims=(claim.name,)), name)
            assert bool(volume) is (name in wanted)
    for claims in TOGETHER:
        probe = pod("probe", volume_claims=claims)
        allowed = cluster.volumes.allowed(probe)
        assert allowed is not None
        for name, row in cluster.columns.rows.items():
            assert bool(allowed[row]) is all(volume for _uid, volume in cluster.volumes.choose(probe, name))


IN_RACK = PersistentVolume(uid="v", name="v", version=1, node_terms=TIES[2], size=10, storage_class="d", available=True)

ON_HOST = replace(IN_RACK, node_terms=TIES[0])


@example([(IN_RACK, True), (node("n1", labels=pairs(host="n1", rack="r")), True)])
# It has become too small for whom it was chosen.
@example([(ON_HOST, True), ((10, "n1"), True), (replace(ON_HOST, size=5), True)])
@given(st.lists(STEPS, max_size=30))
def test_a_claim_finds_what_a_walk_through_all_volumes_finds(history: list[tuple[Step, bool]]) -> None:
    cluster = Cluster()
    for item in BEGIN:
        cluster.apply(Upserted(item))
    for version, (step, comes) in enumerate(history, 10):
        if isinstance(step, tuple):
            uid, name = f"uid-p{step[0]}", step[1]
            cluster.pods.forget(uid)
            chosen = cluster.volumes.choose(cluster.pods.by_uid[uid].pod, name)
            if comes and any(volume for _claim, volume in chosen):
                cluster.pods.assume(uid, name, chosen)
            cluster.pods.settle()
        elif comes:
            cluster.apply(Upserted(replace(step, uid=f"{step.uid}-{alive(cluster, step) or version}", version=version)))
        else:
            cluster.apply(Deleted(type(step), f"{step.uid}-{alive(cluster, step)}", version))
        check(cluster)


def alive(cluster: Cluster, item: Node | PersistentVolume) -> str:
    """What ends the UID of the object of this name that is there."""
    there = [known for known in cluster.objects.every(type(item)) if known.name == item.name]
    return there[0].uid.rpartition("-")[2] if there else ""


def calls_for(nodes: int, probe: Pod, terms: tuple[NodeSelectorTerm, ...] | None) -> int:
    """How many calls it takes to say where the pod may go, with as many disks as there are nodes."""
    cluster = Cluster()
    for item in (
        DISK_CLASS,
        *CLAIMS,
        *RIVALS,
        *(node(f"n{number}", labels=pairs(host="n1")) for number in range(nodes)),
    ):
        cluster.apply(Upserted(item))
    for number in range(nodes):
        cluster.apply(
            Upserted(replace(IN_RACK, uid=f"v{number}", name=f"v{number}", node_terms=terms, modes=RIVALS[1].modes))
        )
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        allowed = cluster.volumes.allowed(probe)
    finally:
        sys.setprofile(None)
    assert allowed is not None
    assert all(allowed[row] for row in cluster.columns.rows.values())
    return calls


@pytest.mark.parametrize("terms", TIES[:1] + TIES[-1:])
@pytest.mark.parametrize("claims", [("c5", "twin"), ("c5", "c10"), ("c5", "for-many")])
def test_where_two_claims_find_volumes_is_not_asked_of_every_node_and_volume(
    claims: tuple[str, ...], terms: tuple[NodeSelectorTerm, ...] | None
) -> None:
    probe = pod("probe", volume_claims=claims)
    assert calls_for(40, probe, terms) < 3 * calls_for(20, probe, terms)
