# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The graph follows the state: after any events it equals one that is made from a fresh list."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from placement.graph.topology import Topology
from placement.graph.tree.audit import audit
from placement.graph.tree.tree import Graph
from placement.model.device_slices import DeviceSlice
from placement.model.messages.event import Deleted, Event, Upserted
from placement.model.objects.node import Node
from placement.model.objects.pod import Pod
from placement.state.cluster import Cluster
from placement_kit import strategies
from placement_kit.builders import amounts, node, pod
from placement_kit.graph_truth import BY_LABELS, SHAPES, fresh, summary, survivors

KINDS = {"node": Node, "pod": Pod, "slice": DeviceSlice}


# Built once: Hypothesis looks through every new strategy, which takes longer than to draw from it.
lengths = st.integers(1, 30)
objects = st.sampled_from(
    [("node", name) for name in strategies.NODE_NAMES]
    + [("pod", "p0"), ("pod", "p1"), ("pod", "p2")]
    + [("slice", "s0"), ("slice", "s1"), ("slice", "s2"), ("slice", "s3")]
)
yes_or_no = st.booleans()


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Nodes, pods and slices of devices that come, change and go, in any order."""
    events: list[Event] = []
    alive: dict[tuple[str, str], str] = {}
    for version in range(10, 10 + draw(lengths)):
        kind, name = draw(objects)
        uid = alive.get((kind, name))
        if uid is not None and draw(yes_or_no):
            del alive[kind, name]
            events.append(Deleted(KINDS[kind], uid, version))
            continue
        uid = alive.setdefault((kind, name), f"{name}-{version}")
        if kind == "node":
            events.append(Upserted(draw(strategies.nodes(name, uid=uid, version=version))))
        elif kind == "slice":
            events.append(Upserted(draw(strategies.slices(name, uid=uid, version=version))))
        else:
            events.append(Upserted(draw(strategies.pods(name, uid=uid, version=version, spec=strategies.few_specs))))
    return events


@given(histories(), st.data())
def test_increments_give_the_graph_of_a_fresh_list(events: list[Event], data: st.DataObject) -> None:
    cluster = Cluster()
    graph = Graph(cluster.columns, BY_LABELS, devices=cluster.devices)
    for event in events:
        cluster.apply(event)
        # The graph is asked at any time, or only at the end.
        if data.draw(yes_or_no):
            summary(graph)
    assert summary(graph) == summary(fresh(survivors(events)))
    assert audit(graph, cluster) == []


@given(histories(), st.data())
def test_after_lost_events_a_list_gives_the_graph_of_a_fresh_list(events: list[Event], data: st.DataObject) -> None:
    cluster = Cluster()
    graph = Graph(cluster.columns, BY_LABELS, devices=cluster.devices)
    for event in events:
        if data.draw(yes_or_no):
            cluster.apply(event)
            graph.sync()
    for relisted in survivors(events):
        cluster.apply(relisted)
    assert summary(graph) == summary(fresh(survivors(events)))


@given(histories(), st.data())
def test_what_is_tried_and_taken_back_leaves_the_graph_as_it_was(events: list[Event], data: st.DataObject) -> None:
    cluster = Cluster()
    graph = Graph(cluster.columns, BY_LABELS, devices=cluster.devices)
    for event in events:
        cluster.apply(event)
    before = summary(graph)
    mark = cluster.pods.mark()
    for uid in cluster.pods.by_uid:
        cluster.pods.assume(uid, data.draw(st.sampled_from(strategies.NODE_NAMES)))
        graph.sync()
    cluster.pods.rollback(mark)
    assert summary(graph) == before


def test_more_changes_than_the_feed_keeps_are_taken_in_too() -> None:
    cluster = Cluster()
    cluster.apply(Upserted(node("n1", labels=(("rack", "r1"), ("zone", "a")))))
    graph = Graph(cluster.columns, BY_LABELS)
    for version in range(2, 2 + cluster.columns.RING + 10):
        cluster.apply(Upserted(pod("p1", version=version, node="n1", request=amounts(cpu=str(1 + version % 2)))))
    cluster.apply(Upserted(node("n2", labels=(("rack", "r2"), ("zone", "a")))))
    assert summary(graph) == summary(Graph(cluster.columns, BY_LABELS))


@given(histories(), st.integers(1, 3))
def test_a_graph_that_is_loaded_in_steps_while_events_come_is_the_same(events: list[Event], at_once: int) -> None:
    cluster = Cluster()
    half = len(events) // 2
    for event in events[:half]:
        cluster.apply(event)
    graph = Graph(cluster.columns, BY_LABELS, devices=cluster.devices, at_once=False)
    steps = graph.load(at_once)
    for event in events[half:]:
        next(steps, None)
        cluster.apply(event)
    for _unused in steps:
        pass
    assert summary(graph) == summary(fresh(survivors(events)))
    assert audit(graph, cluster) == []


def test_hundreds_of_nodes_in_new_domains_come_and_go() -> None:
    cluster = Cluster()
    graph = Graph(cluster.columns, BY_LABELS)
    for index in range(300):
        cluster.apply(Upserted(node(f"n{index}", labels=(("rack", f"r{index}"), ("zone", f"z{index % 7}")))))
        graph.sync()
    assert summary(graph) == summary(Graph(cluster.columns, BY_LABELS))
    for index in range(0, 300, 2):
        cluster.apply(Deleted(Node, f"uid-n{index}", 5))
        graph.sync()
    assert summary(graph) == summary(Graph(cluster.columns, BY_LABELS))


def test_labels_with_ever_new_values_take_no_memory() -> None:
    cluster = Cluster()
    graph = Graph(cluster.columns, BY_LABELS)
    for version in range(1, 500):
        cluster.apply(Upserted(node("n1", version=version, labels=(("rack", f"r{version}"), ("zone", f"z{version}")))))
        graph.sync()
    assert [len(level.names) for level in graph.levels.levels] == [1, 1]
    assert [use.domain for use in graph.use("rack")] == ["z499/r499"]


def test_ever_new_shapes_take_bounded_memory() -> None:
    cluster = Cluster()
    cluster.apply(Upserted(node("n1")))
    graph = Graph(cluster.columns, BY_LABELS)
    for milli in range(1, 1000):
        graph.fits.counts(amounts(cpu=f"{milli}m"))
    assert len(graph.fits) == 128


def test_pods_of_others_and_batch_jobs_placeholders_hold_room() -> None:
    cluster = Cluster()
    cluster.apply(Upserted(node("n1", labels=(("rack", "r1"), ("zone", "a")))))
    graph = Graph(cluster.columns, BY_LABELS)
    for name in ("default-scheduler", "static"):
        cluster.apply(Upserted(pod(name, node="n1", request=amounts(cpu="1"))))
    assert graph.use("rack")[0].free[0] == 2000
    cluster.apply(Deleted(Pod, "uid-static", 9))
    assert graph.use("rack")[0].free[0] == 3000


def test_an_overfull_node_does_not_hide_the_room_of_its_neighbours() -> None:
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.apply(Upserted(node(name, labels=(("rack", "r1"), ("zone", "a")))))
    cluster.apply(Upserted(pod("huge", node="n1", request=amounts(cpu="8"))))
    graph = Graph(cluster.columns, BY_LABELS)
    need = np.zeros(len(cluster.columns.axis), np.int64)
    need[0] = 4000
    assert graph.may_hold("rack", need).tolist() == [True]


def test_the_check_finds_heals_and_names_drift() -> None:
    cluster = Cluster()
    for index in range(4):
        cluster.apply(Upserted(node(f"n{index}", labels=(("rack", f"r{index % 2}"), ("zone", "a")))))
    graph = Graph(cluster.columns, BY_LABELS)
    truth = summary(graph)
    graph.sums["rack"][0, 0] += 7
    graph.seen[0, 2] -= 5
    graph.levels["rack"].of_row[3] = 0
    found = {(drift.where, drift.what) for drift in graph.check(rows=[2, 3])}
    assert {("n2", "amounts"), ("n3", "domains"), ("rack a/r0", "sums")} <= found
    assert graph.check() == []
    assert summary(graph) == truth


def test_the_check_finds_a_wrong_fit_count() -> None:
    cluster = Cluster()
    cluster.apply(Upserted(node("n1")))
    graph = Graph(cluster.columns, Topology())
    graph.fits.counts(SHAPES[0])[0] += 1
    assert [(drift.where, drift.what) for drift in graph.check()] == [("n1", "fit count of {'cpu': 1000}")]
    assert graph.fits.counts(SHAPES[0])[0] == 4
