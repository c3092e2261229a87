# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where room can be made for a pod: the cheapest victims over all nodes.

Nodes are searched one after another, in slices, and what was found is kept with the row: until the next claimant of the
same kind asks, few nodes have changed. What was found long ago is looked at again before it is used.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

import numpy as np

from placement.policy.jobs import Status, Task
from placement.policy.session import Session
from placement.policy.victims import NOBODY, Cost, Found, NodeSearch, Question

# Nodes between two looks at the clock.
_STRIDE: Final = 8
_EVICTABLE: Final = (Status.BOUND, Status.RUNNING)


@dataclass(frozen=True, slots=True)
class Opening:
    """A node and who has to leave it."""

    row: int
    node: str
    found: Found


class Seeker:
    """Openings for claimants of one kind, cheapest first."""

    def __init__(self, session: Session, question: Question) -> None:
        self._session = session
        self.question = question
        self._columns = session.book.cluster.columns
        self._heap: list[tuple[Cost, int]] = []
        self._cursor = -1

    def build(self, claimant: Task) -> Iterator[None]:
        """Searches all nodes once; later only those that changed are searched again."""
        if self._cursor >= 0:
            return
        self._cursor = self._columns.changes
        allows = self._session.chooser.usable(claimant)
        for count, row in enumerate(np.flatnonzero(allows).tolist()):
            self._search(claimant, row)
            if count % _STRIDE == _STRIDE - 1:
                yield

    def best(self, claimant: Task) -> Opening | None:
        """The cheapest opening as things stand."""
        changed = self._columns.changed_since(self._cursor)
        rows = set(range(self._columns.capacity)) if changed is None else set(changed.tolist())
        self._cursor = self._columns.changes
        usable = self._session.chooser.usable(claimant)
        allowed = self._session.chooser.allowed(claimant)
        for row in rows:
            if row < len(usable) and usable[row]:
                self._search(claimant, row)
        aside: list[tuple[Cost, int]] = []
        opening: Opening | None = None
        while self._heap and opening is None:
            place = heappop(self._heap)
            cost, row = place
            node = self._columns.nodes[row]
            if node is None or not usable[row]:
                continue
            if allowed is not None and not allowed[row]:
                aside.append(place)
                continue
            found = self._look(claimant, row)
            if found is None:
                continue
            if found.cost > cost:
                heappush(self._heap, (found.cost, row))
                continue
            aside.append((found.cost, row))
            opening = Opening(row, node.name, found)
        for place in aside:
            heappush(self._heap, place)
        return opening

    def _search(self, claimant: Task, row: int) -> None:
        found = self._look(claimant, row)
        if found is not None:
            heappush(self._heap, (found.cost, row))

    def _look(self, claimant: Task, row: int) -> Found | None:
        """Who has to leave this node; None where the claimant cannot have it at all."""
        book, columns, node = self._session.book, self._columns, self._columns.nodes[row]
        vector = columns.axis.request(claimant.pod.request)
        if node is None or vector.unknown or (columns.alloc[:, row] < vector.dense).any():
            return None
        lacking = vector.dense - columns.free[:, row] - columns.releasing[:, row] + columns.nominated[:, row]
        needed = {columns.axis.names[index]: int(lacking[index]) for index in np.flatnonzero(lacking > 0).tolist()}
        # What is not asked for is never lacking, even where too much of it has been promised.
        needed = {name: amount for name, amount in needed.items() if vector.dense[columns.axis.names.index(name)]}
        ports = claimant.pod.spec.host_ports
        clashing = bool(ports) and book.cluster.ports.clash(ports, row)
        if not needed and not clashing:
            return NOBODY
        candidates: list[Task] = []
        forced: list[Task] = []
        for entry in book.cluster.pods.at_node(node.name):
            task = book.tasks.get(entry.pod.uid)
            evictable = task is not None and self.question.alone(task)
            blocks = clashing and any(mine.clashes(theirs) for mine in ports for theirs in entry.pod.spec.host_ports)
            if blocks and not entry.leaving and entry.charged:
                if not evictable or task is None:
                    return None
                forced.append(task)
            elif evictable and task is not None:
                candidates.append(task)
        return NodeSearch(self.question, candidates, needed, forced).run()


def evictable(session: Session, task: Task) -> bool:
    """Whether a task could be asked to leave at all."""
    pod = task.pod
    return (
        task.status in _EVICTABLE
        and not pod.mirror
        and not pod.daemon
        and task.uid not in session.spared
        and not session.rules.spares(task)
    )
