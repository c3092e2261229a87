# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slices of the scheduler, as the loop asks for them."""

from placement.model.action import Bind, Evict, PodCondition
from placement.model.pod import Phase
from placement.policy.configuration import load
from placement_kit.builders import gang, mine, node, queue
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
        simulated.scheduler.follow()
    book = simulated.scheduler.book
    assert [len(kept) for kept in (book.cluster.changed, book.settled, book.tasks, book.jobs)] == [0, 0, 0, 0]
