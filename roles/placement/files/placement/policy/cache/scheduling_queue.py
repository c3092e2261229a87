# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The line: which jobs wait for their turn, in what order, and which do not even try before something changes."""

from collections.abc import Hashable, Iterable, Iterator, MutableMapping
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any, Final

from placement.model.quantity import Amounts
from placement.model.totals import Totals, add
from placement.model.workload import ENDED, NOT_LET_IN, VOLCANO, PodGroup
from placement.policy.cache.lazy_heap import LazyHeap
from placement.policy.cache.queueing_hints import Hints
from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import Job, Task
from placement.policy.plugins.plugin_set import PluginSet
from placement.policy.queues.queue import Place, QueueInfo
from placement.policy.queues.tree import QueueTree

# Seconds for which a job is held at most.
_LONGEST: Final = 30.0
# So many of the first of those that were tried in vain are tried again before all others.
_FIRST: Final = 32
# So many get their places back in one slice.
_BACK: Final = 512
# So many of them in one step.
_AT_ONCE: Final = 128
# Of so many tries one at most is for a job that news has woken, while others wait for their turn.
_WOKEN_PART: Final = 32
# So many void places may be in a queue that has few others.
_VOID: Final = 1024


class SchedulingQueue:
    """Waiting jobs, in the heaps of their queues or parked."""

    def __init__(self, rules: PluginSet, tree: QueueTree, hints: Hints) -> None:
        self.rules = rules
        self.tree = tree
        # Whether it is by our name that pods ask for Volcano's own scheduler.
        self.stands_for_volcano = False
        # What there is for our pods: free room, and what they hold already.
        self.total: Totals = {}
        # Moves when something that did not fit may fit now; jobs tried in vain wait for that.
        self.room_version = 0
        # Moves when somebody may be asked to leave who could not be before: a binding is confirmed, shares change.
        self.eviction_version = 0
        # Moves when pods may be cheaper to evict, or be allowed to leave, of which their nodes show nothing.
        self.upsets = 0
        # By their tickets, for whoever is parked has a new one.
        self.unschedulable: dict[GroupKey, Job] = {}
        self._first_parked = LazyHeap(self.unschedulable)
        # Jobs that have not been let in by enqueue; and those of one queue that ask for the same, in order.
        self.gated: dict[GroupKey, Job] = {}
        self.gated_by_request: dict[Hashable, LazyHeap] = {}
        # What is kept for those that have been let in and have not begun, for all and for each.
        self.reserved: Totals = {}
        self._reserved_for: dict[GroupKey, Amounts] = {}
        # Those of them that lack the pods to begin: what is kept for them is kept for a while.
        self.unclaimed: dict[GroupKey, Job] = {}
        # Jobs that room is kept for.
        self.pipelined: dict[GroupKey, Job] = {}
        # Jobs whose bindings failed, and until when they are not tried.
        self.backoff: dict[GroupKey, tuple[Job, float]] = {}
        # Jobs of queues that a batch system backs, when something has changed about them.
        self.backed: dict[GroupKey, Job] = {}
        # Those that have to be looked at again when the batch system has been read.
        self.recheck_after_read: dict[GroupKey, None] = {}
        # Jobs that are bound in part.
        self.partial: dict[GroupKey, Job] = {}
        # Jobs whose conditions may have to be written again.
        self.dirty: dict[GroupKey, Job] = {}
        # What parked jobs wait for besides room.
        self.hints = hints
        # What others know of jobs by their keys; it goes with the job.
        self.known: list[MutableMapping[GroupKey, Any]] = []
        # Walks through the queues that have not come to their end: some jobs have not been tried in them.
        self.unfinished_visits: set[Hashable] = set()
        # Parked jobs that get their places back, the last first, and the generation that they do so for.
        self._returning: list[Job] = []
        self._returned = 0
        # Tries in vain since some were put before all others, and all tries since some were woken.
        self._vain = 0
        self._tries = 0
        self._tickets = 0

    @property
    def last_position(self) -> int:
        """The last one given; whoever moves from now on gets a greater one."""
        return self._tickets

    @property
    def retry_version(self) -> int:
        """Moves when there may be room now, free or by eviction, that there was not before."""
        return self.room_version + self.eviction_version

    def push(self, job: Job) -> None:
        """Gives the job its place in its queue, if it has anything to place."""
        self.dirty[job.key] = job
        if job.partial:
            self.partial[job.key] = job
        job.position = self._tickets = self._tickets + 1
        self.unschedulable.pop(job.key, None)
        self.gated.pop(job.key, None)
        queue = self.tree.by_name.get(job.queue)
        if queue is not None:
            queue.waiting.pop(job.key, None)
            self._line_up(queue, job)
            # A queue that has all that it deserves is not visited, and nobody comes upon those that have moved on.
            if len(queue.order) > 2 * len(queue.waiting) + _VOID:
                queue.order[:] = [place for place in queue.order if place[1] == place[2].position]
                heapify(queue.order)
        if self.hints and job.key not in self.unschedulable:
            self.hints.forget(job.key)
        if self.rules.enqueues:
            self._reserve(job, queue)

    def owns_group(self, job: Job) -> bool:
        """Whether the job's group is ours to let in and to speak of, which its pods say.

        Before it has any, a group of Volcano's is for the scheduler of that name, as Volcano's Jobs wait for just that.
        """
        group = job.group
        if job.tasks or job.foreign or group is None or group.dialect != VOLCANO:
            return bool(job.tasks) or not job.foreign
        return self.stands_for_volcano or (job.last_status is not None and job.last_status[0].uid == group.uid)

    def _line_up(self, queue: QueueInfo, job: Job) -> None:
        group = job.group
        if group is not None and group.dialect == VOLCANO and self.owns_group(job):
            # Whoever is to create its pods may wait until it is in.
            self._enter(queue, job, group)
        if queue.record.backed_by:
            self.backed[job.key] = job
            return
        if job.problem is not None or not job.pending or not self.has_min_member(job) or job.key in self.backoff:
            return
        if self.rules.enqueues and group is not None and group.min_resources:
            self._enter(queue, job, group)
            if job.key in self.gated:
                return
        if job.unschedulable_at == self.room_version:
            self.unschedulable[job.key] = job
            self._first_parked.add(job)
            return
        job.order = self.rules.job_order(job, self.total)
        queue.waiting[job.key] = job
        heappush(queue.order if job.asking else queue.idle, (job.order, job.position, job))

    def _enter(self, queue: QueueInfo, job: Job, group: PodGroup) -> None:
        """The job is in, unless room that its group asks for is still to be found: that is enqueue's."""
        if job.inqueue or job.key in self.gated or is_over(job):
            return
        if not job.occupied and (group.phase in NOT_LET_IN or job.lapses):
            if job.problem is not None:
                return
            if self.rules.enqueues and group.min_resources and not queue.record.backed_by:
                self._gate(job, group)
                return
        job.inqueue = True

    def _gate(self, job: Job, group: PodGroup) -> None:
        # A group that let its room lapse comes after those that did not.
        job.order = (job.lapses, *self.rules.job_order(job, self.total))
        self.gated[job.key] = job
        kind = (job.queue, group.min_resources)
        if kind not in self.gated_by_request:
            self.gated_by_request[kind] = LazyHeap(self.gated)
        self.gated_by_request[kind].add(job)

    def _reserve(self, job: Job, queue: QueueInfo | None) -> None:
        """Keeps what the job's group asks for at least, from when it is let in until it begins."""
        add(self.reserved, self._reserved_for.pop(job.key, ()), -1)
        self.unclaimed.pop(job.key, None)
        group = job.group
        if group is None or not group.min_resources or (queue is not None and queue.record.backed_by):
            return
        if job.inqueue and not job.occupied and job.problem is None and not is_over(job):
            self._reserved_for[job.key] = group.min_resources
            add(self.reserved, group.min_resources)
            if not job.tasks or not self.has_min_member(job):
                self.unclaimed[job.key] = job

    def has_min_member(self, job: Job) -> bool:
        """Whether the job has as many members as must start together."""
        return not self.rules.gangs or job.valid >= job.min_member

    def pop(self, places: list[Place]) -> Job | None:
        """The first job in order that has something to place."""
        while places:
            _unused, ticket, job = heappop(places)
            if ticket == job.position:
                self._tries += 1
                return job
        return None

    def park(self, job: Job, tried: Iterable[Task]) -> None:
        """The job waits until something changes, because these tasks of it have been tried and do not all fit."""
        job.unschedulable_at = self.room_version
        self._vain += 1
        job.position = self._tickets = self._tickets + 1
        self.unschedulable[job.key] = job
        self._first_parked.add(job)
        self.dirty[job.key] = job
        queue = self.tree.by_name.get(job.queue)
        if queue is not None:
            queue.waiting.pop(job.key, None)
        self.hints.note(job, tried)

    def forget_orders(self) -> None:
        """All jobs are about to be reordered by other keys."""
        self._first_parked = LazyHeap(self.unschedulable)
        self.gated_by_request.clear()
        for queue in self.tree.by_name.values():
            queue.order.clear()
            queue.idle.clear()
            queue.waiting.clear()

    def reorder(self, jobs: Iterable[Job]) -> None:
        """Gives these jobs their places again, by new keys."""
        for job in jobs:
            job.unschedulable_at = -1
            self.push(job)

    def admit(self, job: Job) -> None:
        """What the group asks for at least is free."""
        job.inqueue = True
        self.push(job)

    def put_back(self, job: Job) -> None:
        """Let go of what is kept for a job that lacks pods; it waits again, behind those that have not lapsed."""
        job.lapses += 1
        job.inqueue = False
        self.push(job)

    def back_off(self, job: Job, now: float) -> None:
        """A binding of the job failed: the first time it is tried again at once, then after longer and longer."""
        if job.key in self.backoff:
            # What fails together counts once.
            return
        if job.failures:
            self.backoff[job.key] = job, now + min(_LONGEST, 2.0 ** (job.failures - 1))
        job.failures = min(job.failures + 1, 16)

    def flush_backoff(self, now: float) -> bool:
        """Jobs that have been held long enough get their places back; says whether there are any."""
        late = [job for job, until in self.backoff.values() if until <= now]
        for job in late:
            del self.backoff[job.key]
            self.push(job)
        return bool(late)

    @property
    def returning(self) -> bool:
        """Whether parked jobs are still to get their places back, or had to wait for the end of a walk to do so."""
        return bool(self._returning or self.hints.woken or (self.unschedulable and self._returned != self.room_version))

    def retry_parked(self, *, arriving: bool) -> Iterator[None]:
        """Give parked jobs their places back when something has changed since they were tried, the first ones first.

        Until all others have been tried once, too, it is only the first ones, and for no more than half of all tries.
        """
        if self.unschedulable and self._returned != self.room_version:
            number = _FIRST
            if self.unfinished_visits or self._returning:
                number = min(_FIRST, self._vain // 2)
            else:
                self._returned = self.room_version
                self._returning = list(self.unschedulable.values())[::-1]
            self._vain = 0 if number else self._vain
            for job in self._first_parked.take(number):
                self.push(job)
        self._first_parked.tidy()
        for number in range(min(_BACK, len(self._returning))):
            if number % _AT_ONCE == _AT_ONCE - 1:
                yield
            job = self._returning.pop()
            if self.unschedulable.get(job.key) is job:
                self.push(job)
        self._retry_woken(crowded=arriving or bool(self.unfinished_visits))

    def _retry_woken(self, *, crowded: bool) -> None:
        """Give some of the jobs that news has woken their places back, few where others wait: news is frequent."""
        woken = self.hints.woken
        number = min(_FIRST, self._tries // _WOKEN_PART) if crowded else _FIRST
        if not woken or not number:
            return
        self._tries = 0
        for key in list(islice(woken, number)):
            job = woken.pop(key)
            if self.unschedulable.get(key) is job:
                job.unschedulable_at = job.preempt_tried_at = job.reclaim_tried_at = -1
                self.push(job)

    def leave(self, key: GroupKey) -> None:
        """The job is no more."""
        for waiting in (self.unschedulable, self.gated, self.backed, self.partial, self.dirty):
            waiting.pop(key, None)
        self.hints.forget(key)
        self.pipelined.pop(key, None)
        self.unclaimed.pop(key, None)
        self.backoff.pop(key, None)
        self.recheck_after_read.pop(key, None)
        for known in self.known:
            known.pop(key, None)
        add(self.reserved, self._reserved_for.pop(key, ()), -1)


def is_over(job: Job) -> bool:
    """Whether the job has ended, and its pods have been cleared away."""
    return not job.tasks and job.group is not None and job.group.phase in ENDED
