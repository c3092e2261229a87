# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of expected states: after each thing that can happen, what is in use on each level.

Increments and a graph made from a fresh list must both give it, and the slow check against the pods must find no drift.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from placement.graph.tree.audit import audit
from placement.graph.tree.tree import Graph
from placement.model.messages.event import Deleted, Event, Upserted
from placement.model.objects.node import Node
from placement.model.objects.pod import Phase, Pod
from placement.model.rules.selector import Effect, Taint
from placement.state.cluster import Cluster
from placement_kit.builders import amounts, mine, node, pod
from placement_kit.graph_truth import BY_LABELS, fresh, summary, survivors

# The cores in use and those there are, by domain.
Expected = dict[str, tuple[int, int]]


def at(zone: str, rack: str) -> tuple[tuple[str, str], ...]:
    return (("rack", rack), ("zone", zone))


N1, N2, N3 = node("n1", labels=at("a", "r1")), node("n2", labels=at("a", "r2")), node("n3", labels=at("b", "r1"))
OWN = mine("own", node="n1", phase=Phase.RUNNING, request=amounts(cpu="2"))
# Three nodes of 4 cores; a pod of our own holds two on the first.
START: tuple[Event, ...] = (Upserted(N1), Upserted(N2), Upserted(N3), Upserted(OWN))
BEFORE: Expected = {"cluster": (2, 12), "a": (2, 8), "b": (0, 4), "a/r1": (2, 4), "a/r2": (0, 4), "b/r1": (0, 4)}
WITHOUT: Expected = {**BEFORE, "cluster": (0, 12), "a": (0, 8), "a/r1": (0, 4)}
# With another pod of one core on the second node.
BESIDE: Expected = {**BEFORE, "cluster": (3, 12), "a": (3, 8), "a/r2": (1, 4)}
OTHER = pod("other", version=2, node="n2", phase=Phase.RUNNING)
PLACEHOLDER = replace(
    OTHER, namespace="kube-system", mirror=True, annotations=(("converged.hpc/lease", '{"wlm":"slurm","job":"7"}'),)
)
UNREACHABLE = Taint("node.kubernetes.io/unreachable", "", Effect.NO_EXECUTE)
NOT_READY = Taint("node.kubernetes.io/not-ready", "", Effect.NO_EXECUTE)


def changed(item: Any, version: int = 5, **more: Any) -> Upserted:
    return Upserted(replace(item, version=version, **more))


class Case(NamedTuple):
    """What happens after the start, and what is in use then."""

    what: str
    events: tuple[Event, ...]
    expected: Expected


CASES = (
    Case("nothing", (), BEFORE),
    Case("our pod ends", (changed(OWN, phase=Phase.SUCCEEDED),), WITHOUT),
    Case("our pod fails", (changed(OWN, phase=Phase.FAILED),), WITHOUT),
    Case("our pod is asked to leave and still runs", (changed(OWN, terminating=True),), BEFORE),
    Case("our pod is deleted", (Deleted(Pod, OWN.uid, 5),), WITHOUT),
    Case("our pod is evicted", (changed(OWN, terminating=True), Deleted(Pod, OWN.uid, 6)), WITHOUT),
    Case("our pod is rejected by its kubelet", (changed(OWN, phase=Phase.FAILED, rejected=True),), WITHOUT),
    Case(
        "our pod ends, and its object goes later",
        (changed(OWN, phase=Phase.SUCCEEDED), Deleted(Pod, OWN.uid, 6)),
        WITHOUT,
    ),
    Case("an old state of our pod comes late", (Deleted(Pod, OWN.uid, 5), changed(OWN, version=3)), WITHOUT),
    Case("its node is unreachable, and nobody knows what runs there", (changed(N1, taints=(UNREACHABLE,)),), BEFORE),
    Case("its node is not ready", (changed(N1, taints=(NOT_READY,)),), BEFORE),
    Case(
        "its node is lost, and the pod is deleted",
        (changed(N1, taints=(UNREACHABLE,)), changed(OWN, terminating=True), Deleted(Pod, OWN.uid, 6)),
        WITHOUT,
    ),
    Case(
        "its node is removed before its pod",
        (Deleted(Node, N1.uid, 5),),
        {"cluster": (0, 8), "a": (0, 4), "b": (0, 4), "a/r2": (0, 4), "b/r1": (0, 4)},
    ),
    Case(
        "its node is removed and comes back while its pod is there",
        (Deleted(Node, N1.uid, 5), changed(N1, version=6, uid="uid-n1-again")),
        BEFORE,
    ),
    Case("a pod of the default scheduler comes", (Upserted(OTHER),), BESIDE),
    Case("it goes", (Upserted(OTHER), Deleted(Pod, OTHER.uid, 6)), BEFORE),
    Case(
        "a pod that names its node comes, before any kubelet has seen it",
        (changed(OTHER, phase=Phase.PENDING),),
        BESIDE,
    ),
    Case("a static pod comes", (changed(OTHER, mirror=True),), BESIDE),
    Case("a pod of a DaemonSet comes", (changed(OTHER, daemon=True),), BESIDE),
    Case("a pod of a DaemonSet ends", (changed(OTHER, daemon=True), changed(OTHER, 6, phase=Phase.FAILED)), BEFORE),
    Case("the placeholder of a batch job comes", (Upserted(PLACEHOLDER),), BESIDE),
    Case("the batch job ends", (Upserted(PLACEHOLDER), Deleted(Pod, PLACEHOLDER.uid, 6)), BEFORE),
    Case("a batch job takes a whole node", (changed(N2, held_by="slurm/7"),), BEFORE),
    Case("a pod waits for a node", (Upserted(pod("waiting")),), BEFORE),
    Case("a pod is nominated for a node", (Upserted(pod("nominated", nominated_node="n2")),), BEFORE),
    Case(
        "a pod grows in place",
        (changed(OWN, request=amounts(cpu="3")),),
        {**BEFORE, "cluster": (3, 12), "a": (3, 8), "a/r1": (3, 4)},
    ),
    Case("a node is cordoned", (changed(N1, unschedulable=True),), BEFORE),
    Case("a node is tainted", (changed(N1, taints=(Taint("example.com/repair", "", Effect.NO_SCHEDULE),)),), BEFORE),
    Case(
        "a node is added to a new rack",
        (Upserted(node("n4", labels=at("b", "r9"))),),
        {**BEFORE, "cluster": (2, 16), "b": (0, 8), "b/r9": (0, 4)},
    ),
    Case(
        "a pod is there before its node",
        (Upserted(pod("early", node="n4")), Upserted(node("n4", labels=at("b", "r1")))),
        {**BEFORE, "cluster": (3, 16), "b": (1, 8), "b/r1": (1, 8)},
    ),
    Case(
        "an empty node is removed",
        (Deleted(Node, N3.uid, 5),),
        {"cluster": (2, 8), "a": (2, 8), "a/r1": (2, 4), "a/r2": (0, 4)},
    ),
    Case(
        "a node is replaced by one of its name",
        (changed(N3, uid="uid-n3-new", allocatable=amounts(cpu="6", pods="10")),),
        {**BEFORE, "cluster": (2, 14), "b": (0, 6), "b/r1": (0, 6)},
    ),
    Case(
        "a node grows",
        (changed(N1, allocatable=amounts(cpu="8", memory="8Gi", pods="10")),),
        {**BEFORE, "cluster": (2, 16), "a": (2, 12), "a/r1": (2, 8)},
    ),
    Case(
        "a node shrinks below what it holds, and counts as full",
        (changed(N1, allocatable=amounts(cpu="1", memory="8Gi", pods="10")),),
        {**BEFORE, "cluster": (1, 9), "a": (1, 5), "a/r1": (1, 1)},
    ),
    Case(
        "a node moves to another rack, and what it holds with it",
        (changed(N1, labels=at("a", "r2")),),
        {"cluster": (2, 12), "a": (2, 8), "b": (0, 4), "a/r2": (2, 8), "b/r1": (0, 4)},
    ),
    Case(
        "a node loses its labels",
        (changed(N1, labels=()),),
        {"cluster": (2, 12), "a": (0, 4), "b": (0, 4), "a/r2": (0, 4), "b/r1": (0, 4)},
    ),
)


