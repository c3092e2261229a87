# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A heap of very many jobs that drops its stale entries when they come up.

An entry is stale when its job has another position or has left the table. So that stale entries do not pile up, the
heap is built again from time to time, a little in every slice.
"""

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from itertools import islice
from math import inf
from typing import Final

from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import Job
from placement.policy.queues.queue import QueueEntry

# Entries that one call of `tidy` carries over.
_CARRIED: Final = 512


class LazyHeap:
    """Find the first of some jobs of a table, by the order and the position that each had when it was added."""

    def __init__(self, table: Mapping[GroupKey, Job]) -> None:
        self._table = table
        self._heap: list[QueueEntry] = []
        # The rest of the old heap; its last entry can be removed without disturbing the others.
        self._before: list[QueueEntry] = []

    def __len__(self) -> int:
        return len(self._heap) + len(self._before)

    def add(self, job: Job) -> None:
        """Add a job that has its order and its position."""
        self.put((job.order, job.position, job))

    def put(self, place: QueueEntry) -> None:
        """Add a place that was popped, or that its job had a moment ago."""
        heappush(self._heap, place)

    def take(self, number: int) -> Iterator[Job]:
        """Remove and yield the first jobs, at most this number."""
        return (place[2] for place in islice(iter(self.pop, None), number))

    def peek(self, since: float = inf) -> QueueEntry | None:
        """Return the first place, or None; a stale one counts if its job has got a position after `since`."""
        while heaps := [heap for heap in (self._heap, self._before) if heap]:
            heap = min(heaps, key=lambda heap: heap[0])
            if heap[0][2].position > since or self._is_valid(heap[0]):
                return heap[0]
            heappop(heap)
        return None

    def pop(self, since: float = inf) -> QueueEntry | None:
        """Remove and return the place that `peek` would return."""
        place = self.peek(since)
        if place is not None:
            heappop(self._heap if self._heap and self._heap[0] is place else self._before)
        return place

    def tidy(self) -> None:
        """Drop some of the stale entries, if they are more than half of all."""
        if not self._before and len(self._heap) > 2 * len(self._table) + _CARRIED:
            self._heap, self._before = self._before, self._heap
        for _unused in range(min(_CARRIED, len(self._before))):
            place = self._before.pop()
            if self._is_valid(place):
                heappush(self._heap, place)

    def _is_valid(self, place: QueueEntry) -> bool:
        _order, ticket, job = place
        return job.position == ticket and self._table.get(job.key) is job
