# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of very many jobs are the first in order, without ever putting all of them in order.

Entries of jobs that have moved on are found out when they come up. So that those do not pile up in between, the heap is
made anew from time to time, a little in every slice.
"""

from collections.abc import Mapping
from heapq import heappop, heappush
from itertools import islice
from math import inf
from typing import Final

from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import Job
from placement.policy.queues.queue import Place

# Entries that are carried over in one go.
_CARRIED: Final = 512


class LazyHeap:
    """Some of the jobs of a table, each by the order and the ticket that it had when it was added."""

    def __init__(self, table: Mapping[GroupKey, Job]) -> None:
        self._table = table
        self._heap: list[Place] = []
        # What is left of the heap before; its last entry can go without disturbing the others.
        self._before: list[Place] = []

    def __len__(self) -> int:
        return len(self._heap) + len(self._before)

    def add(self, job: Job) -> None:
        """The job has its order and its ticket."""
        self.put((job.order, job.position, job))

    def put(self, place: Place) -> None:
        """A place that has been popped, or that the job had a moment ago."""
        heappush(self._heap, place)

    def take(self, number: int) -> list[Job]:
        """The first so many; they have to be added again to be found once more."""
        return [place[2] for place in islice(iter(self.pop, None), number)]

    def peek(self, since: float = inf) -> Place | None:
        """The first place; one that its job has left counts only if that was after this ticket had been given."""
        while heaps := [heap for heap in (self._heap, self._before) if heap]:
            heap = min(heaps, key=lambda heap: heap[0])
            if heap[0][2].position > since or self._is_valid(heap[0]):
                return heap[0]
            heappop(heap)
        return None

    def pop(self, since: float = inf) -> Place | None:
        """The same; it has to be put back to be found once more."""
        place = self.peek(since)
        if place is not None:
            heappop(self._heap if self._heap and self._heap[0] is place else self._before)
        return place

    def tidy(self) -> None:
        """Forgets some of those that have moved on, where they are most of all."""
        if not self._before and len(self._heap) > 2 * len(self._table) + _CARRIED:
            self._heap, self._before = self._before, self._heap
        for _unused in range(min(_CARRIED, len(self._before))):
            place = self._before.pop()
            if self._is_valid(place):
                heappush(self._heap, place)

    def _is_valid(self, place: Place) -> bool:
        _order, ticket, job = place
        return job.position == ticket and self._table.get(job.key) is job
