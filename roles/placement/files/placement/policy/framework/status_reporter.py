# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conditions and statuses of pods, groups and queues, written when they say something new.

A write that failed is tried again after a while until it succeeds. A controller creates the pods of an admitted group
only when it reads that the group is admitted.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from placement.model.amounts.totals import frozen, shown
from placement.model.messages.action import Action, GroupPhase, GroupStatus, PodCondition, QueueStatus
from placement.model.objects.workload import NOT_LET_IN, UPSTREAM, UPSTREAM_ALPHA, PodGroup
from placement.model.slicing import paced
from placement.policy.cache.scheduling_queue.scheduling_queue import is_over
from placement.policy.framework.session import Session, Unplaceable
from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import NEVER_FITS, Job, Reasons, Status, Task
from placement.policy.queues.queue import QueueInfo

UNSCHEDULABLE: Final = "Unschedulable"
# Seconds between two writes of one object's counts, and until a gang that does not grow is reported as too small.
_PAUSE: Final = 1.0
# Characters of a message: the API's own limit is 32 KiB, but people read no more than a screen.
_LONGEST: Final = 1024

# Seconds until a failed write is tried again, and such writes in one second: while the server fails, each takes one of
# a few connections for a second, and other writes need the connections as well.
_AGAIN: Final = 30.0
_PER_SECOND: Final = 4

# Jobs of one queue that are counted in one step.
_COUNTED: Final = 256

# Why a pod that requests nothing is never placed.
_NOT_BACKFILLED: Final = "it requests nothing, and `backfill`, which places such pods, is not among the actions"


