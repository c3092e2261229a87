# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever legal order events come in, the state becomes that of a fresh list."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from placement.model.messages.event import Deleted, Event, Relisted, Upserted
from placement.model.objects.node import Node
from placement.model.objects.pod import Pod
from placement.model.rules.affinity import PodMatcher
from placement.model.rules.selector import LabelSelector
from placement.state.cluster import Cluster
from placement_kit import strategies
from placement_kit.builders import labelled
from placement_kit.summary import summary

RULES = (
    (PodMatcher(frozenset({"team"}), labelled(app="x")),),
    (PodMatcher(frozenset(), LabelSelector(), LabelSelector()),),
)

History = list[list[Event]]


# Built once: Hypothesis looks through every new strategy, which takes longer than to draw from it.
lives_of_an_object = st.lists(st.sampled_from(["see", "see", "delete"]), max_size=4)
yes_or_no = st.booleans()


@st.composite
def histories(draw: st.DrawFn) -> History:
    """For each name, what happened to its objects in order: seen, changed, deleted, made again with another UID."""
    lives: list[tuple[str, str, list[str]]] = []
    for kind, names in (("node", strategies.NODE_NAMES[:3]), ("pod", ("p0", "p1", "p2", "p3"))):
        for name in names:
            steps = draw(lives_of_an_object)
            lives.append((kind, name, steps))
    turns = draw(st.permutations([index for index, (_, _, steps) in enumerate(lives) for _ in steps]))
    history: History = [[] for _ in lives]
    alive: dict[int, str] = {}
    for version, index in enumerate(turns, start=10):
        kind, name, steps = lives[index]
        if steps.pop(0) == "see":
            uid = alive.setdefault(index, f"{name}-{version}")
            if kind == "node":
                item: Node | Pod = draw(strategies.nodes(name, uid=uid, version=version))
            else:
                item = draw(strategies.pods(name, uid=uid, version=version, spec=strategies.few_specs))
            history[index].append(Upserted(item))
        elif index in alive:
            history[index].append(Deleted(Node if kind == "node" else Pod, alive.pop(index), version))
    return history


def survivors(history: History) -> list[Node | Pod]:
    ends = [events[-1] for events in history if events]
    return [end.item for end in ends if isinstance(end, Upserted) and isinstance(end.item, Node | Pod)]


def lists(history: History) -> list[Relisted]:
    last = max(
        (event.item.version if isinstance(event, Upserted) else event.version for e in history for event in e),
        default=0,
    )
    items = survivors(history)
    return [Relisted(kind, tuple(item for item in items if isinstance(item, kind)), last) for kind in (Node, Pod)]


def fresh(history: History) -> Cluster:
    cluster = Cluster()
    for event in lists(history):
        cluster.apply(event)
    return cluster


def assert_same(cluster: Cluster, history: History) -> None:
    assert summary(cluster, RULES) == summary(fresh(history), RULES)


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[History, list[Event]]:
    """A history, and its events interleaved at random; now and then an old one comes again."""
    history = draw(histories())
    waiting = [list(events) for events in history]
    turns = draw(st.permutations([index for index, events in enumerate(history) for _ in events]))
    delivered: list[Event] = []
    for index in turns:
        delivered.append(waiting[index].pop(0))
        if draw(yes_or_no):
            delivered.append(draw(st.sampled_from(delivered)))
    return history, delivered


@given(deliveries())
def test_any_interleaving_with_repetitions_gives_the_state_of_a_fresh_list(
    delivery: tuple[History, list[Event]],
) -> None:
    history, events = delivery
    cluster = Cluster()
    # Counts made before and during the events must be kept as true as those made afterwards.
    for event in events:
        cluster.apply(event)
        summary(cluster, RULES)
    assert_same(cluster, history)


@given(deliveries(), st.data())
def test_after_lost_events_a_list_gives_the_state_of_a_fresh_list(
    delivery: tuple[History, list[Event]], data: st.DataObject
) -> None:
    history, events = delivery
    cluster = Cluster()
    for event in events:
        if data.draw(yes_or_no):
            cluster.apply(event)
    for relisted in data.draw(st.permutations(lists(history))):
        cluster.apply(relisted)
    # And what was on the way when the list was made comes after it.
    for event in events[-3:]:
        cluster.apply(event)
    assert_same(cluster, history)


@given(deliveries())
def test_applying_everything_twice_changes_nothing(delivery: tuple[History, list[Event]]) -> None:
    history, events = delivery
    cluster = Cluster()
    for event in events + events:
        cluster.apply(event)
    assert_same(cluster, history)


@given(strategies.clusters(), st.data())
def test_rolled_back_plans_leave_no_trace(cluster_of: tuple[list[Node], list[Pod]], data: st.DataObject) -> None:
    cluster = Cluster()
    for item in (*cluster_of[0], *cluster_of[1]):
        cluster.apply(Upserted(item))
    uids = sorted(cluster.pods.by_uid)
    states, marks = [], []
    for _ in range(data.draw(st.integers(0, 6)) if uids else 0):
        states.append(summary(cluster, RULES))
        marks.append(cluster.pods.mark())
        uid, name = data.draw(st.sampled_from(uids)), data.draw(st.sampled_from(strategies.NODE_NAMES))
        plan = data.draw(st.sampled_from(["assume", "promise", "forget", "evict"]))
        if plan in ("assume", "promise"):
            getattr(cluster.pods, plan)(uid, name)
        else:
            getattr(cluster.pods, plan)(uid)
    for state, mark in zip(reversed(states), reversed(marks), strict=True):
        cluster.pods.rollback(mark)
        assert summary(cluster, RULES) == state


@given(strategies.clusters())
def test_a_new_version_of_every_object_with_the_same_content_is_no_change(
    cluster_of: tuple[list[Node], list[Pod]],
) -> None:
    cluster = Cluster()
    items = (*cluster_of[0], *cluster_of[1])
    for item in items:
        cluster.apply(Upserted(item))
    before, changes = summary(cluster, RULES), cluster.columns.changes
    for item in items:
        cluster.apply(Upserted(replace(item, version=2)))
    after = summary(cluster, RULES)
    for state in (before, after):
        for name in state["nodes"]:
            del state["nodes"][name]["node"]
    assert after["nodes"] == before["nodes"]
    assert after["rules"] == before["rules"]
    assert after["ports"] == before["ports"]
    if not cluster_of[1]:
        assert cluster.columns.changes == changes
