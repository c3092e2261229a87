# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Victims within a queue: pods that give up the queue's own share, where a capability is in the way and not a node.

Pods of a queue can be many, so they are sorted out in slices, before anything is decided; a pod that has gone since is
passed over. The cheapest are found as they are on a node: the set is exact where their kinds and their pods are few.
"""

from collections.abc import Hashable, Iterable
from typing import Final

from placement.model.amounts.totals import Totals
from placement.model.slicing import SliceBudget, Steps
from placement.policy.cache.job_cache import JobCache
from placement.policy.jobs.job import Task
from placement.policy.preemption.victims import VictimRules, VictimSearch, VictimSet, enough, precedence

# What it costs to sort a pod out.
_SORTED: Final = 4
# So many kinds are combined at most; a gang is a kind of its own.
_KINDS: Final = 64


class QueueVictims:
    """Pods of one queue that preemptors of one kind may drive out, by kind."""

    def __init__(self, cache: JobCache, rules: VictimRules, tasks: Iterable[Task], effort: SliceBudget) -> None:
        self.rules = rules
        self._cache = cache
        self._tasks = tasks
        self._effort = effort
        self._kinds: list[list[Task]] = []

    def sort_out(self) -> Steps[None]:
        """Sort the queue's victims once, in steps."""
        found: dict[Hashable, list[Task]] = {}
        for task in self._tasks:
            if self._may_leave(task):
                kind = (self.rules.like(task), self.rules.budgets.of(task))
                found.setdefault(kind, []).append(task)
            self._effort.spend(_SORTED)
            if self._effort.is_due():
                yield
        self._tasks = ()
        self._kinds += sorted(found.values(), key=precedence)

    def cheapest(self, needed: Totals, searches: int) -> Steps[VictimSet | None]:
        """Return the cheapest victims that are still there and hold so much; None if they hold less.

        It is one of so many searches for the same job.
        """
        kinds: list[list[Task]] = []
        for tasks in self._kinds:
            kind = yield from self._first(tasks, enough(tasks[0], needed))
            if kind:
                kinds.append(kind)
            if len(kinds) == _KINDS:
                break
        return (yield from VictimSearch(self.rules, kinds, needed, (), self._effort, searches).run())

    def _first(self, tasks: Iterable[Task], number: int) -> Steps[list[Task]]:
        """So many of them that may leave; most of a kind may have gone by now, or be about to."""
        found: list[Task] = []
        for task in tasks:
            if len(found) == number:
                break
            if self._may_leave(task):
                found.append(task)
            self._effort.spend(1)
            if self._effort.is_due():
                yield
        return found

    def _may_leave(self, task: Task) -> bool:
        there = self._cache.jobs.tasks.get(task.uid) is task
        return there and self.rules.evictable(task) and self.rules.alone(task)
