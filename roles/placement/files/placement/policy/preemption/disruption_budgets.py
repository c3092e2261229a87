# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disruption budgets: which of them a pod counts in, and how many of its pods may still be asked to leave."""

from collections.abc import Container, Sequence

from placement.policy.cache.job_cache import JobCache
from placement.policy.jobs.job import Task


class DisruptionBudgets:
    """The budgets for one action run, less what pods that are asked to leave take of them."""

    def __init__(self, cache: JobCache, refusing: Container[str] = ()) -> None:
        self._cache = cache
        self._table = cache.cluster.budgets
        # Budgets for which the API has refused an eviction.
        self._refusing = refusing
        self._taken: dict[str, int] | None = None

    def of(self, task: Task) -> tuple[str, ...]:
        """UIDs of the budgets that the pod counts in."""
        return self._table.of(task.entry.labelset)

    def allowed(self, uid: str) -> int:
        """How many more of a budget's pods may be asked to leave."""
        if self._taken is None:
            self._taken = {}
            # Asked to leave and not yet on the way out: the API has not counted these.
            for task in self._cache.releasing.values():
                if not task.pod.terminating:
                    self.take(task)
        return max(0, self._table.allowed(uid) - self._taken.get(uid, 0))

    def violations(self, victims: Sequence[Task]) -> int | None:
        """How many of them are beyond their budgets; None where it is known that these refuse."""
        hits: dict[str, int] = {}
        for task in victims:
            for uid in self.of(task):
                hits[uid] = hits.get(uid, 0) + 1
        beyond = {uid: number - self.allowed(uid) for uid, number in hits.items() if number > self.allowed(uid)}
        return None if any(uid in self._refusing for uid in beyond) else sum(beyond.values())

    def take(self, task: Task) -> None:
        """Count a pod that is evicted against its budgets."""
        if self._taken is None:
            # It is among those that are counted when the budgets are first asked for.
            return
        for uid in self.of(task):
            self._taken[uid] = self._taken.get(uid, 0) + 1
