# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room for preemptors: the jobs of each queue in their order, one by one, until too many have found nothing."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final

from placement.model.slicing import Steps, pauses
from placement.policy.cache.preemptor_queue import AT_ONCE, PreemptorQueue
from placement.policy.framework.session import Session
from placement.policy.jobs.job import Job
from placement.policy.preemption.evaluator import Evaluator
from placement.policy.queues.queue import QueueInfo

# So many jobs of a queue in a row that find nothing are enough for one cycle: half of them are the first in order, and
# the others have their turn, so that each comes although something ends all the time.
_VAIN: Final = 16


def needs_room(session: Session, job: Job, tried: int) -> bool:
    """Whether the job wants room, and something has changed since none was found for it."""
    fresh = bool(job.pending) and session.cache.admission.admits(job) and tried != session.cache.versions.retry
    return fresh and session.cache.queue.has_min_member(job)


def serve_preemptors(
    session: Session,
    preemptors: PreemptorQueue,
    queues: Iterable[QueueInfo],
    evaluators: Sequence[Evaluator],
    *,
    claims: Callable[[Job], bool],
    served: Callable[[Job], None],
    may: Callable[[QueueInfo], bool] = lambda _queue: True,
) -> Steps[None]:
    """Make room for the jobs of each queue that may have it, by the first way that finds victims."""
    for queue in queues:
        vain, pacing = 0, pauses(AT_ONCE)
        while may(queue) and (place := preemptors.pop(queue, in_turn=vain >= _VAIN // 2)) is not None:
            job = place[2]
            if not claims(job):
                preemptors.set_aside(queue, place)
                if next(pacing):
                    yield
                continue
            if vain == _VAIN:
                # The rest have their turn in the next cycle.
                session.unfinished = True
                preemptors.put_back(queue, place)
                break
            vain += 1
            begun, before, kind = session.slice, _moment(session), _kind(session, job)
            known = kind is not None and preemptors.searches.known(before, kind)
            try:
                while not known and claims(job) and may(queue) and (yield from _made(evaluators, job)):
                    vain = 0
                    yield
            except GeneratorExit:
                preemptors.put_back(queue, place)
                raise
            if vain and not known and session.slice == begun:
                preemptors.searches.note(before, _moment(session), kind)
            # Until something changes there is nothing more for this job.
            served(job)
            preemptors.set_aside(queue, place)
            yield


def _moment(session: Session) -> Hashable:
    """Equal as long as nothing happens; what is tried in vain changes the nodes there and back."""
    cache = session.cache
    return (cache.versions.retry, cache.queue.last_position, cache.cluster.columns.changes)


def _kind(session: Session, job: Job) -> Hashable | None:
    """Equal for jobs that find room where the others do; None where that is not only for what they ask for to say."""
    if job.occupied:
        return None
    tasks = job.next_tasks(session.plugins.needed(job))
    for task in tasks:
        job.wait(task)
    kind = session.placer(job).kind(tasks)
    if kind is None:
        return None
    return (job.queue, job.priority, session.cache.admission.groups.preempts(job.group), kind)


def _made(evaluators: Sequence[Evaluator], job: Job) -> Steps[bool]:
    for evaluator in evaluators:
        if (yield from evaluator.room_for(job)):
            return True
    return False
