# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods leave for a pod that needs their room: the cheapest set of those of one node, exactly.

Cheap is, in this order: few violations of disruption budgets, low priority of the highest victim, few gangs broken, few
pods. A gang that would lose its minimum leaves as a whole, wherever its pods are, and counts with all of them. The
search tries every set of distinguishable pods. It gives up improving what it has after a bounded number of steps. Where
it has found nothing, it takes some more steps: the number of sets doubles with every pod.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from placement.model.amounts.totals import Totals
from placement.model.slicing import SliceBudget, Steps
from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import ON_NODE, Job, Task
from placement.policy.preemption.disruption_budgets import DisruptionBudgets

Cost = tuple[int, int, int, int]

# Sets to look at, and pods in them; a set has a price of all of its pods.
_STEPS: Final = 2000
_PODS: Final = 10_000
# So many times as many while there is no set that is enough.
_PATIENCE: Final = 10


@dataclass(frozen=True, slots=True)
class VictimSet:
    """Victims and what they cost; no pod has to leave if the set is empty."""

    cost: Cost
    victims: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class VictimRules:
    """What is asked about every node: which pods may be victims, alone and together, and which are interchangeable."""

    # About the pod itself.
    evictable: Callable[[Task], bool]
    # Equal for pods with equal `like`.
    alone: Callable[[Task], bool]
    together: Callable[[Sequence[Task]], bool]
    budgets: DisruptionBudgets
    # Equal for pods that nothing tells apart but budgets.
    like: Callable[[Task], Hashable]


NO_VICTIMS: Final = VictimSet((0, -(2**31) - 1, 0, 0), ())


