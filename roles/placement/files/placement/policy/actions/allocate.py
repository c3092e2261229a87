# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""allocate: jobs get nodes, queue by queue and job by job in the plugins' order; a job's minimum in one statement."""

from collections.abc import Sequence
from typing import Final

from placement.model.slicing import Steps, finish
from placement.policy.actions.reserve import reserve_at_once
from placement.policy.cache.equivalence_cache import Failure, Passed, Vain
from placement.policy.framework.queue_loop import visit_queues
from placement.policy.framework.session import Session, Unplaceable
from placement.policy.jobs.job import NEVER_FITS, Job, Problem, Task, alike, wanted_by
from placement.policy.queues.queue import QueueEntry, QueueInfo

# So many tasks of one job are placed in one go where no other job waits.
_RUN: Final = 64
# So many tasks of one job are placed together where they are to be in one rack.
_TOGETHER: Final = 1 << 12
# Kinds of members that are tried in one go.
_KINDS: Final = 3
# Other orders of members that are tried in one go.
_ORDERS: Final = 8


def allocate(session: Session) -> Steps[None]:
    """Place what fits, queue by queue, job by job."""
    yield from visit_queues(session, _visit)


def _visit(session: Session, queue: QueueInfo, alone: bool) -> Steps[bool]:
    """Places the queue's first job, or what of it must start together."""
    if session.plugins.overused(queue):
        return False
    return (yield from place_first(session, queue, queue.order, alone))


def place_first(session: Session, queue: QueueInfo, places: list[QueueEntry], alone: bool) -> Steps[bool]:
    """Places the first job of a list, and says whether there was one."""
    job = session.cache.queue.pop(places)
    if job is None:
        return False
    if not session.cache.admission.admits(job):
        # It has its place again once it has been read again.
        return True
    needed = session.plugins.needed(job)
    if needed == 1 and alone and not places:
        needed = _RUN
    if job.topological:
        # Where the first pod goes decides where the others can.
        needed = max(needed, min(job.pending, _TOGETHER))
    together, passed = session.plugins.needed(job), session.failures.passed.get(job.key)
    tasks = _others(job, together, passed) if passed is not None else []
    if passed is None or not tasks:
        passed, tasks = _begin(session, job), job.next_tasks(needed)
    if len(tasks) >= together:
        yield from _place(session, queue, job, tasks, passed)
        yield from reserve_at_once(session, job)
    else:
        _put_back(job, tasks)
    return True


def _place(session: Session, queue: QueueInfo, job: Job, tasks: Sequence[Task], passed: Passed) -> Steps[None]:
    """Places these tasks, or others of the job where members that fit nowhere can be passed over."""
    together, kept, spare = session.plugins.needed(job), session.failures.passed, _ORDERS
    for _unused in range(_KINDS):
        vain = yield from _try_orders(session, queue, job, tasks, passed, spare)
        if not vain:
            if together > 1 or job.key not in kept:
                # A member that did not fit beside others may fit by itself.
                _end(session, job)
            return
        spare -= len(vain) - 1
        best = max(vain, key=lambda item: item.failure.placed)
        passed.add(best, vain)
        tasks = _others(job, together, passed)
        if not tasks:
            _refuse(session, job, passed, best.failure)
            return
    # Others have their turn first. What would help those that were passed over is noted meanwhile.
    _put_back(job, tasks)
    kept[job.key] = passed
    session.cache.queue.park(job, passed.tasks)
    passed.tasks.clear()
    session.cache.queue.hints.wake(job)


def _begin(session: Session, job: Job) -> Passed:
    """Have the job's members tried from the first on; nothing that was noted of them counts."""
    if job.untried is not None:
        _end(session, job)
        session.cache.queue.hints.forget(job.key)
    job.stirred = False
    return Passed(session.cache.versions.room)


def _end(session: Session, job: Job) -> None:
    """Forget which members of the job have been tried."""
    session.failures.passed.pop(job.key, None)
    job.untried = None


def _try_orders(
    session: Session, queue: QueueInfo, job: Job, tasks: Sequence[Task], passed: Passed, most: int
) -> Steps[list[Vain]]:
    """Places these tasks as they come, or those that must start together in so many other orders at most.

    Returns the tries that were in vain; none if enough tasks are placed, or if a limit keeps the job away.
    """
    failed = yield from _try(session, queue, job, tasks, passed)
    if failed is None:
        return []
    order = list(tasks[: session.plugins.needed(job)])
    vain, orders, moved = [failed], [order], 0
    # What can never run does not run in another order either.
    while job.mixed and not job.topological and not failed.failure.never and len(vain) <= most:
        order, moved = _move_up(order, moved, failed.failure.placed)
        if order in orders:
            break
        orders.append(order)
        failed = yield from _try(session, queue, job, order, passed)
        if failed is None:
            return []
        vain.append(failed)
    return vain


