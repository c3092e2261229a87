# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""allocate: jobs get nodes, queue by queue and job by job in the plugins' order; a job's minimum in one statement."""

from collections.abc import Iterator, Sequence
from typing import Final

from placement.policy.amounts import Totals, add
from placement.policy.chooser import alike
from placement.policy.jobs import Job, Problem, Status, Task
from placement.policy.queues import Place, QueueNode
from placement.policy.session import Refused, Session
from placement.policy.turns import take_turns

# So many tasks of one job are placed in one go where no other job waits.
_RUN: Final = 64
# Kinds of members that are passed over in one go.
_KINDS: Final = 8


def allocate(session: Session) -> Iterator[None]:
    """The action."""
    yield from take_turns(session, _visit)


def _visit(session: Session, queue: QueueNode, alone: bool) -> bool:
    """Places the queue's first job, or what of it must start together."""
    if session.rules.overused(queue):
        return False
    return place_first(session, queue, queue.order, alone)


def place_first(session: Session, queue: QueueNode, places: list[Place], alone: bool) -> bool:
    """Places the first job of a list, and says whether there was one."""
    job = session.book.pop(places)
    if job is None:
        return False
    needed = session.rules.needed(job)
    if needed == 1 and alone and not places:
        needed = _RUN
    tasks = job.next_tasks(needed)
    if len(tasks) >= session.rules.needed(job):
        _place(session, queue, job, tasks)
    else:
        _put_back(job, tasks)
    return True


def _place(session: Session, queue: QueueNode, job: Job, tasks: Sequence[Task], passed: tuple[Task, ...] = ()) -> None:
    together = session.rules.needed(job)
    wanted: Totals = {}
    for task in tasks:
        add(wanted, task.amounts)
    limit = session.book.tree.limit(queue, wanted, session.book.total)
    if limit and len(tasks) > together:
        # The run was a guess: only what must start together is asked for.
        _put_back(job, tasks[together:])
        _place(session, queue, job, tasks[:together], passed)
        return
    if limit:
        _put_back(job, tasks)
        session.refuse(job, tasks[0], Refused("QueueLimit", limit))
        return
    statement = session.statement()
    failed = session.chooser.place(tasks, statement)
    placed = len(tasks) if failed is None else tasks.index(failed)
    if failed is not None and placed < together:
        refused = Refused("NotEnoughResources", _short(job, together, placed), session.chooser.reasons(failed))
        statement.discard()
        _put_back(job, tasks[placed:])
        others = _others(job, together, (*passed, failed))
        if others:
            _place(session, queue, job, others, (*passed, failed))
            return
        never = session.chooser.never(tasks[:together])
        if never:
            text = f"{job} can never run: {format_size(job) if together > 1 else ''}{never}; {refused.nodes}"
            session.book.give_up(job, Problem("NeverFits", text))
            # Others deserve more without it, and may have been passed over for having too much.
            session.unfinished = True
            return
        session.refuse(job, failed, refused)
        return
    statement.commit()
    if placed:
        session.bind(*tasks[:placed])
    if failed is not None:
        _put_back(job, tasks[placed:])
        session.refuse(job, failed, Refused("NotEnoughResources", "", session.chooser.reasons(failed)))


def _others(job: Job, number: int, passed: tuple[Task, ...]) -> list[Task]:
    """Members unlike those that fit nowhere, in the job's order; none where they are too few."""
    if len(passed) > _KINDS:
        return []
    left = [
        task
        for task in job.tasks.values()
        if task.status is Status.PENDING and not any(alike(task.pod, other.pod) for other in passed)
    ]
    return sorted(left, key=lambda task: task.key)[:number] if len(left) >= number else []


def _put_back(job: Job, tasks: Sequence[Task]) -> None:
    for task in tasks:
        job.wait(task)


def format_size(job: Job) -> str:
    """The field that asks for so many at once."""
    return f"{job.group.member_field} is {job.min_member}; " if job.group is not None and job.min_member > 1 else ""


def _short(job: Job, together: int, placed: int) -> str:
    if together == 1:
        return ""
    return f"{job} needs {together} pods placed together, {placed} fit"
