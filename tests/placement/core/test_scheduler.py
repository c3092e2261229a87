# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slices of the scheduler, as the loop asks for them."""

from collections import Counter
from dataclasses import replace

import pytest
from placement.model.messages.action import Action, Bind, Evict, PodCondition
from placement.model.messages.event import Upserted
from placement.model.objects.pod import Phase
from placement.policy.jobs.job import Status
from placement.policy.jobs.pod_groups import GroupIndex
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, gang, mine, node, priority_class, queue
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated

SIZE = 300


def test_nothing_is_said_of_a_gang_while_its_pods_are_still_taken_in() -> None:
    simulated = Simulated()
    simulated.see(*(node(f"n{index}") for index in range(SIZE)), gang("big", SIZE))
    simulated.see(*(mine(f"p{index}", group="big") for index in range(SIZE)))
    decided = simulated.run()
    assert sum(isinstance(action, Bind) for action in decided) == SIZE
    assert not [action for action in decided if isinstance(action, PodCondition)]


def test_slices_go_on_after_the_clock_has_run_out() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), mine("p1"), mine("p2"), gang("empty", 2))
    for _unused in range(100):
        for action in simulated.run_once(lambda: True):
            simulated.carry_out(action)
    assert simulated.placements() == {"p1": "n1", "p2": "n1"}


