# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which jobs wait, ordered by the keys of `PluginSet.job_order`, and which are not tried before something changes."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain, islice
from math import inf
from typing import Final

from placement.model.amounts.quantity import Amounts
from placement.model.amounts.totals import Totals, add
from placement.model.objects.workload import ENDED, GRAPH, NOT_LET_IN, PBS, VOLCANO, PodGroup
from placement.model.slicing import Steps, paced, pauses
from placement.policy.cache.context import Context, Versions
from placement.policy.cache.scheduling_queue.lazy_heap import LazyHeap
from placement.policy.cache.scheduling_queue.queueing_hints import Hints
from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import Job, Task
from placement.policy.queues.queue import QueueEntry, QueueInfo
from placement.state.nodes.node_columns import NodeColumns

# Seconds of the longest backoff.
_LONGEST: Final = 30.0
# Unschedulable jobs that are pushed again in one slice while other jobs wait for their turn; of woken ones at any time.
_FIRST: Final = 128
_WOKEN: Final = 32
# Unschedulable jobs that are pushed again in one slice, and in one step of it.
_BACK: Final = 512
_AT_ONCE: Final = 128
# Jobs that are reordered in one slice, because the total has changed.
_REORDERED: Final = 128
# While other jobs wait for their turn, one of so many tries is for a job that an event has woken.
_WOKEN_PART: Final = 32
# Stale entries that the heap of a queue with few jobs may have.
_VOID: Final = 1024
# Seconds for which room is kept for a group that lacks pods, which Volcano's controller makes in a few, or that lacks
# something that no other pod has.
CLAIM_SECONDS: Final = 300.0


