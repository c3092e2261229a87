# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preemptors: jobs that allocate could not place and that pods may be evicted for, by queue and in order.

There can be thousands of preemptors, and few have a turn in a cycle, so the crowd is never looked through. Jobs that
became unschedulable since the last run join. A preemptor that has had its turn is set aside until the retry version
grows. If that grows all the time, the first preemptors would be tried again and again; so there are rounds, too, in
which each preemptor has one turn.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Final

from placement.model.slicing import Steps, paced
from placement.policy.cache.equivalence_cache import FutileSearches
from placement.policy.cache.job_cache import JobCache
from placement.policy.cache.scheduling_queue.lazy_heap import LazyHeap
from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import Job
from placement.policy.plugins.plugin_set import PluginSet
from placement.policy.queues.queue import QueueEntry, QueueInfo
from placement.policy.queues.tree import QueueTree

# Jobs that are looked at in one step.
AT_ONCE: Final = 512


class RoundRobin:
    """Give the preemptors of one queue their turns, one in each round.

    A preemptor that comes during a round, or has had its turn in it, waits for the next round. So no preemptor waits
    longer than two rounds, however many come.
    """

    def __init__(self, table: Mapping[GroupKey, Job]) -> None:
        # Each is a pair: jobs that allocate could not place, and waiting jobs that it has not tried.
        self._due = (LazyHeap(table), LazyHeap(table))
        self._rest = (LazyHeap(table), LazyHeap(table))
        self.number = 0

    def put(self, place: QueueEntry, *, due: bool, tried: bool) -> None:
        """Add a job with its turn in this round (`due`) or the next; `tried` says whether allocate has tried it."""
        (self._due if due else self._rest)[not tried].put(place)

    def pop(self, since: int, *, in_turn: bool, all_of_them: bool) -> QueueEntry | None:
        """Remove and return the first place; options: of this round only, also of jobs that allocate has not tried."""
        kinds = 2 if all_of_them else 1
        if in_turn and not any(ranking.peek(since) for ranking in self._due[:kinds]):
            self._due, self._rest = self._rest, self._due
            self.number += 1
        rankings = self._due[:kinds] if in_turn else (*self._due[:kinds], *self._rest[:kinds])
        found = [(place, ranking) for ranking in rankings if (place := ranking.peek(since)) is not None]
        return min(found, key=lambda item: item[0])[1].pop(since) if found else None

    def __bool__(self) -> bool:
        return any((*self._due, *self._rest))

    def tidy(self) -> None:
        """Drop some of the stale entries."""
        for ranking in (*self._due, *self._rest):
            ranking.tidy()


class PreemptorQueue:
    """Keep the preemptors of one action."""

    def __init__(self, cache: JobCache) -> None:
        self.searches = FutileSearches()
        # The round in which each job came or had its last turn.
        self.turns: dict[GroupKey, int] = {}
        self._cache = cache
        self._rounds: dict[QueueInfo, RoundRobin] = {}
        # The plugins and the queues that the orders are by.
        self._ranked_by: tuple[PluginSet, QueueTree] | None = None
        # Jobs that have had a turn at the retry version of the last run, and that version.
        self._aside: list[QueueEntry] = []
        self._retry_version = -1
        # The last position of the jobs that have come, and of those that wait in each queue.
        self._seen = 0
        self._seen_waiting: dict[QueueInfo, int] = {}
        # The last position when the run began: a job that is pushed again during the run keeps its turn.
        self._begun = 0
        # Queues that give their waiting jobs, not tried by allocate, turns in this run too.
        self._joined: set[QueueInfo] = set()

    def gather(self) -> Steps[None]:
        """Begin a run, in steps: take in the jobs that came since the last run, and those that were set aside."""
        cache = self._cache
        if self._ranked_by is None or self._ranked_by[0] is not cache.plugins or self._ranked_by[1] is not cache.tree:
            self._ranked_by = (cache.plugins, cache.tree)
            self._rounds.clear()
            self._seen_waiting.clear()
            self._aside, self._seen = [], 0
        self._joined.clear()
        since, self._seen = self._seen, cache.queue.last_position
        self._begun = cache.queue.last_position
        returning: list[QueueEntry] = []
        if self._retry_version != cache.versions.retry:
            self._retry_version = cache.versions.retry
            returning, self._aside = self._aside, []
        yield from self._come(cache.queue.unschedulable, since, tried=True)
        for place, pause in paced(returning, AT_ONCE):
            _order, ticket, job = place
            if job.position == ticket or job.position > self._begun:
                self._put(place, tried=cache.queue.unschedulable.get(job.key) is job or job.position > self._begun)
            if pause:
                yield
        for rounds in self._rounds.values():
            rounds.tidy()

    def concerned(self) -> list[QueueInfo]:
        """Return the queues that have preemptors, or waiting jobs that allocate has not tried."""
        return [queue for queue in self._cache.tree.by_name.values() if queue.waiting or self._rounds.get(queue)]

    def join(self, queue: QueueInfo) -> Steps[None]:
        """Give the waiting jobs of the queue, not tried by allocate, their turns in this run too; in steps."""
        since, self._seen_waiting[queue] = self._seen_waiting.get(queue, 0), self._begun
        self._joined.add(queue)
        yield from self._come(queue.waiting, since, tried=False)

    def _come(self, jobs: dict[GroupKey, Job], since: int, *, tried: bool) -> Steps[None]:
        """Add the jobs after this position; the jobs are in the order of their positions."""
        newest = list(islice(reversed(jobs.values()), self._cache.queue.last_position - since))
        for job, pause in paced(newest, AT_ONCE):
            if job.position > since:
                # A job that is pushed again in the meantime comes again in the next run.
                self._put((job.order, min(job.position, self._begun), job), tried=tried)
            if pause:
                yield

    def _put(self, place: QueueEntry, *, tried: bool) -> None:
        job = place[2]
        queue = self._cache.tree.by_name.get(job.queue)
        # Jobs may go between two steps.
        if queue is not None and self._cache.jobs.by_key.get(job.key) is job:
            rounds = self._rounds.get(queue)
            if rounds is None:
                rounds = self._rounds[queue] = RoundRobin(queue.jobs)
            due = self.turns.setdefault(job.key, rounds.number) != rounds.number
            rounds.put(place, due=due, tried=tried)

    def pop(self, queue: QueueInfo, *, in_turn: bool) -> QueueEntry | None:
        """Remove and return the first place of the queue; with `in_turn` only of the jobs of this round."""
        rounds = self._rounds.get(queue)
        all_of_them = queue in self._joined
        return rounds.pop(self._begun, in_turn=in_turn, all_of_them=all_of_them) if rounds is not None else None

    def put_back(self, queue: QueueInfo, place: QueueEntry) -> None:
        """Put back the place of a job that has not had its turn."""
        if self._is_here(queue, place[2]):
            self._rounds[queue].put(place, due=True, tried=queue.waiting.get(place[2].key) is not place[2])

    def set_aside(self, queue: QueueInfo, place: QueueEntry) -> None:
        """Set aside the place of a job that has had its turn."""
        if self._is_here(queue, place[2]):
            self.turns[place[2].key] = self._rounds[queue].number
            self._aside.append(place)

    def _is_here(self, queue: QueueInfo, job: Job) -> bool:
        return self._cache.queue.unschedulable.get(job.key) is job or queue.waiting.get(job.key) is job
