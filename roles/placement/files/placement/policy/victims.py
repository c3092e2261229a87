# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods of one node leave for a pod that needs their room: the cheapest set, exactly.

Cheap is, in this order: few violations of disruption budgets, low priority of the highest victim, few gangs broken,
few pods. A gang that would lose its minimum leaves as a whole, wherever its pods are, and counts with all of them. The
search tries every set of distinguishable pods and gives up improving what it has after a bounded number of steps.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from placement.policy.amounts import Totals
from placement.policy.budgets import Budgets
from placement.policy.jobs import PLACED, Job, Task
from placement.policy.membership import GroupKey

Cost = tuple[int, int, int, int]

_STEPS: Final = 2000


@dataclass(frozen=True, slots=True)
class Found:
    """Victims and what they cost; nobody has to leave where the set is empty."""

    cost: Cost
    victims: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about every node: who may be a victim, alone and together, and whom nobody can tell apart."""

    # About the pod itself.
    evictable: Callable[[Task], bool]
    # The same for all that nobody can tell apart.
    alone: Callable[[Task], bool]
    together: Callable[[Sequence[Task]], bool]
    budgets: Budgets
    like: Callable[[Task], Hashable]


NOBODY: Final = Found((0, -(2**31) - 1, 0, 0), ())


class NodeSearch:
    """The search on one node."""

    def __init__(
        self, question: Question, classes: Sequence[Sequence[Task]], needed: Totals, forced: Sequence[Task]
    ) -> None:
        self._question = question
        self._needed = needed
        self._classes = classes
        self._forced = forced
        self._best: Found | None = None
        # How many of each class are chosen where the best was found.
        self.numbers: tuple[int, ...] = ()
        self._steps = 0
        # What the classes from each on can free together, to see when a branch is dead.
        self._behind: list[Totals] = [{}]
        for members in reversed(self._classes):
            sums = dict(self._behind[-1])
            for name, amount in members[0].amounts:
                sums[name] = sums.get(name, 0) + amount * len(members)
            self._behind.append(sums)
        self._behind.reverse()

    def run(self) -> Found | None:
        """The cheapest set, or None where no set is enough."""
        chosen = list(self._forced)
        left = dict(self._needed)
        for task in chosen:
            _take(left, task, 1)
        self._descend((), chosen, left)
        return self._best

    def _descend(self, numbers: tuple[int, ...], chosen: list[Task], left: Totals) -> None:
        index = len(numbers)
        self._steps += 1
        if self._best is not None and self._steps > _STEPS:
            return
        found = priced(chosen, self._question)
        if found is None or (self._best is not None and found.cost >= self._best.cost):
            return
        if all(amount <= 0 for amount in left.values()):
            self._best, self.numbers = found, numbers
            return
        if index == len(self._classes):
            return
        behind = self._behind[index]
        if any(amount > behind.get(name, 0) for name, amount in left.items()):
            return
        members = self._classes[index]
        # Most of a class first: a full set is found soon, and what costs more is cut off.
        useful = any(left.get(name, 0) > 0 for name, _unused in members[0].amounts)
        for number in range(len(members) if useful else 0, -1, -1):
            taken = members[:number]
            for task in taken:
                _take(left, task, 1)
            self._descend((*numbers, number), [*chosen, *taken], left)
            for task in taken:
                _take(left, task, -1)


def priced(chosen: Sequence[Task], question: Question) -> Found | None:
    """The set with the rest of the gangs it breaks, and its cost; None where that must not leave."""
    closed = closure(chosen, question)
    if closed is None or (closed[0] and not question.together(closed[0])):
        return None
    victims, broken = closed
    hits: dict[str, int] = {}
    for task in victims:
        for budget in question.budgets.of(task):
            hits[budget] = hits.get(budget, 0) + 1
    violations = sum(max(0, number - question.budgets.allowed(budget)) for budget, number in hits.items())
    highest = max((task.job.priority for task in victims), default=NOBODY.cost[1])
    return Found((violations, highest, broken, len(victims)), tuple(victims))


def closure(chosen: Sequence[Task], question: Question) -> tuple[list[Task], int] | None:
    """The chosen ones and all of every gang that would be left without its minimum, and how many gangs that are."""
    by_job: dict[GroupKey, list[Task]] = {}
    jobs: dict[GroupKey, Job] = {}
    for task in chosen:
        job = task.job
        by_job.setdefault(job.key, []).append(task)
        jobs[job.key] = job
    victims: list[Task] = []
    broken = 0
    for key, tasks in by_job.items():
        job = jobs[key]
        if job.min_member > 1 and job.ready >= job.min_member > job.ready - len(tasks):
            broken += 1
            tasks = [task for task in job.tasks.values() if task.status in PLACED]
            if not all(question.evictable(task) and question.alone(task) for task in tasks):
                return None
        victims += tasks
    return victims, broken


def classes(candidates: Sequence[tuple[Hashable, Task]]) -> list[tuple[Hashable, list[Task]]]:
    """Candidates that nobody can tell apart, together; low priority first, and large before small."""
    found: dict[Hashable, list[Task]] = {}
    for like, task in sorted(candidates, key=lambda item: item[1].uid):
        found.setdefault(like, []).append(task)
    return sorted(
        found.items(), key=lambda item: (item[1][0].job.priority, [-amount for _n, amount in item[1][0].amounts])
    )


def _take(left: Totals, task: Task, number: int) -> None:
    for name, amount in task.amounts:
        if name in left:
            left[name] -= amount * number
