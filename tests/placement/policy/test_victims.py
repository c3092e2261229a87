# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for victims where there are too many sets of them to look at each."""

import random
from collections.abc import Iterator, Sequence

import pytest
from placement.model.objects.pod import Phase
from placement.model.slicing import SliceBudget
from placement.policy.jobs.job import Task
from placement.policy.preemption.disruption_budgets import DisruptionBudgets
from placement.policy.preemption.victims import VictimRules, VictimSearch, VictimSet, classes
from placement_kit.builders import mine, node
from placement_kit.simulated import Simulated

PODS = 60
# Sets that are looked at, as the guide says.
SETS = 2_000
# Pods in them, and how many times as many are looked at where nothing is found.
LOOKS = 10_000
PATIENCE = 10


def searched(search: VictimSearch) -> VictimSet | None:
    """What it finds in one go."""
    found: list[VictimSet | None] = []

    def steps() -> Iterator[None]:
        found.append((yield from search.run()))

    for _unused in steps():
        pass
    return found[0]


@pytest.mark.parametrize("part", [0.02, 0.3, 0.7])
def test_a_search_among_dozens_of_kinds_ends_and_what_it_finds_is_enough(part: float, chosen: random.Random) -> None:
    simulated = Simulated()
    simulated.see(node("n1", allocatable=(("cpu", 10**6), ("memory", 10**6), ("pods", 110))))
    # Who has much of one has little of the other, so no pod is plainly better than another.
    cpu = {f"p{index}": chosen.randint(100, 4_000) for index in range(PODS)}
    sizes = {name: {"cpu": size, "memory": 4_100 - size} for name, size in cpu.items()}
    needed = {name: int(part * sum(size[name] for size in sizes.values())) for name in ("cpu", "memory")}
    for name, size in sizes.items():
        simulated.see(mine(name, node="n1", phase=Phase.RUNNING, request=(*size.items(),)))
    simulated.run()
    book, looked_at = simulated.scheduler.cache, list[int]()

    def together(tasks: Sequence[Task]) -> bool:
        looked_at.append(len(tasks))
        assert len(looked_at) < 2 * SETS
        return True

    question = VictimRules(
        lambda _task: True, lambda _task: True, together, DisruptionBudgets(book), lambda task: task.uid
    )
    members = [tasks for _like, tasks in classes([(task.uid, task) for task in book.jobs.tasks.values()])]
    found = searched(VictimSearch(question, members, needed, (), SliceBudget()))
    assert len(looked_at) <= SETS + PODS
    assert found is not None
    freed = {name: sum(sizes[task.pod.name][name] for task in found.victims) for name in needed}
    assert all(freed[name] >= amount for name, amount in needed.items())


def test_a_search_among_hundreds_of_pods_ends_and_what_it_finds_is_enough() -> None:
    simulated = Simulated()
    simulated.see(node("n1", allocatable=(("cpu", 10**7), ("memory", 10**7), ("pods", 3_000))))
    sizes = {f"p{kind}-{number}": 100 * (kind % 9 + 1) for kind in range(60) for number in range(40)}
    for name, cpu in sizes.items():
        kind = int(name[1:].split("-")[0])
        simulated.see(
            mine(name, node="n1", phase=Phase.RUNNING, request=(("cpu", cpu), ("memory", kind + 1)), priority=kind % 7)
        )
    simulated.run()
    book, looked_at = simulated.scheduler.cache, list[int]()

    def together(tasks: Sequence[Task]) -> bool:
        looked_at.append(len(tasks))
        return True

    def like(task: Task) -> object:
        return task.pod.request, task.priority

    question = VictimRules(lambda _task: True, lambda _task: True, together, DisruptionBudgets(book), like)
    members = [tasks for _like, tasks in classes([(like(task), task) for task in book.jobs.tasks.values()])]
    found = searched(VictimSearch(question, members, {"cpu": 150_000}, (), SliceBudget()))
    assert found is not None
    assert sum(sizes[task.pod.name] for task in found.victims) >= 150_000
    # What is chosen on the way down to the first set that is enough, and one set that was being looked at.
    assert sum(looked_at) <= LOOKS + 2 * len(found.victims)


def test_a_search_for_what_must_not_leave_ends() -> None:
    simulated = Simulated()
    simulated.see(node("n1", allocatable=(("cpu", 10**6), ("memory", 10**6), ("pods", 110))))
    for index in range(40):
        simulated.see(mine(f"p{index}", node="n1", phase=Phase.RUNNING, request=(("cpu", 700 + 7 * index),)))
    simulated.run()
    book, looked_at = simulated.scheduler.cache, list[int]()

    def together(tasks: Sequence[Task]) -> bool:
        looked_at.append(len(tasks))
        assert len(looked_at) < 2 * PATIENCE * SETS
        return sum(dict(task.amounts)["cpu"] for task in tasks) < 15_000

    question = VictimRules(
        lambda _task: True, lambda _task: True, together, DisruptionBudgets(book), lambda task: task.uid
    )
    members = [tasks for _like, tasks in classes([(task.uid, task) for task in book.jobs.tasks.values()])]
    assert searched(VictimSearch(question, members, {"cpu": 15_000}, (), SliceBudget())) is None
    assert sum(looked_at) <= PATIENCE * LOOKS + len(members)
