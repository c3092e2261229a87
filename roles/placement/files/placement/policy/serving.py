# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Serving claimants: the jobs of each queue in their order, one after the other, until too many have found nothing."""

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from typing import Final

from placement.policy.claimants import AT_ONCE, Claimants
from placement.policy.jobs import Job
from placement.policy.making import Making
from placement.policy.queue_node import QueueNode
from placement.policy.session import Session

# So many jobs of a queue in a row that find nothing are enough for one cycle: half of them are the first in order, and
# the others have their turn, so that each comes although something ends all the time.
_VAIN: Final = 16


def waits(session: Session, job: Job, tried: int) -> bool:
    """Whether the job wants room, and something has changed since none was found for it."""
    fresh = bool(job.pending) and session.book.admits(job) and tried != session.book.prospects
    return fresh and session.book.enough(job)


def serve(
    session: Session,
    claimants: Claimants,
    queues: Iterable[QueueNode],
    makings: Sequence[Making],
    *,
    claims: Callable[[Job], bool],
    served: Callable[[Job], None],
    may: Callable[[QueueNode], bool] = lambda _queue: True,
) -> Iterator[None]:
    """Makes room for the jobs of each queue that may have it, by the first of the ways that finds victims."""
    for queue in queues:
        vain = passed = 0
        while may(queue) and (place := claimants.pop(queue, in_turn=vain >= _VAIN // 2)) is not None:
            job = place[2]
            if not claims(job):
                claimants.set_aside(queue, place)
                passed += 1
                if passed % AT_ONCE == 0:
                    yield
                continue
            if vain == _VAIN:
                # The rest have their turn in the next cycle.
                session.unfinished = True
                claimants.put_back(queue, place)
                break
            vain += 1
            begun, before, kind = session.slice, _moment(session), _kind(session, job)
            known = kind is not None and claimants.searches.known(before, kind)
            try:
                while not known and claims(job) and may(queue) and (yield from _made(makings, job)):
                    vain = 0
                    yield
            except GeneratorExit:
                claimants.put_back(queue, place)
                raise
            if vain and not known and session.slice == begun:
                claimants.searches.note(before, _moment(session), kind)
            # Until something changes there is nothing more for this job.
            served(job)
            claimants.set_aside(queue, place)
            yield


def _moment(session: Session) -> Hashable:
    """Equal as long as nothing happens; what is tried in vain changes the nodes there and back."""
    book = session.book
    return (book.prospects, book.tickets, book.cluster.columns.changes)


def _kind(session: Session, job: Job) -> Hashable | None:
    """Equal for jobs that find room where the others do; None where that is not only for what they ask for to say."""
    if job.occupied:
        return None
    tasks = job.next_tasks(session.rules.needed(job))
    for task in tasks:
        job.wait(task)
    kind = session.feasibility.kind(tasks)
    return (job.queue, job.priority, session.book.groups.preempts(job.group), kind) if kind is not None else None


def _made(makings: Sequence[Making], job: Job) -> Generator[None, None, bool]:
    for making in makings:
        if (yield from making.room_for(job)):
            return True
    return False
