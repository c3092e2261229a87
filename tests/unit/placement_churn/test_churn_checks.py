# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checker of a churn finds each violation where there is one, and none where a daemon behaves."""

from __future__ import annotations

import dataclasses

import pytest
from placement_churn import checks
from placement_churn.checks import Checker, Node, Pod, Size

CORE = 1000
ROOM = Size(4 * CORE, 4096, 10)
NODES = (Node("one", ROOM), Node("two", ROOM))
PATIENCE = 60.0


def pod(name: str, *, cpu: int = 1, memory: int = 512, **more: object) -> Pod:
    one = Pod(name, f"uid-{name}", Size(cpu * CORE, memory))
    return dataclasses.replace(one, **more)


def gang(bound: int, waiting: int, *, cpu: int = 1) -> list[Pod]:
    there = [pod(f"gang-{number}", cpu=cpu, gang="gang", node="one") for number in range(bound)]
    return there + [pod(f"gang-{bound + number}", cpu=cpu, gang="gang") for number in range(waiting)]


def quiet(since: float = 0.0) -> Checker:
    return Checker(PATIENCE, quiet_since=since)


def kinds(checker: Checker, now: float, pods: list[Pod], gangs: dict[str, int] | None = None) -> list[tuple[str, str]]:
    return [(one.kind, one.subject) for one in checker.look(now, NODES, pods, gangs or {})]


OVERFULL = {
    "cpu": [pod("a", cpu=3, node="one"), pod("b", cpu=2, node="one")],
    "memory": [pod("a", memory=4000, node="one"), pod("b", memory=97, node="one")],
    "pods": [pod(str(number), cpu=0, memory=0, node="one") for number in range(11)],
    # A pod that is being deleted holds its room until it is gone.
    "leaving": [pod("a", cpu=3, node="one", leaving=True), pod("b", cpu=2, node="one")],
}


@pytest.mark.parametrize("pods", OVERFULL.values(), ids=OVERFULL)
def test_a_node_that_is_given_twice_is_found_at_once_and_said_once(pods: list[Pod]) -> None:
    checker = Checker(PATIENCE)

    assert kinds(checker, 0, pods) == [("overcommit", "one")]
    assert kinds(checker, 1, pods) == []
    assert len(checker.found) == 1


def test_a_full_node_is_no_overcommit() -> None:
    pods = [pod("a", cpu=4, node="one"), pod("ended", cpu=4, node="one", ended=True), pod("b", cpu=4, node="two")]

    assert kinds(quiet(), 1000, pods) == []


def test_pods_on_a_node_that_was_deleted_take_nothing() -> None:
    assert kinds(quiet(), 1000, [pod("a", cpu=9, node="gone")]) == []


def test_a_gang_that_stays_bound_in_part_is_found_after_its_patience() -> None:
    # The one that lacks has no room, so that nothing but the half gang is wrong.
    pods, checker = [*gang(2, 1, cpu=2), pod("b", cpu=4, node="two")], quiet()

    assert kinds(checker, 0, pods, {"gang": 3}) == []
    assert kinds(checker, PATIENCE, pods, {"gang": 3}) == []
    assert kinds(checker, PATIENCE + 1, pods, {"gang": 3}) == [("half gang", "gang")]


def test_patience_begins_anew_when_the_gang_changes() -> None:
    full, checker = [pod("b", cpu=4, node="two")], quiet()

    kinds(checker, 0, [*gang(1, 2, cpu=2), *full], {"gang": 3})
    assert kinds(checker, 50, [*gang(2, 1, cpu=2), *full], {"gang": 3}) == []
    assert kinds(checker, 100, [*gang(2, 1, cpu=2), *full], {"gang": 3}) == []
    assert kinds(checker, 111, [*gang(2, 1, cpu=2), *full], {"gang": 3}) == [("half gang", "gang")]


