# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disruption budgets: which of them a pod counts in, and how many of its pods may still be asked to leave."""

from collections.abc import Container, Sequence

from placement.model.disruption import DisruptionBudget
from placement.policy.book import Book
from placement.policy.jobs import Task


class Budgets:
    """The budgets as of when they are first asked for."""

    def __init__(self, book: Book, refusing: Container[str] = ()) -> None:
        self._book = book
        # Those beyond which the API has let nobody go.
        self._refusing = refusing
        self._by_namespace: dict[str, list[DisruptionBudget]] | None = None
        self._allowed: dict[str, int] = {}

    def of(self, task: Task) -> Sequence[str]:
        """UIDs of the budgets that the pod counts in."""
        items = self._known().get(task.pod.namespace)
        if not items:
            return ()
        labels = dict(task.pod.labels)
        return [item.uid for item in items if item.selector is not None and item.selector.matches(labels)]

    def allowed(self, uid: str) -> int:
        """How many more of a budget's pods may be asked to leave."""
        return self._allowed.get(uid, 0)

    def violations(self, victims: Sequence[Task]) -> int | None:
        """How many of them are beyond their budgets; None where it is known that these refuse."""
        hits: dict[str, int] = {}
        for task in victims:
            for uid in self.of(task):
                hits[uid] = hits.get(uid, 0) + 1
        beyond = {uid: number - self.allowed(uid) for uid, number in hits.items() if number > self.allowed(uid)}
        return None if any(uid in self._refusing for uid in beyond) else sum(beyond.values())

    def take(self, task: Task) -> None:
        """The pod is asked to leave."""
        for uid in self.of(task):
            self._allowed[uid] = max(0, self._allowed[uid] - 1)

    def _known(self) -> dict[str, list[DisruptionBudget]]:
        if self._by_namespace is None:
            self._by_namespace = {}
            for item in self._book.cluster.objects.every(DisruptionBudget):
                self._by_namespace.setdefault(item.namespace, []).append(item)
                self._allowed[item.uid] = max(0, item.allowed)
            # Asked to leave and not yet on the way out: the API has not counted these.
            for task in self._book.releasing.values():
                if not task.pod.terminating:
                    self.take(task)
        return self._by_namespace
