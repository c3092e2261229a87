# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disruption budgets: which of them a pod counts in, and how many of its pods may still be asked to leave."""

from collections.abc import Sequence

from placement.model.disruption import DisruptionBudget
from placement.policy.book import Book
from placement.policy.jobs import Status, Task


class Budgets:
    """The budgets as of now."""

    def __init__(self, book: Book) -> None:
        self._by_namespace: dict[str, list[DisruptionBudget]] = {}
        for item in book.cluster.objects.get(DisruptionBudget, {}).values():
            if isinstance(item, DisruptionBudget):
                self._by_namespace.setdefault(item.namespace, []).append(item)
        self.allowed: dict[str, int] = {
            item.uid: max(0, item.allowed) for items in self._by_namespace.values() for item in items
        }
        if self.allowed:
            # Asked to leave and not yet on the way out: the API has not counted these.
            for task in book.tasks.values():
                if task.status is Status.RELEASING and not task.pod.terminating:
                    for uid in self.of(task):
                        self.allowed[uid] = max(0, self.allowed[uid] - 1)

    def of(self, task: Task) -> Sequence[str]:
        """UIDs of the budgets that the pod counts in."""
        items = self._by_namespace.get(task.pod.namespace)
        if not items:
            return ()
        labels = dict(task.pod.labels)
        return [item.uid for item in items if item.selector is not None and item.selector.matches(labels)]

    def take(self, task: Task) -> None:
        """The pod is asked to leave."""
        for uid in self.of(task):
            self.allowed[uid] = max(0, self.allowed[uid] - 1)