def test_patience_begins_with_the_end_of_the_last_fault() -> None:
    full, checker = [pod("b", cpu=4, node="two")], Checker(PATIENCE)
    pods = [*gang(2, 1, cpu=2), *full]

    assert kinds(checker, 0, pods, {"gang": 3}) == []
    assert kinds(checker, 500, pods, {"gang": 3}) == []
    checker.quiet_since = 500
    assert kinds(checker, 560, pods, {"gang": 3}) == []
    assert kinds(checker, 561, pods, {"gang": 3}) == [("half gang", "gang")]


def test_a_gang_that_was_whole_may_wait_for_room_for_those_it_has_lost() -> None:
    checker = quiet()
    whole = [*gang(2, 0, cpu=2), pod("gang-2", cpu=2, gang="gang", node="two")]
    less = [*gang(2, 1, cpu=2), pod("b", cpu=4, node="two")]

    assert kinds(checker, 0, whole, {"gang": 3}) == []
    assert kinds(checker, 10, less, {"gang": 3}) == []
    assert kinds(checker, 500, less, {"gang": 3}) == []


def test_a_gang_that_was_whole_between_two_looks_may_wait_for_room_too() -> None:
    checker = quiet()
    full = pod("b", cpu=4, node="two")
    again = [pod("gang-0", uid="new-0", cpu=2, gang="gang"), pod("gang-1", uid="new-1", cpu=2, gang="gang")]
    less = [*again, pod("gang-2", cpu=2, gang="gang", node="one"), full]

    # Bound and evicted at once, but for the last member: neither look sees the first two with their node.
    kinds(checker, 0, [*gang(0, 3, cpu=2), full], {"gang": 3})
    kinds(checker, 10, less, {"gang": 3})
    assert kinds(checker, 500, less, {"gang": 3}) == []


def test_but_not_where_it_has_room_for_them() -> None:
    checker = quiet()
    whole = [*gang(2, 0, cpu=2), pod("gang-2", cpu=2, gang="gang", node="two")]

    kinds(checker, 0, whole, {"gang": 3})
    kinds(checker, 10, gang(2, 1, cpu=2), {"gang": 3})
    assert kinds(checker, 71, gang(2, 1, cpu=2), {"gang": 3}) == [("forgotten pod", "gang-2")]


def test_a_gang_without_any_node_begins_as_a_new_one() -> None:
    full, checker = [pod("b", cpu=4, node="two")], quiet()

    kinds(checker, 0, [*gang(2, 0, cpu=2), pod("gang-2", cpu=2, gang="gang", node="two")], {"gang": 3})
    kinds(checker, 10, [*gang(0, 3, cpu=2), *full], {"gang": 3})
    kinds(checker, 20, [*gang(2, 1, cpu=2), *full], {"gang": 3})
    assert kinds(checker, 81, [*gang(2, 1, cpu=2), *full], {"gang": 3}) == [("half gang", "gang")]


def test_a_pod_that_has_a_place_and_waits_is_forgotten() -> None:
    checker = quiet()

    assert kinds(checker, 0, [pod("a")]) == []
    assert kinds(checker, PATIENCE + 1, [pod("a")]) == [("forgotten pod", "a")]


def test_the_clock_of_a_pod_stands_still_while_it_has_no_place() -> None:
    checker = quiet()
    full = [pod("b", cpu=4, node="one"), pod("c", cpu=4, node="two")]

    kinds(checker, 0, [pod("a")])
    kinds(checker, 50, [pod("a"), *full])
    assert kinds(checker, 100, [pod("a")]) == []
    assert kinds(checker, 161, [pod("a")]) == [("forgotten pod", "a")]