def _try(session: Session, queue: QueueInfo, job: Job, tasks: Sequence[Task], passed: Passed) -> Steps[Vain | None]:
    """Places as many of these tasks as must start together, or more.

    Returns the try if it was in vain: the tasks before the first that fits nowhere are too few. Returns None if enough
    tasks are placed, or if a limit keeps the job away.
    """
    together = session.plugins.needed(job)
    limit = session.cache.tree.limit(queue, wanted_by(tasks), session.cache.total)
    if limit and len(tasks) > together:
        # The run was a guess: only what must start together is asked for.
        _put_back(job, tasks[together:])
        return (yield from _try(session, queue, job, tasks[:together], passed))
    if limit:
        _put_back(job, tasks)
        _park(session, job, passed, Unplaceable("QueueLimit", limit), limited=True)
        return None
    placer = session.placer(job)
    kind = placer.kind(tasks) if len(tasks) == together == job.pending else None
    known = session.failures.find(session.cache.versions.fit, kind) if kind is not None else None
    if known is not None:
        _put_back(job, tasks)
        return Vain(tasks[: known.placed + 1], known)
    statement = session.statement()
    try:
        if len(tasks) > _RUN:
            # It has taken its time to look at so many.
            yield
        unplaced = yield from placer.place(tasks, statement)
        placed = len(tasks) if unplaced is None else tasks.index(unplaced.task)
        nodes = None
        if unplaced is not None:
            # Of a job whose members are passed over, only the first reason is told.
            told = passed.hopeful if kind is None and placed < together else None
            nodes = told.nodes if told is not None else placer.reasons(unplaced.task)
        if unplaced is None or placed >= together:
            yield from session.commit_and_bind(statement, tasks[:placed])
        else:
            yield from statement.discard()
    except GeneratorExit:
        finish(statement.discard())
        _put_back(job, tasks)
        session.cache.queue.push(job)
        raise
    if unplaced is None or nodes is None:
        return None
    _put_back(job, tasks[placed:])
    if placed >= together:
        if not job.mixed:
            session.refuse(job, tasks[: placed + 1], Unplaceable("NotEnoughResources", "", nodes))
        # A mixed job is visited again, and then its tasks unlike this one have their turn.
        return None
    if job.topological and len(tasks) > together:
        # More were asked for than have to start together.
        return (yield from _try(session, queue, job, job.next_tasks(together), passed))
    failure = Failure(placed, nodes, placer.never(tasks[:together]), unplaced.why)
    if kind is not None:
        session.failures.note(session.cache.versions.fit, kind, failure)
    return Vain(tasks[: placed + 1], failure)


def _move_up(order: list[Task], moved: int, failed: int) -> tuple[list[Task], int]:
    """Return another order of the tasks, and how many of its first tasks are of kinds that were moved up.

    The kind of the task that failed comes before the others, which may have taken its only nodes, but behind those
    that were moved up before. If it came behind these already, it comes before them, too. A kind is moved up once: the
    same order is returned if that has not helped, or if no other kind came before.
    """
    task, behind = order[failed], order[moved:]
    directly = all(alike(task, other) for other in order[moved:failed])
    if failed < moved or (directly and not moved):
        return order, moved
    kind = [other for other in behind if alike(task, other)]
    others = [other for other in behind if not alike(task, other)]
    if directly:
        return [*kind, *order[:moved], *others], moved + len(kind)
    return [*order[:moved], *kind, *others], moved + len(kind)


def _others(job: Job, number: int, passed: Passed) -> list[Task]:
    """Members unlike those that fit nowhere, in the job's order; none where they are too few."""
    return job.next_untried(number, passed.kinds) if job.mixed else []


def _put_back(job: Job, tasks: Sequence[Task]) -> None:
    for task in tasks:
        job.wait(task)


def format_size(job: Job) -> str:
    """Return how many of the job's tasks must start at once, as told to users."""
    return f"{job.group.member_field} is {job.min_member}; " if job.group is not None and job.min_member > 1 else ""


def _refuse(session: Session, job: Job, passed: Passed, last: Failure) -> None:
    """Refuses a job of which no members are left to be tried: these were passed over, and the last try ended so."""
    together = session.plugins.needed(job)
    failure = passed.hopeful or last
    if failure.never and not _is_outdated(session, job, passed):
        _end(session, job)
        text = f"{job} can never run: {format_size(job) if together > 1 else ''}{failure.never}; {failure.nodes}"
        session.cache.give_up(job, Problem(NEVER_FITS, text))
        # Others deserve more without it, and may have been passed over for having too much.
        session.unfinished = True
        return
    short = f"{job} needs {together} pods placed together, {failure.placed} fit" if together > 1 else ""
    if failure.why:
        short = f"{job} needs {together} pods placed together; {failure.why}" if together > 1 else failure.why
    _park(session, job, passed, Unplaceable("NotEnoughResources", short, failure.nodes))


def _is_outdated(session: Session, job: Job, passed: Passed) -> bool:
    """Return whether something may have come, while other jobs had their turn, that helps those passed over first."""
    came = job.stirred or passed.since != session.cache.versions.room
    return job.key in session.failures.passed and came


def _park(session: Session, job: Job, passed: Passed, why: Unplaceable, *, limited: bool = False) -> None:
    """Have the job wait for news, after which its members are tried from the first on."""
    outdated = _is_outdated(session, job, passed)
    session.refuse(job, passed.tasks, why, limited=limited)
    _end(session, job)
    if outdated:
        session.cache.queue.hints.wake(job)