def test_nobody_has_to_leave_before_all_that_run_have_been_taken_in() -> None:
    simulated = Simulated(load(policy("reclaim, allocate, preempt"), "test"))
    simulated.see(queue("q1", weight=1), queue("q2", weight=1), gang("a", 1, queue="q1"), gang("b", 1, queue="q2"))
    simulated.see(*(node(f"n{index}") for index in range(SIZE // 4)))
    simulated.see(mine("more", group="b"))
    for index in range(SIZE):
        group = "a" if index < SIZE // 2 else "b"
        simulated.see(mine(f"{group}{index}", group=group, node=f"n{index // 4}", phase=Phase.RUNNING))
    assert not [action for action in simulated.run() if isinstance(action, Evict)]


def test_whoever_follows_forgets_what_has_changed() -> None:
    simulated = Simulated()
    simulated.see(node("n1"))
    for index in range(SIZE):
        simulated.see(mine(f"p{index}", node="n1", phase=Phase.SUCCEEDED))
        simulated.gone(simulated.named(f"p{index}"))
        simulated.follow()
    book = simulated.scheduler.cache
    kept = (book.cluster.changed, book.settled, book.jobs.tasks, book.jobs.by_key)
    assert [len(one) for one in kept] == [0, 0, 0, 0]


def crowded(nodes: int = 6) -> Simulated:
    """Full nodes, a queue that has all it may, and a gang for which half of its pods have to leave."""
    simulated = Simulated(load(policy("allocate, preempt"), "test"))
    simulated.see(priority_class("high", 10), queue("default", capability=amounts(cpu=str(4 * nodes))))
    for index in range(nodes):
        simulated.see(node(f"n{index}"))
        simulated.see(
            *(mine(f"low{index}{name}", node=f"n{index}", phase=Phase.RUNNING, priority=index % 3) for name in "abcd")
        )
    simulated.run()
    size = 2 * nodes
    simulated.see(gang("high", size, priority_class="high"))
    simulated.see(*(mine(f"high{index}", group="high", priority=10) for index in range(size)))
    return simulated


def decided_in_slices(simulated: Simulated) -> list[Action]:
    """What a cycle decides that is cut off wherever it may be."""
    decided = simulated.run_once(lambda: True)
    while not any(isinstance(action, Evict) for action in decided):
        decided += simulated.run_once(lambda: True)
    return decided


def begun() -> Simulated:
    """In the middle of making room for a gang."""
    simulated = crowded()
    while not any(task.status is Status.PIPELINED for task in simulated.scheduler.cache.jobs.tasks.values()):
        assert not simulated.run_once(lambda: True)
    assert simulated.scheduler.under_way
    return simulated


def test_what_is_decided_in_many_slices_is_what_would_be_decided_in_one() -> None:
    def victims(actions: list[Action]) -> list[str]:
        return [action.name for action in actions if isinstance(action, Evict)]

    assert victims(decided_in_slices(crowded())) == victims(crowded().run_once())
    assert len(victims(crowded().run_once())) == 12
    placements = []
    for expired in (True, False):
        simulated = Simulated()
        simulated.see(*(node(f"n{index}") for index in range(SIZE // 3)), gang("big", SIZE))
        simulated.see(*(mine(f"p{index}", group="big") for index in range(SIZE)))
        decided: list[Action] = []
        for _unused in range(50):
            some = simulated.run_once(lambda expired=expired: expired)
            assert len([action for action in some if isinstance(action, Bind)]) in (0, SIZE)
            decided += some
        placements.append([(action.uid, action.node) for action in decided if isinstance(action, Bind)])
    assert placements[0] == placements[1] != []


def test_what_comes_in_the_middle_of_a_statement_is_taken_in_after_it() -> None:
    simulated = begun()
    book, before = simulated.scheduler.cache, len(simulated.scheduler.cluster.pods.by_uid)
    simulated.gone(simulated.named("low0a"))
    simulated.see(mine("late"), replace(node("n0"), unschedulable=True))
    assert len(simulated.scheduler.cluster.pods.by_uid) == before
    decided = decided_in_slices(simulated)
    assert len([action for action in decided if isinstance(action, Evict)]) == 12
    for action in decided:
        if isinstance(action, Evict) and action.uid in simulated.pods:
            simulated.carry_out(action)
    simulated.run()
    assert "uid-low0a" not in book.jobs.tasks
    assert len([name for name in simulated.placements() if name.startswith("high")]) == 12
    assert "uid-late" in book.jobs.tasks
    simulated.check()


def test_events_do_not_wait_longer_than_one_statement_although_there_is_always_another() -> None:
    simulated = Simulated(load(policy("allocate"), "test"))
    simulated.see(node("n1", allocatable=amounts(cpu="4000", memory="64Gi", pods="5000")))
    for which in range(4):
        simulated.see(gang(f"g{which}", SIZE), *(mine(f"g{which}-{index}", group=f"g{which}") for index in range(SIZE)))
    book, known = simulated.scheduler.cache, simulated.scheduler.cluster.pods.by_uid
    while not any(task.status is Status.ALLOCATED for task in book.jobs.tasks.values()):
        simulated.run_once(lambda: True)
    simulated.see(mine("late"))
    slices = 0
    while "uid-late" not in known:
        # Every slice ends in the middle of something.
        simulated.run_once(lambda: book.in_transaction)
        slices += 1
    assert slices < 20
    # Only the first gang has its nodes, or also the second is at its beginning.
    assert [task.status for task in book.jobs.tasks.values()].count(Status.PENDING) >= 2 * SIZE


def test_whoever_follows_takes_back_what_was_under_way_and_may_decide_it_later() -> None:
    simulated = begun()
    simulated.gone(simulated.named("low0a"))
    simulated.follow()
    book = simulated.scheduler.cache
    assert not simulated.scheduler.under_way
    assert {task.status for task in book.jobs.tasks.values()} == {Status.RUNNING, Status.PENDING}
    assert not simulated.scheduler.cluster.columns.nominated.any()
    assert "uid-low0a" not in book.jobs.tasks
    simulated.run()
    assert len([name for name in simulated.placements() if name.startswith("high")]) == 12
    # So does half of a gang that is placed.
    simulated = Simulated()
    simulated.see(*(node(f"n{index}") for index in range(SIZE)), gang("big", SIZE))
    simulated.see(*(mine(f"p{index}", group="big") for index in range(SIZE)))
    while not any(task.status is Status.ALLOCATED for task in simulated.scheduler.cache.jobs.tasks.values()):
        simulated.run_once(lambda: True)
    simulated.scheduler.configure(load(policy(), "test"), partial_gang_seconds=120.0, reserve_after=300.0)
    assert {task.status for task in simulated.scheduler.cache.jobs.tasks.values()} == {Status.PENDING}
    assert len([action for action in simulated.run() if isinstance(action, Bind)]) == SIZE


def test_whoever_asks_is_not_shown_half_of_a_statement() -> None:
    simulated = begun()
    scheduler = simulated.scheduler
    for question in (scheduler.queues, lambda: simulated.explain("team", "low0a")):
        with pytest.raises(RuntimeError, match="under way"):
            question()
    # It has neither been brought to its end by the question nor spoilt.
    assert scheduler.under_way
    decided = simulated.finish_what_is_under_way()
    (report,) = scheduler.queues()
    assert dict(report.allocated)["cpu"] == 24_000
    decided += simulated.run_once()
    assert len([action for action in decided if isinstance(action, Evict)]) == 12


def test_nothing_is_applied_in_the_middle_of_a_statement() -> None:
    simulated = begun()
    with pytest.raises(RuntimeError, match="under way"):
        simulated.scheduler.apply(Upserted(mine("late")))
    assert "uid-late" not in simulated.scheduler.cluster.pods.by_uid
    assert len([action for action in simulated.run() if isinstance(action, Evict)]) == 12


def test_no_slice_reads_all_jobs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = Simulated()
    simulated.see(node("n1"), queue("default"), queue("other"), priority_class("high", 10))
    for index in range(2 * SIZE):
        where = "other" if index % 2 else "default"
        simulated.see(gang(f"g{index}", 1, queue=where, priority_class="high"))
        simulated.see(mine(f"g{index}", group=f"g{index}", request=amounts(cpu="3")))
    simulated.run()
    read, facts = [], GroupIndex.facts
    monkeypatch.setattr(GroupIndex, "facts", lambda index, job: read.append(job) or facts(index, job))
    for change, expected in (
        (queue("default", weight=7, capability=amounts(cpu="4")), 0),
        (queue("third", weight=7), 0),
        (queue("other", is_open=False), SIZE),
        (priority_class("high", 20), 2 * SIZE),
    ):
        simulated.see(change)
        number = 0
        while read or not number:
            read.clear()
            simulated.run_once()
            assert len(read) <= 130
            number += len(read)
            if not expected:
                break
        assert number == expected
    assert {job.priority for job in simulated.scheduler.cache.jobs.by_key.values()} == {20}
    problems = [job.problem.reason for job in simulated.scheduler.cache.jobs.by_key.values() if job.problem is not None]
    assert problems == ["ClosedQueue"] * SIZE


def test_a_thousand_confirmations_are_not_taken_in_at_once() -> None:
    simulated = Simulated()
    simulated.see(*(node(f"n{index}") for index in range(SIZE)))
    simulated.see(*(mine(f"p{index}") for index in range(SIZE)))
    for action in simulated.run_once() + simulated.run_once() + simulated.run_once():
        simulated.carry_out(action)
    statuses = Counter(task.status for task in simulated.scheduler.cache.jobs.tasks.values())
    simulated.run_once(lambda: True)
    then = Counter(task.status for task in simulated.scheduler.cache.jobs.tasks.values())
    assert 0 < then[Status.RUNNING] - statuses[Status.RUNNING] < SIZE
    simulated.run()
    assert len(simulated.placements()) == SIZE