UNPLACEABLE = {
    "no node has so much": [pod("a", cpu=5)],
    "all are full": [pod("a"), pod("b", cpu=4, node="one"), pod("c", cpu=4, node="two")],
    "nothing of that pool": [pod("a", pool="other")],
    "what it is promised is not free yet": [
        pod("a", cpu=4),
        pod("p", cpu=4, nominated="one"),
        pod("victim", node="one", leaving=True),
        pod("b", node="two"),
    ],
    "the gang as a whole does not fit": gang(0, 3, cpu=3),
    "the gang has not come": gang(0, 2),
    "it ends": [pod("a", leaving=True)],
    "it has ended": [pod("a", ended=True)],
}


@pytest.mark.parametrize("pods", UNPLACEABLE.values(), ids=UNPLACEABLE)
def test_a_pod_without_a_place_may_wait_for_ever(pods: list[Pod]) -> None:
    checker = quiet()

    kinds(checker, 0, pods, {"gang": 3})
    assert kinds(checker, 9999, pods, {"gang": 3}) == []


def test_what_a_preemptor_was_promised_is_room_for_itself_alone() -> None:
    checker = quiet()
    pods = [pod("a", cpu=4), pod("preemptor", cpu=4, nominated="one"), pod("b", node="two")]

    assert kinds(checker, 0, pods) == []
    assert kinds(checker, 61, pods) == [("forgotten pod", "preemptor")]


def test_a_gang_of_preemptors_has_the_room_that_all_its_members_were_promised() -> None:
    checker = quiet()
    pods = [pod(f"gang-{node}", cpu=4, gang="gang", nominated=node) for node in ("one", "two")]

    kinds(checker, 0, [*pods, pod("a", cpu=1)], {"gang": 2})
    found = kinds(checker, 61, [*pods, pod("a", cpu=1)], {"gang": 2})
    assert found == [("forgotten pod", "gang-one"), ("forgotten pod", "gang-two")]


def test_a_gang_that_fits_and_waits_is_forgotten() -> None:
    checker = quiet()

    kinds(checker, 0, gang(0, 3, cpu=2), {"gang": 3})
    found = kinds(checker, 61, gang(0, 3, cpu=2), {"gang": 3})
    assert found == [("forgotten pod", f"gang-{number}") for number in range(3)]


@pytest.mark.parametrize("open_", [True, False])
def test_only_an_open_node_has_room(open_: bool) -> None:
    checker = quiet()
    nodes = [dataclasses.replace(node, open=open_) for node in NODES]

    checker.look(0, nodes, [pod("a")], {})
    assert bool(checker.look(61, nodes, [pod("a")], {})) == open_


def test_a_daemon_at_rest_has_nothing_under_way_and_counts_as_the_api_does() -> None:
    rest = dict.fromkeys(checks.AT_REST, 0.0)

    assert checks.unsettled(rest | {"queue_pending_pods": 3}, 3) == []
    assert checks.unsettled(rest | {"queue_pending_pods": 2}, 3) == ["queue_pending_pods is 2, and 3 pods have no node"]
    assert checks.unsettled(rest, 0) == ["queue_pending_pods is None, and 0 pods have no node"]
    for name in checks.AT_REST:
        assert checks.unsettled(rest | {name: 1, "queue_pending_pods": 0}, 0) == [f"{name} is 1, not 0"]
        lacking = {other: 0.0 for other in rest if other != name} | {"queue_pending_pods": 0.0}
        assert checks.unsettled(lacking, 0) == [f"{name} is not among the metrics"]


def test_memory_that_grows_is_found() -> None:
    assert checks.has_grown([100 + number for number in range(40)])
    assert checks.growth([100.0] * 10 + [130.0] * 10 + [115.0] * 20) == (100, 115)


@pytest.mark.parametrize(
    "samples",
    [
        [100.0] * 40,
        # A few high ones are garbage that has not been collected.
        [*[100.0] * 36, *[500.0] * 4],
        # Too few say nothing.
        [100.0, 500.0],
    ],
)
def test_memory_that_is_flat_is_no_leak(samples: list[float]) -> None:
    assert not checks.has_grown(samples)