class StatusReporter:
    """Write conditions and statuses, and remember the last ones so that only changes are written."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._pods: dict[str, Reasons] = {}
        self._queues: dict[str, tuple[QueueStatus, float]] = {}
        # Jobs that had no reason to wait when they were last looked at, or only a setback. They get another one when
        # they are tried, or when their queue has all that it deserves by then, so that they are not tried.
        self._unexplained: dict[GroupKey, Job] = {}
        session.cache.known.append(self._unexplained)
        # When failed writes are tried again, by UID in the order of these times, and the earliest time of the next one.
        self._unsaid: dict[str, float] = {}
        self._next = 0.0

    def run(self) -> Iterator[Action | None]:
        """Yield the writes for dirty jobs and for all queues, in steps; None is a step without a write."""
        cache = self._session.cache
        self.forget_settled()
        stirred, cache.queue.dirty = {**self._explained_by_queue(), **cache.queue.dirty}, {}
        for job in stirred.values():
            # Events come between two steps, and jobs may go with them.
            if cache.jobs.by_key.get(job.key) is job:
                yield from self._job(job)
            yield None
        queues = list(cache.tree.by_name.values())
        self._forget_queues({queue.record.uid for queue in queues})
        for queue in queues:
            if queue.record.uid:
                yield from self._queue(queue)

    def _explained_by_queue(self) -> dict[GroupKey, Job]:
        """Return the unexplained jobs that would be tried by now if their queue had less than it deserves."""
        if not self._unexplained:
            return {}
        overused, queues = self._session.plugins.overused, self._session.cache.tree.by_name.values()
        full = {queue.name: queue for queue in queues if queue.waiting and overused(queue)}
        if not full:
            return {}
        jobs = [job for job in self._unexplained.values() if job.queue in full]
        return {job.key: job for job in jobs if _waits_for_share(job, full[job.queue])}

    def failed(self, uid: str) -> None:
        """Note that the last write for this pod, group or queue failed."""
        self._unsaid.setdefault(uid, self._session.now + _AGAIN)

    def say_again(self) -> bool:
        """Let failed writes that have waited long enough be tried again; return whether there are any."""
        now, again = self._session.now, 0
        if now < self._next:
            return False
        while self._unsaid and again < _PER_SECOND:
            uid = next(iter(self._unsaid))
            if self._unsaid[uid] > now:
                break
            del self._unsaid[uid]
            again += self._is_news_again(uid)
        if again:
            self._next = now + 1.0
        return bool(again)

    def _is_news_again(self, uid: str) -> bool:
        """Forget what was last written of the object; return whether the object still exists."""
        cache = self._session.cache
        if self._queues.pop(uid, None) is not None:
            return True
        task, key = cache.jobs.tasks.get(uid), cache.admission.groups.key(uid)
        job = cache.jobs.by_key.get(key) if key is not None else None
        if task is not None and self._pods.pop(uid, None) is not None:
            job = task.job
            job.unreported[uid] = task
        elif job is not None and job.last_status is not None and job.last_status[0].uid == uid:
            # Without a phase it equals no later status; that the group was scheduled may have been written before.
            job.last_status = (replace(job.last_status[0], phase=None), job.last_status[1])
        else:
            return False
        cache.queue.dirty[job.key] = job
        return True

    def forget_settled(self) -> None:
        """Forget what was last written of pods that are gone or placed."""
        for uid in self._session.cache.settled:
            self._pods.pop(uid, None)
        self._session.cache.settled.clear()

    def _forget_queues(self, there: set[str]) -> None:
        if not self._queues.keys() <= there:
            self._queues = {uid: told for uid, told in self._queues.items() if uid in there}

    def why(self, job: Job) -> Unplaceable | None:
        """Return why the job's pending tasks wait, as of the last cycle; None if that is not known."""
        session = self._session
        if job.problem is not None:
            return Unplaceable(job.problem.reason, job.problem.message)
        if job.key in session.cache.queue.gated:
            return Unplaceable(
                "NotEnqueued", f"minResources of {job} are not free in the cluster and in queue {job.queue}"
            )
        if not session.cache.queue.has_min_member(job):
            withdrawn = session.evicted_partials.get(job.key)
            if withdrawn is not None:
                return withdrawn
            few = job.minimums.too_few if job.minimums is not None and job.valid >= job.min_member else None
            if few is not None:
                name, least, valid = few
                text = f"spec.minTaskMember: {job} needs {least} pods of task {name!r}, {valid} can be scheduled"
                return Unplaceable("NotEnoughTasks", text)
            return Unplaceable("NotEnoughTasks", f"{job} needs {job.min_member} pods, {job.valid} can be scheduled")
        blocked = session.blocked.get(job.key)
        if blocked is not None:
            return blocked
        refused = session.refusals.get(job.key)
        queue = session.cache.tree.by_name.get(job.queue)
        if refused is not None or queue is None:
            return refused
        best_effort = job.pending and not job.requesting and not queue.record.backed
        if best_effort and "backfill" not in session.plugins.actions:
            return Unplaceable("NotBackfilled", _NOT_BACKFILLED)
        if _waits_for_share(job, queue) and session.plugins.overused(queue):
            deserved = shown((name, part) for name, part in queue.deserved.items() if part)
            task = job.peek()
            nodes = session.placer(job).reasons(task) if task is not None else None
            return Unplaceable("QueueOverused", f"queue {queue.name} has all that it deserves ({deserved})", nodes)
        return session.setbacks.get(job.key)

    def _job(self, job: Job) -> Iterator[Action | None]:
        session, refused = self._session, self.why(job)
        self._unexplained.pop(job.key, None)
        if refused is session.setbacks.get(job.key):
            if job.pending:
                self._unexplained[job.key] = job
        elif refused is not None:
            # What is known now is newer than what has thrown the job back.
            session.setbacks.pop(job.key, None)
            session.evicted_partials.pop(job.key, None)
        grows = refused is not None and refused.reason == "NotEnoughTasks" and self._grows(job)
        if grows:
            self._session.cache.queue.dirty[job.key] = job
        elif refused is not None and job.pending:
            yield from self._waiting(job, refused)
        if job.counts[Status.REFUSED]:
            for task in list(job.tasks.values()):
                if task.status is Status.REFUSED:
                    yield from self._pod(
                        task, Unplaceable("", f"not supported: {', '.join(task.pod.spec.unsupported)}")
                    )
        # Only its own scheduler writes the status of a group.
        if job.group is None or not self._session.cache.queue.owns_group(job):
            return
        if not grows:
            yield from self._group(job, job.group, refused)
        elif not job.tasks and job.inqueue and job.group.phase in NOT_LET_IN:
            # The controller may wait for the admission before it creates the pods.
            yield from self._group(job, job.group, None)

    def _waiting(self, job: Job, refused: Unplaceable) -> Iterator[Action | None]:
        """Yield the conditions of the job's pending pods; of the new ones only if the reason is the same as before."""
        reasons = _reasons_of(refused)
        if job.last_reasons != reasons:
            job.last_reasons = None
            job.unreported.update(job.tasks)
            if len(job.unreported) > _COUNTED:
                yield None
        for (uid, task), pause in paced(list(job.unreported.items()), _COUNTED):
            if pause:
                yield None
            # Events come between two steps, and pods may go with them.
            if job.unreported.pop(uid, None) is task and task.status is Status.PENDING and job.tasks.get(uid) is task:
                yield from self._pod(task, refused)
        job.last_reasons = reasons

    def _grows(self, job: Job) -> bool:
        """Return whether pods of the job may still be coming, so that its reason would soon be out of date."""
        number, since = job.last_valid_count
        if number != job.valid:
            job.last_valid_count = (job.valid, self._session.now)
            return True
        return self._session.now - since < _PAUSE

    def _pod(self, task: Task, refused: Unplaceable) -> Iterator[Action]:
        reasons = _reasons_of(refused)
        if self._pods.get(task.uid) == reasons:
            return
        self._pods[task.uid] = reasons
        pod = task.pod
        yield PodCondition(
            uid=pod.uid, namespace=pod.namespace, name=pod.name, reason=UNSCHEDULABLE, message=_message(refused)
        )

    def _group(self, job: Job, group: PodGroup, refused: Unplaceable | None) -> Iterator[Action]:
        if is_over(job):
            # The phase of a group that has ended does not change.
            return
        counts = job.counts
        before, when = job.last_status or (None, 0.0)
        if before is not None and before.uid != group.uid:
            # Another group of the same name has replaced it.
            before = None
        if job.bound < job.min_member <= job.ready and not job.was_ready:
            # Its bindings are under way, and each of them makes the job dirty again.
            return
        enough = job.ready >= job.min_member and job.problem is None
        status = GroupStatus(
            uid=group.uid,
            namespace=group.namespace,
            name=group.name,
            dialect=group.dialect,
            phase=_phase(job, enough=enough),
            scheduled=enough or _stays_scheduled(group) or (before is not None and before.scheduled),
            reason="" if enough or refused is None else refused.reason,
            message="" if enough or refused is None else _message(refused),
            pending=counts[Status.PENDING] + counts[Status.PIPELINED] + counts[Status.GATED] + counts[Status.REFUSED],
            running=counts[Status.RUNNING],
            succeeded=counts[Status.SUCCEEDED],
            failed=counts[Status.FAILED],
        )
        if before == status:
            return
        if before is not None and _same_but_numbers(before, status) and self._session.now - when < _PAUSE:
            self._session.cache.queue.dirty[job.key] = job
            return
        job.last_status = (status, self._session.now)
        yield status

    def _queue(self, queue: QueueInfo) -> Iterator[Action | None]:
        # Another scheduler serves what a queue of another API demands, unless jobs of ours are in it.
        problem = queue.problem if queue.jobs or not queue.record.unsupported else ""
        before, when = self._queues.get(queue.record.uid, (None, 0.0))
        if before is not None and before.message == problem and self._session.now - when < _PAUSE:
            return
        phases = dict.fromkeys(GroupPhase, 0)
        yield None
        for job, pause in paced(list(queue.jobs.values()), _COUNTED):
            if pause:
                yield None
            if job.group is not None:
                phases[_phase(job, enough=job.ready >= job.min_member)] += 1
        status = QueueStatus(
            uid=queue.record.uid,
            name=queue.name,
            dialect=queue.record.dialect,
            pending=phases[GroupPhase.PENDING],
            inqueue=phases[GroupPhase.INQUEUE],
            running=phases[GroupPhase.RUNNING],
            unknown=phases[GroupPhase.UNKNOWN],
            allocated=frozen(queue.allocated),
            deserved=frozen(queue.deserved),
            reason="InvalidQueue" if problem else "",
            message=problem,
        )
        self._queues[queue.record.uid] = (status, self._session.now)
        if before != status:
            yield status