class SchedulingQueue:
    """Keep the waiting jobs: in the heaps of their queues, unschedulable, gated or backing off."""

    def __init__(self, context: Context, versions: Versions, hints: Hints, *, stands_for_volcano: bool) -> None:
        self._context = context
        self._versions = versions
        # Whether pods ask for us by the name of Volcano's own scheduler.
        self._stands_for_volcano = stands_for_volcano
        # Jobs that were tried and did not fit, by position: each new one has a greater position.
        self.unschedulable: dict[GroupKey, Job] = {}
        # Which of them is first in order: of those that may fit now, because something has changed since their try, and
        # of the others. All may fit now when the version of room is not the one that was last looked at.
        self._hopeful = LazyHeap(self.unschedulable)
        self._hopeless = LazyHeap(self.unschedulable)
        self._room_seen = 0
        # Jobs that enqueue has not admitted; and those of one queue with equal requests, in order.
        self.gated: dict[GroupKey, Job] = {}
        self.gated_by_request: dict[Hashable, LazyHeap] = {}
        # What is kept for jobs that are admitted and have not begun, for all and for each.
        self.reserved: Totals = {}
        self._reserved_for: dict[GroupKey, Amounts] = {}
        # Those of them that lack pods or what no other pod has, and until when it is kept, in order of that.
        self._unclaimed: OrderedDict[GroupKey, tuple[Job, float]] = OrderedDict()
        # Monotonic seconds.
        self.now = 0.0
        # Jobs with pipelined tasks.
        self.pipelined: dict[GroupKey, Job] = {}
        # Jobs with failed bindings, and until when they are not tried.
        self.backoff: dict[GroupKey, tuple[Job, float]] = {}
        # Changed jobs of queues that a batch system backs.
        self.to_reconcile: dict[GroupKey, Job] = {}
        # Jobs that have to be looked at again when the batch system has been read.
        self.recheck_after_read: dict[GroupKey, None] = {}
        # Jobs that are bound in part.
        self.partial: dict[GroupKey, Job] = {}
        # Jobs that may need their conditions written again.
        self.dirty: dict[GroupKey, Job] = {}
        # What unschedulable jobs wait for.
        self.hints = hints
        # Queues with limits that use less since limited jobs were last looked at.
        self._shrunk: dict[str, None] = {}
        # Visits to the queues that have not come to their end: they have not tried some jobs.
        self.unfinished_visits: set[Hashable] = set()
        # Unschedulable jobs that are all pushed again, and the version of room that this is for.
        self._returning = LazyHeap(self.unschedulable)
        self._returned = 0
        # Waiting jobs that may have another order since the total changed.
        self._unordered: dict[GroupKey, Job] = {}
        # All tries and the failed ones since some unschedulable jobs were put before all others, and all tries since
        # some jobs were woken.
        self._turns = 0
        self._vain = 0
        self._tries = 0
        self._position = 0

    @property
    def last_position(self) -> int:
        """Return the last position given; a job that is pushed from now on gets a greater one."""
        return self._position

    def push(self, job: Job) -> None:
        """Give the job its place in its queue, if it has a task to place."""
        self.dirty[job.key] = job
        if job.partial:
            self.partial[job.key] = job
        job.position = self._position = self._position + 1
        self.unschedulable.pop(job.key, None)
        self.gated.pop(job.key, None)
        # News that comes while the job is in no queue is not noted for it.
        tried_at, job.unschedulable_at = job.unschedulable_at, -1
        context = self._context
        queue = context.tree.by_name.get(job.queue)
        if queue is not None:
            queue.waiting.pop(job.key, None)
            self._enqueue(queue, job, tried_at)
            # No visit drops the stale entries of a queue that has all it deserves, nor while another decides.
            for places in (queue.order, queue.best_effort):
                if len(places) > 2 * len(queue.waiting) + _VOID:
                    places[:] = [place for place in places if place[1] == place[2].position]
                    heapify(places)
        if job.has_hints and job.unschedulable_at < 0:
            if job.untried is None:
                self.hints.forget(job.key)
                job.has_hints = False
            else:
                # Not all of its members have been tried: what may help the others is still noted.
                self.hints.woken.pop(job.key, None)
        if context.plugins.enqueues:
            self._reserve(job)

    def owns_group(self, job: Job) -> bool:
        """Return whether this scheduler admits the job's PodGroup and writes its status.

        The group's pods say so by the scheduler they name. A group of Volcano without pods is for the scheduler of that
        name, because Volcano creates the pods of a Job only when its group is admitted.
        """
        group = job.group
        if job.tasks or job.foreign or group is None or group.dialect != VOLCANO:
            return bool(job.tasks) or not job.foreign
        return self._stands_for_volcano or (job.last_status is not None and job.last_status[0].uid == group.uid)

    def _enqueue(self, queue: QueueInfo, job: Job, tried_at: int) -> None:
        group = job.group
        if group is not None and group.dialect == VOLCANO and self.owns_group(job):
            # The controller may wait for the admission before it creates the pods.
            self._admit_or_gate(queue, job, group)
        if queue.record.placed_by == PBS:
            self.to_reconcile[job.key] = job
            return
        if job.problem is not None or not job.pending or not self.has_min_member(job) or job.key in self.backoff:
            return
        context = self._context
        if context.plugins.enqueues and group is not None and group.min_resources:
            self._admit_or_gate(queue, job, group)
            if job.key in self.gated:
                return
        if tried_at == self._versions.room:
            job.unschedulable_at = tried_at
            self.unschedulable[job.key] = job
            self._hopeless.add(job)
            return
        job.order = context.plugins.job_order(job, context.total)
        queue.waiting[job.key] = job
        heappush(queue.order if job.requesting else queue.best_effort, (job.order, job.position, job))

    def _admit_or_gate(self, queue: QueueInfo, job: Job, group: PodGroup) -> None:
        """Admit the job, or gate it if enqueue has to find the room that its group asks for."""
        if job.inqueue or job.key in self.gated or is_over(job):
            return
        if not job.occupied and (group.phase in NOT_LET_IN or job.lapses):
            if job.problem is not None:
                return
            if self._context.plugins.enqueues and group.min_resources and queue.record.placed_by != PBS:
                self._gate(job, group)
                return
        job.inqueue = True

    def _gate(self, job: Job, group: PodGroup) -> None:
        context = self._context
        # A group that let its room lapse comes after those that did not.
        job.order = (job.lapses, *context.plugins.job_order(job, context.total))
        self.gated[job.key] = job
        kind = (job.queue, group.min_resources)
        if kind not in self.gated_by_request:
            self.gated_by_request[kind] = LazyHeap(self.gated)
        self.gated_by_request[kind].add(job)

    def _reserve(self, job: Job) -> None:
        """Keep what the job's group asks for at least, from its admission until it begins or is stuck for too long."""
        key, lacks_pods = job.key, self._lacks_pods(job)
        lapsed = not lacks_pods and job.stuck_since + CLAIM_SECONDS <= self.now
        least: Amounts = () if lapsed else self._least(job)
        add(self.reserved, self._reserved_for.pop(key, ()), -1)
        if least:
            self._reserved_for[key] = least
            add(self.reserved, least)
        if least and (lacks_pods or job.stuck_since < inf):
            self._unclaimed.setdefault(key, (job, self.now + CLAIM_SECONDS))
        else:
            self._unclaimed.pop(key, None)

    def _least(self, job: Job) -> Amounts:
        """Return what is to be free for the job to begin: nothing if it is not in, or has begun."""
        group, queue = job.group, self._context.tree.by_name.get(job.queue)
        if group is None or (queue is not None and queue.record.placed_by == PBS) or is_over(job):
            return ()
        return group.min_resources if job.inqueue and not job.occupied and job.problem is None else ()

    def _lacks_pods(self, job: Job) -> bool:
        return not job.tasks or not self.has_min_member(job)

    def judge(self, job: Job, *, stuck: bool) -> None:
        """Note whether the job, which nodes or a limit have just refused, lacks something that no other pod has."""
        if stuck is not (job.stuck_since < inf):
            job.stuck_since = self.now if stuck else inf
            if self._context.plugins.enqueues:
                self._reserve(job)

    @property
    def next_lapse(self) -> float:
        """Return when what is kept for a job lapses next, in monotonic seconds."""
        return next(iter(self._unclaimed.values()))[1] if self._unclaimed else inf

    def lapse(self) -> Steps[None]:
        """End what has been kept in vain: groups that lack pods wait again, and nothing is kept for the others."""
        while self.next_lapse <= self.now:
            _key, (job, _until) = self._unclaimed.popitem(last=False)
            if self._lacks_pods(job):
                self._put_back(job)
            else:
                self._reserve(job)
            yield

    def has_min_member(self, job: Job) -> bool:
        """Return whether the job has as many members as must start together."""
        if not self._context.plugins.gangs:
            return True
        return job.valid >= job.min_member and (job.minimums is None or not job.missing or not job.minimums.too_few)

    def pop(self, places: list[QueueEntry]) -> Job | None:
        """Take the first job in order out of these places; None if no job is left in them."""
        while places:
            _unused, position, job = heappop(places)
            if position == job.position:
                self._tries += 1
                self._turns += 1
                return job
        return None

    def park(self, job: Job, tried: Iterable[Task], *, limited: bool = False) -> None:
        """Make the job wait until something changes: these tasks of it have been tried and do not all fit.

        Where it is limited, a limit of its queue or of one above that keeps away what has not been tried.
        """
        job.unschedulable_at = self._versions.room
        self._vain += 1
        job.position = self._position = self._position + 1
        self.unschedulable[job.key] = job
        self._hopeless.add(job)
        self.dirty[job.key] = job
        queue = self._context.tree.by_name.get(job.queue)
        if queue is not None:
            queue.waiting.pop(job.key, None)
        # Which rows help a job that the tree places is not known, nor what helps against guarantees to others.
        anywhere = job.topological or queue is None or queue.record.placed_by == GRAPH
        anywhere = anywhere or (limited and self._context.tree.guarantees)
        limits = tuple(at.name for at in queue.path if at.capability) if limited and queue is not None else ()
        self.hints.note(job, tried, anywhere=anywhere, limits=limits)

    def retry_helped(self, columns: NodeColumns, rows: Sequence[int]) -> Steps[None]:
        """Have the unschedulable jobs tried again of which a tried task has room on one of these rows."""
        yield from self._help(self.hints.helped_by(columns, rows))

    def queue_shrunk(self, name: str) -> None:
        """Note that a queue, and those above it, use less than before."""
        queue = self._context.tree.by_name.get(name)
        if queue is not None:
            self._shrunk.update((at.name, None) for at in queue.path if at.capability)

    def retry_limited(self) -> Steps[None]:
        """Have the unschedulable jobs tried again that limits of queues kept away which use less now."""
        shrunk, self._shrunk = self._shrunk, {}
        yield from self._help(self.hints.limited_by(shrunk))

    def _help(self, found: Iterable[list[Job]]) -> Steps[None]:
        pacing = pauses(_AT_ONCE)
        for waiting in found:
            for job in waiting:
                job.unschedulable_at = -1
                job.stirred = True
                self._hopeful.add(job)
                if next(pacing):
                    yield
            if next(pacing):
                yield

    def forget_orders(self) -> None:
        """Empty all heaps: other plugins order the jobs now, and their keys cannot be compared with the old ones."""
        self.unfinished_visits.clear()
        self._hopeful, self._hopeless, self._returning = (LazyHeap(self.unschedulable) for _unused in range(3))
        self.hints.forget_orders()
        self.gated_by_request.clear()
        # Only enqueue looks whether kept room has lapsed.
        self._unclaimed.clear()
        for queue in self._context.tree.by_name.values():
            queue.order.clear()
            queue.best_effort.clear()
            queue.waiting.clear()

    def reorder(self, job: Job) -> None:
        """Give the job its place by the plugins of now, although it was tried before."""
        job.unschedulable_at = -1
        self.push(job)

    def total_changed(self) -> None:
        """Note the waiting jobs that have begun: they are ordered by their shares of the total.

        An unschedulable job gets a new order when it is pushed again.
        """
        for queue in self._context.tree.by_name.values():
            fewer, more = sorted((queue.begun, queue.waiting), key=len)
            self._unordered.update({key: job for key, job in fewer.items() if key in more})

    def reorder_some(self) -> None:
        """Give their places again to some of the jobs that may have another order."""
        by_name = self._context.tree.by_name
        for key in list(islice(self._unordered, _REORDERED)):
            job = self._unordered.pop(key)
            queue = by_name.get(job.queue)
            if queue is not None and queue.waiting.get(key) is job:
                self.push(job)

    def admit(self, job: Job) -> None:
        """Admit the job: what its group asks for at least is free."""
        job.inqueue = True
        self.push(job)

    def _put_back(self, job: Job) -> None:
        """Release what is kept for a job that lacks pods; it waits again, behind jobs that have not lapsed."""
        job.lapses += 1
        job.inqueue = False
        self.push(job)

    def back_off(self, job: Job, now: float) -> None:
        """Note that a binding of the job failed: retry at once the first time, then after longer and longer."""
        if job.key in self.backoff:
            # What fails together counts once.
            return
        if job.failures:
            self.backoff[job.key] = job, now + min(_LONGEST, 2.0 ** (job.failures - 1))
        job.failures = min(job.failures + 1, 16)

    def flush_backoff(self, now: float) -> bool:
        """Push the jobs that have backed off long enough; return whether there are any."""
        late = [job for job, until in self.backoff.values() if until <= now]
        for job in late:
            del self.backoff[job.key]
            self.push(job)
        return bool(late)

    @property
    def returning(self) -> bool:
        """Return whether unschedulable jobs are still to be pushed again, or wait for the end of a visit for it."""
        return bool(
            self._returning
            or self.hints.woken
            or self._hopeful.peek() is not None
            or (self.unschedulable and self._returned != self._versions.room)
        )

    def retry_parked(self, *, arriving: bool) -> Steps[None]:
        """Push unschedulable jobs again if something has changed since they were tried, the first in order first.

        While other jobs wait for their turn, each try that succeeds lets one be pushed, and so do two that fail. So
        room goes to the first in order, and those that wait get a third of all tries although many are tried in vain.
        """
        room = self._versions.room
        if self._room_seen != room:
            self._room_seen = room
            yield from self._hope()
        if self.unschedulable and self._returned != room and not (self.unfinished_visits or self._returning):
            self._returned = room
            # Those that are tried meanwhile do not go before those that have not been.
            self._returning, self._hopeful = self._hopeful, LazyHeap(self.unschedulable)
        crowded = self.unfinished_visits or self._returning
        number = min(_FIRST, max(0, self._turns - self._vain // 2)) if crowded else _BACK
        if number and self._hopeful.peek() is not None:
            self._turns = self._vain = 0
        jobs = chain(self._hopeful.take(number), self._returning.take(_BACK))
        for job, pause in paced(jobs, _AT_ONCE):
            self.push(job)
            if pause:
                yield
        self._hopeful.tidy()
        self._hopeless.tidy()
        self.hints.first_woken.tidy()
        self._retry_woken(crowded=arriving or bool(self.unfinished_visits))

    def _hope(self) -> Steps[None]:
        """Note that all unschedulable jobs may fit now."""
        fewer, self._hopeful = sorted((self._hopeless, self._hopeful), key=len)
        self._hopeless = LazyHeap(self.unschedulable)
        for place, pause in paced(iter(fewer.pop, None), _AT_ONCE):
            self._hopeful.put(place)
            if pause:
                yield

    def _retry_woken(self, *, crowded: bool) -> None:
        """Push some of the jobs that events have woken, few if other jobs wait: events are frequent."""
        woken = self.hints.woken
        number = min(_WOKEN, self._tries // _WOKEN_PART) if crowded else _WOKEN
        if not woken or not number:
            return
        self._tries = 0
        for job in self.hints.first_woken.take(number):
            del woken[job.key]
            if self.unschedulable.get(job.key) is job:
                job.try_again()
                self.push(job)

    def forget(self, key: GroupKey) -> None:
        """Forget a job that is gone."""
        for waiting in (self.unschedulable, self.gated, self.to_reconcile, self.partial, self.dirty):
            waiting.pop(key, None)
        self.hints.forget(key)
        self.pipelined.pop(key, None)
        self._unclaimed.pop(key, None)
        self.backoff.pop(key, None)
        self.recheck_after_read.pop(key, None)
        add(self.reserved, self._reserved_for.pop(key, ()), -1)


def is_over(job: Job) -> bool:
    """Return whether the job has ended, and its pods have been cleared away."""
    return not job.tasks and job.group is not None and job.group.phase in ENDED