def in_use(graph: Graph) -> Expected:
    """Return the cores in use and those there are in each domain above nodes."""
    return {
        use.domain: ((use.capacity[0] - use.free[0]) // 1000, use.capacity[0] // 1000)
        for level in ("cluster", "zone", "rack")
        for use in graph.use(level)
    }


@pytest.mark.parametrize("case", CASES, ids=[case.what for case in CASES])
def test_what_is_in_use_is_what_is_expected(case: Case) -> None:
    cluster = Cluster()
    graph = Graph(cluster.columns, BY_LABELS)
    for event in (*START, *case.events):
        cluster.apply(event)
        graph.sync()
    assert in_use(graph) == case.expected
    rebuilt = Graph(cluster.columns, BY_LABELS)
    assert summary(graph) == summary(rebuilt)
    assert audit(graph, cluster) == []


@pytest.mark.parametrize("case", CASES, ids=[case.what for case in CASES])
def test_a_fresh_list_gives_the_same_state(case: Case) -> None:
    # A list shows one node of each name: the newest.
    events = [*START, *case.events]
    new = {
        event.item.name: event.item.uid
        for event in events
        if isinstance(event, Upserted) and isinstance(event.item, Node)
    }
    lists = [
        replace(relisted, items=tuple(item for item in relisted.items if new.get(item.name, item.uid) == item.uid))
        if relisted.kind is Node
        else relisted
        for relisted in survivors(_in_order(events))
    ]
    assert in_use(fresh(lists)) == case.expected


def _in_order(events: list[Event]) -> list[Event]:
    """Return the events without those that a deletion of their object has made void."""
    gone: set[str] = set()
    kept: list[Event] = []
    for event in events:
        if isinstance(event, Deleted):
            gone.add(event.uid)
        elif isinstance(event, Upserted) and event.item.uid in gone:
            continue
        kept.append(event)
    return kept


@pytest.mark.parametrize("reverse", [False, True])
def test_states_one_after_the_other_leave_no_trace(reverse) -> None:
    cluster = Cluster()
    graph = Graph(cluster.columns, BY_LABELS)
    version = 100
    for case in reversed(CASES) if reverse else CASES:
        for kind in (Pod, Node):
            known = (
                [entry.pod.uid for entry in cluster.pods.by_uid.values()]
                if kind is Pod
                else list(cluster.objects.get(Node, ()))
            )
            for uid in known:
                version += 1
                cluster.apply(Deleted(kind, uid, version))
        graph.sync()
        assert in_use(graph) == {"cluster": (0, 0)}
        # Objects of the next case are others, as UIDs of deleted ones never come back.
        mark = f"-{version}"
        for event in (*START, *case.events):
            version += 1
            if isinstance(event, Upserted):
                item: Any = event.item
                cluster.apply(Upserted(replace(item, uid=item.uid + mark, version=version)))
            elif isinstance(event, Deleted):
                cluster.apply(Deleted(event.kind, event.uid + mark, version))
        if case.what != "an old state of our pod comes late":
            assert in_use(graph) == case.expected, case.what
        assert audit(graph, cluster) == []