class VictimSearch:
    """The search on one node, or one of several searches that have to share the time of one.

    `effort` is the slice budget shared by all searches.
    """

    def __init__(
        self,
        rules: VictimRules,
        classes: Sequence[Sequence[Task]],
        needed: Totals,
        forced: Sequence[Task],
        effort: SliceBudget,
        searches: int = 1,
    ) -> None:
        self._effort = effort
        self._rules = rules
        self._needed = needed
        self._classes = classes
        self._forced = forced
        self._best: VictimSet | None = None
        # How many of each class are chosen where the best was found.
        self.numbers: tuple[int, ...] = ()
        self._searches = searches
        self.steps = 0
        self._pods = 0
        # What the classes from each on can free together, and one pod of theirs at most, to see when a branch is dead.
        self._behind: list[tuple[Totals, Totals]] = [({}, {})]
        for members in reversed(self._classes):
            sums, most = dict(self._behind[-1][0]), dict(self._behind[-1][1])
            for name, amount in members[0].amounts:
                sums[name] = sums.get(name, 0) + amount * len(members)
                most[name] = max(most.get(name, 0), amount)
            self._behind.append((sums, most))
        self._behind.reverse()

    def run(self) -> Steps[VictimSet | None]:
        """Return the cheapest set, or None if no set is enough, in steps."""
        chosen, left = list(self._forced), dict(self._needed)
        for task in chosen:
            _take(left, task, 1)
        # How many of each class are chosen, as far as the branch goes, and for each how many it is the turn of next.
        numbers: list[int] = []
        turns = self._branch(numbers, chosen, left)
        while turns:
            members = self._classes[len(turns) - 1]
            if len(numbers) == len(turns):
                number = numbers.pop()
                del chosen[len(chosen) - number :]
                for task in members[:number]:
                    _take(left, task, -1)
            number = turns[-1]
            turns[-1] -= 1
            if number < 0 or self._lasts_too_long():
                turns.pop()
                continue
            numbers.append(number)
            chosen += members[:number]
            for task in members[:number]:
                _take(left, task, 1)
            turns += self._branch(numbers, chosen, left)
            if self._effort.is_due():
                yield
        return self._best

    def _branch(self, numbers: Sequence[int], chosen: Sequence[Task], left: Totals) -> list[int]:
        """Judge a set; return how many of the next class may make a better one of it."""
        index = len(numbers)
        self.steps += 1
        self._pods += len(chosen)
        self._effort.spend(1 + len(chosen))
        if self._lasts_too_long():
            return []
        found = priced(chosen, self._rules)
        if found is not None:
            # The rest of gangs.
            self._effort.spend(len(found.victims) - len(chosen))
        if found is None or (self._best is not None and found.cost >= self._best.cost):
            return []
        if all(amount <= 0 for amount in left.values()):
            self._best, self.numbers = found, tuple(numbers)
            return []
        if index == len(self._classes) or self._is_dead(index, found.cost, left):
            return []
        members = self._classes[index]
        # Most of a class first: a full set is found soon, and what costs more is cut off.
        return [min(len(members), enough(members[0], left))]

    def _lasts_too_long(self) -> bool:
        steps, pods = self.steps * self._searches, self._pods * self._searches
        if self._best is None:
            steps, pods = self.steps // _PATIENCE, self._pods // _PATIENCE
        return steps > _STEPS or pods > _PODS

    def _is_dead(self, index: int, cost: Cost, left: Totals) -> bool:
        """Whether the classes from this one on cannot free what is left, or not as cheaply as the best set does."""
        sums, most = self._behind[index]
        if any(amount > sums.get(name, 0) for name, amount in left.items()):
            return True
        if self._best is None or cost[2]:
            # Where a gang is broken, some of those to come have been counted.
            return False
        pods = max(-(-amount // most[name]) for name, amount in left.items() if amount > 0)
        return (*cost[:3], cost[3] + pods) >= self._best.cost


def priced(chosen: Sequence[Task], rules: VictimRules) -> VictimSet | None:
    """Return the set with the rest of the gangs it breaks, and its cost; None if that may not leave."""
    closed = closure(chosen, rules)
    if closed is None or (closed[0] and not rules.together(closed[0])):
        return None
    victims, broken = closed
    violations = rules.budgets.violations(victims)
    if violations is None:
        return None
    highest = max((task.priority for task in victims), default=NO_VICTIMS.cost[1])
    return VictimSet((violations, highest, broken, len(victims)), tuple(victims))


def closure(chosen: Sequence[Task], rules: VictimRules) -> tuple[list[Task], int] | None:
    """Return the chosen tasks, the rest of each gang that would fall below its minimum, and how many gangs that are."""
    by_job: dict[GroupKey, list[Task]] = {}
    jobs: dict[GroupKey, Job] = {}
    victims: list[Task] = []
    for task in chosen:
        if task.is_archived:
            victims.append(task)
            continue
        job = task.job
        by_job.setdefault(job.key, []).append(task)
        jobs[job.key] = job
    broken = 0
    for key, tasks in by_job.items():
        job = jobs[key]
        if job.min_member > 1 and job.ready >= job.min_member > job.ready - len(tasks):
            broken += 1
            tasks = [task for task in job.tasks.values() if task.status in ON_NODE]
            if not all(rules.evictable(task) and rules.alone(task) for task in tasks):
                return None
        victims += tasks
    return victims, broken


def classes(candidates: Sequence[tuple[Hashable, Task]]) -> list[tuple[Hashable, list[Task]]]:
    """Group interchangeable candidates; low priority first, and large before small."""
    found: dict[Hashable, list[Task]] = {}
    for like, task in sorted(candidates, key=lambda item: item[1].uid):
        found.setdefault(like, []).append(task)
    return sorted(found.items(), key=lambda item: precedence(item[1]))


def precedence(alike: Sequence[Task]) -> tuple[int, list[int]]:
    """Low priority first, and large before small."""
    return (alike[0].priority, [-amount for _name, amount in alike[0].amounts])


def enough(task: Task, needed: Totals) -> int:
    """Return how many such tasks free all that one of them has of what is needed; more are never needed."""
    return max(0, *(-(-needed.get(name, 0) // amount) for name, amount in task.amounts if amount > 0))


def _take(left: Totals, task: Task, number: int) -> None:
    for name, amount in task.amounts:
        if name in left:
            left[name] -= amount * number