def _waits_for_share(job: Job, queue: QueueInfo) -> bool:
    """Return whether the job waits for a try that its queue only has while it has less than it deserves.

    Jobs that back off, or that were tried in vain, wait for something else. Pods that request nothing are always tried.
    """
    return job.requesting > 0 and job.key in queue.waiting


def _reasons_of(refused: Unplaceable) -> Reasons:
    nodes = refused.nodes
    figures = nodes is not None or refused.reason == NEVER_FITS
    return (refused.reason, nodes.kinds if nodes else frozenset[str](), "" if figures else refused.message)


def _stays_scheduled(group: PodGroup) -> bool:
    """Return whether the API has the group as scheduled, in a dialect that never takes this back."""
    return group.dialect in (UPSTREAM, UPSTREAM_ALPHA) and group.phase == GroupPhase.RUNNING


def _phase(job: Job, *, enough: bool) -> GroupPhase:
    """Return the group's phase by kube-batch's rule: running with its minimum, unknown if some run without it."""
    succeeded, ended = job.counts[Status.SUCCEEDED], job.counts[Status.SUCCEEDED] + job.counts[Status.FAILED]
    if job.min_member <= ended == len(job.tasks):
        return GroupPhase.FINISHED if succeeded >= job.min_member else GroupPhase.FAILED
    if enough:
        return GroupPhase.RUNNING
    if job.counts[Status.RUNNING]:
        return GroupPhase.UNKNOWN
    return GroupPhase.INQUEUE if job.inqueue else GroupPhase.PENDING


def _same_but_numbers(before: GroupStatus, after: GroupStatus) -> bool:
    """Return whether only counts and the message differ."""
    return before == replace(
        after,
        message=before.message,
        pending=before.pending,
        running=before.running,
        succeeded=before.succeeded,
        failed=before.failed,
    )


def _message(refused: Unplaceable) -> str:
    text = ": ".join(filter(None, (refused.message, str(refused.nodes) if refused.nodes else "")))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
