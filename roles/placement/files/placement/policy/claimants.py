# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claimants: jobs that allocate could not serve, and that others may have to leave for, one after the other."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Final

from placement.policy.jobs import Job
from placement.policy.making import Making
from placement.policy.session import Session

# So many jobs of a queue in a row that find nothing are enough for one cycle.
_VAIN: Final = 16


def waits(session: Session, job: Job, tried: int) -> bool:
    """Whether the job wants room, and something has changed since none was found for it."""
    fresh = bool(job.pending) and job.problem is None and tried != session.book.prospects
    return fresh and session.book.enough(job)


def serve(
    session: Session,
    lines: Iterable[Sequence[Job]],
    makings: Sequence[Making],
    *,
    claims: Callable[[Job], bool],
    served: Callable[[Job], None],
) -> Iterator[None]:
    """Makes room for the jobs of each queue in their order, by the first of the ways that finds victims."""
    for line in lines:
        # Putting many in order takes a good part of a slice, and mostly all have been served.
        yield
        if not any(map(claims, line)):
            continue
        vain = 0
        for job in filter(claims, _in_order(session, line)):
            if vain == _VAIN:
                # The rest have their turn in the next cycle.
                session.unfinished = True
                break
            vain += 1
            while claims(job) and (yield from _made(makings, job)):
                vain = 0
                yield
            # Until something changes there is nothing more for this job.
            served(job)
            yield


def parked_by_queue(session: Session) -> dict[str, list[Job]]:
    """Jobs that allocate has tried in vain. Those that events wake up while the action runs still have their turn."""
    found: dict[str, list[Job]] = {}
    for job in session.book.parked.values():
        found.setdefault(job.queue, []).append(job)
    return found


def _in_order(session: Session, jobs: Iterable[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: session.rules.job_order(job, session.book.total))


def _made(makings: Sequence[Making], job: Job) -> Generator[None, None, bool]:
    for making in makings:
        for made in making.room_for(job):
            if made:
                return True
            yield
    return False
