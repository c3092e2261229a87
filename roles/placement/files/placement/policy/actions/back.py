# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Queues that a batch system backs: a gang, or a pod by itself, is one job there, and goes where that job is.

no job        one is submitted, once a read of all jobs has shown that there is none
it waits      so do the pods, and are told why in the batch system's words
it runs       each pod gets its part of the job, if the node is one that it may have; otherwise the job is given up
it is gone    pods that are left are asked to leave; so are those whose job is about to reach its walltime
no pods       the job is released, when the last container has really ended
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from placement.model.action import Evict, Release, Submit
from placement.model.batch import BatchJob
from placement.model.event import Object
from placement.model.workload import PodGroup
from placement.policy.backing import Unit
from placement.policy.demand import Bins, Demand, Unbackable, chunks_of, demand_of, walltime_of
from placement.policy.jobs import HOLDING, Job, Status, Task
from placement.policy.leases import renew
from placement.policy.membership import SOURCE_OF, GroupKey
from placement.policy.session import Refused, Session
from placement.policy.strays import is_certain, is_served, strays
from placement.policy.verify import aliases, hosts, is_resting, node_of, why_not

_ENDED: Final = frozenset({Status.SUCCEEDED, Status.FAILED})
_THERE: Final = frozenset({Status.BOUND, Status.RUNNING})
_OPEN: Final = float("inf")
_STEP: Final = 64


def back(session: Session) -> Iterator[None]:
    """A step of every cycle, before anybody else is placed."""
    book, backing = session.book, session.backing
    for uid in list(backing.changed):
        job = _job_of(session, uid)
        if job is not None:
            book.backed[job.key] = job
    backing.changed.clear()
    if backing.fresh:
        backing.aliases, backing.hosts = aliases(session), hosts(session)
        book.backed.update((key, book.jobs[key]) for key in book.restless if key in book.jobs)
        book.restless.clear()
        yield from renew(session)
    for key in list(book.backed):
        job = book.backed.pop(key, None)
        if job is None or book.jobs.get(key) is not job:
            continue
        for rests in _serve(session, job):
            if not rests:
                book.restless[key] = None
            yield
    if backing.fresh:
        backing.fresh = False
        for number, unit in enumerate(list(backing.units.values())):
            _release(session, unit)
            if number % _STEP == 0:
                yield


def _job_of(session: Session, uid: str) -> Job | None:
    """The job that has a pod or a group of this UID."""
    task = session.book.tasks.get(uid)
    if task is not None:
        return task.job
    kind: type[Object] = PodGroup
    group = session.book.cluster.objects.get(kind, {}).get(uid)
    if not isinstance(group, PodGroup) or group.dialect not in SOURCE_OF:
        return None
    return session.book.jobs.get(GroupKey(SOURCE_OF[group.dialect], group.namespace, group.name))


def _serve(session: Session, job: Job) -> Iterator[bool]:
    """Does what there is to do for a job; each time says whether nothing more will be until something changes."""
    if not is_served(session, job):
        queue = session.book.tree.by_name.get(job.queue)
        if queue is not None and queue.record.backed_by:
            _tell(session, job, Refused("NotBackable", f"{job}: a gang in queue {queue} needs a PodGroup"))
        return
    units = session.backing.units
    gang = job.group.uid if job.group is not None else ""
    # Whoever came when the gang had its job already has one by itself.
    together = [task for task in job.tasks.values() if gang and task.uid not in units]
    if gang and (together or gang in units):
        yield _settle(session, job, session.backing.unit(gang), together)
    for task in [task for task in job.tasks.values() if not gang or task.uid in units]:
        # In the meantime it may have gone.
        if job.tasks.get(task.uid) is not task:
            continue
        unit = session.backing.unit(task.uid)
        if task.status != unit.seen:
            done = _settle(session, job, unit, [task])
            unit.seen = task.status if done else -1
            yield done


def _settle(session: Session, job: Job, unit: Unit, tasks: Sequence[Task]) -> bool:
    backing = session.backing
    there = [task for task in tasks if task.status in HOLDING]
    waiting = [task for task in tasks if task.status is Status.PENDING and job.problem is None]
    unit.held.update((task.uid, _OPEN) for task in there)
    unit.held.update((task.uid, -_OPEN) for task in tasks if task.status in _ENDED and task.uid in unit.held)
    unit.members = len(there) + len(waiting)
    if unit.user is None:
        backing.belongs(unit, backing.rules.user_of(job.key.namespace, session.book.namespace_labels(job), job.queue))
    batch = unit.job
    if batch is None:
        if backing.is_gone(unit):
            _evict(session, there, "JobEnded", f"the job that {job} was part of is gone")
        # Who is still there has no job, so he has to leave and is a part of the next one.
        if waiting and not there and len(waiting) >= _needed(session, job, unit):
            _submit(session, job, unit, sorted(waiting, key=lambda task: task.key))
        return not (waiting or there)
    if not batch.runs:
        _evict(session, there, "JobStopped", f"job {batch.job} does not run any more")
    elif batch.left is not None and batch.left <= backing.rules.grace:
        _evict(session, there, "WalltimeReached", f"job {batch.job} ends in {max(0, int(batch.left))} s")
        unit.refused = batch.job
    if batch.runs and unit.absences:
        # It may be gone: nobody goes where it was, and nobody leaves yet.
        return False
    if batch.runs and batch.job != unit.refused:
        return _place(session, job, unit, batch, waiting, there)
    if waiting:
        said = unit.trouble if batch.job == unit.refused else batch.comment
        _tell(session, job, Refused("JobWaiting", f"job {batch.job} has no nodes to give yet: {said or 'queued'}"))
    return batch.job != unit.refused and not there


def _needed(session: Session, job: Job, unit: Unit) -> int:
    """How many must have a place together; a pod by itself is alone, whatever its group says."""
    return session.rules.needed(job) if job.group is not None and unit.uid == job.group.uid else 1


def _submit(session: Session, job: Job, unit: Unit, waiting: Sequence[Task]) -> None:
    backing, now = session.backing, session.now
    if not backing.may_submit(unit, now):
        said = backing.trouble or unit.trouble or "a job is being submitted"
        _tell(session, job, Refused("NoJob", said))
        return
    pods = [task.pod for task in waiting]
    try:
        chunks, walltime = chunks_of(demand_of(pod, backing.rules, backing.hosts) for pod in pods), walltime_of(pods)
    except Unbackable as error:
        _tell(session, job, Refused("NotBackable", f"{job}: {error}"))
        return
    backing.submitted(unit, now)
    session.actions.append(
        Submit(
            uid=unit.uid,
            namespace=job.key.namespace,
            name=job.group.name if job.group is not None and unit.uid == job.group.uid else pods[0].name,
            queue=job.queue,
            namespace_labels=session.book.namespace_labels(job),
            chunks=chunks,
            walltime=walltime,
        )
    )
    _tell(session, job, Refused("NoJob", unit.trouble or "a job is being submitted"))


def _place(
    session: Session, job: Job, unit: Unit, batch: BatchJob, waiting: Sequence[Task], there: Sequence[Task]
) -> bool:
    """Gives pods their parts of a job that runs; all that must start together, or none."""
    bins = Bins(batch.shares, lambda host: node_of(session, host))
    lost = [task for task in there if not bins.take(task.node, _demand(session, task)) and _may_leave(session, task)]
    if not all(node_of(session, share.host) for share in batch.shares):
        # A host that is no node now may be the very one where they are.
        lost = []
    _evict(session, lost, "NotInJob", f"job {batch.job} has no part for it on its node")
    if not waiting:
        return not lost
    if job.key in session.book.held:
        return False
    statement = session.statement()
    placed: list[Task] = []
    refused = f"its hosts {', '.join(sorted({share.host for share in batch.shares})[:5])} have no part for {waiting[0]}"
    ordered = sorted(waiting, key=lambda task: (len(_demand(session, task).properties), _demand(session, task)))
    for task in reversed(ordered):
        node, why = bins.put(_demand(session, task), partial(why_not, session, task))
        if node:
            statement.place(task, node)
            placed.append(task)
        refused = why or refused
    if len(placed) < min(_needed(session, job, unit), len(waiting)) or not placed:
        statement.discard()
        return _without(session, job, unit, batch, there, refused)
    statement.commit()
    unit.tries, unit.trouble = 0, ""
    session.bind(*placed)
    return len(placed) == len(waiting) and not lost


def _without(session: Session, job: Job, unit: Unit, batch: BatchJob, there: Sequence[Task], refused: str) -> bool:
    """Nobody waiting could have a place in the job."""
    if any(task.status is Status.RELEASING for task in there):
        # Their parts are the next ones'.
        _tell(session, job, Refused("JobWaiting", f"pods are still leaving job {batch.job}"))
    elif any(is_resting(session, node_of(session, share.host)) for share in batch.shares):
        # The job is as good as it was, and its node will be tried again.
        _tell(session, job, Refused("JobWaiting", refused))
    elif there and (job.whole or not job.missing):
        for task in job.tasks.values():
            if task.status is Status.PENDING:
                session.backing.unit(task.uid)
    elif not there:
        session.backing.give_up(unit, batch, session.now, f"job {batch.job} was given up: {refused}")
        _tell(session, job, Refused("WrongNodes", unit.trouble))
    return False


def _demand(session: Session, task: Task) -> Demand:
    try:
        return demand_of(task.pod, session.backing.rules)
    except Unbackable:
        # It was admitted by other rules, and takes nothing that these have a name for.
        return Demand(0, 0, (), ())


def _evict(session: Session, tasks: Sequence[Task], reason: str, message: str) -> None:
    leaving = [task for task in tasks if _may_leave(session, task)]
    grace = int(session.backing.rules.grace)
    statement = session.statement()
    for task in leaving:
        statement.evict(task)
        pod = task.pod
        session.actions.append(
            Evict(uid=pod.uid, namespace=pod.namespace, name=pod.name, reason=reason, message=message, grace=grace)
        )
    statement.commit()


def _may_leave(session: Session, task: Task) -> bool:
    """Whether it can be asked now; what its owner writes, a priority for one, has no say: its job is over."""
    return task.status in _THERE and not task.pod.mirror and task.uid not in session.spared


def _tell(session: Session, job: Job, refused: Refused) -> None:
    if session.refusals.get(job.key) != refused:
        session.refusals[job.key] = refused
        session.book.stirred[job.key] = job


def _release(session: Session, unit: Unit) -> None:
    """Has jobs end that nobody needs."""
    backing, now = session.backing, session.now
    known = _job_of(session, unit.uid)
    if known is None or not is_served(session, known):
        unit.members = _send_strays(session, unit, known)
    if unit.members or (known is not None and unit.submitting):
        unit.idle = None
    elif unit.idle is None:
        unit.idle = now
    for uid, until in unit.held.items():
        task = session.book.tasks.get(uid)
        if until == _OPEN and task is not None and task.status in _ENDED:
            unit.held[uid] = -_OPEN
        if until == _OPEN and task is None:
            # Gone without a sign that its containers have ended: it may have been deleted by force.
            unit.held[uid] = now + backing.rules.linger
    # Where pods are left without a job, it may be one of these that they were on.
    unneeded = list(unit.extra) if unit.job is not None or not unit.holds(now) else []
    if unit.job is not None and unit.absences:
        # Not in the last answer: by now its id may be somebody else's.
        pass
    elif unit.job is not None:
        over = unit.job.job == unit.refused and not unit.holds(now)
        if over or (unit.idle is not None and _may_end(session, unit, unit.job, now)):
            unneeded.append(unit.job)
    elif unit.idle is not None and not unit.submitting and backing.read > unit.settled:
        backing.forget(unit)
    for job in unneeded:
        if backing.ask(unit, job, now):
            session.actions.append(Release(uid=unit.uid, name=job.job, user=job.owner))


def _send_strays(session: Session, unit: Unit, known: Job | None) -> int:
    """Has pods leave whose group was deleted or changed its queue; the answer is how many are there yet."""
    there = strays(session, unit, known)
    leaving = [task for task in there if is_certain(unit, task)]
    unit.held.update((task.uid, _OPEN) for task in leaving)
    _evict(session, leaving, "NotBacked", "its group is gone, or is not in the queue that has a job for it any more")
    return len(there)


def _may_end(session: Session, unit: Unit, job: BatchJob, now: float) -> bool:
    """Whether no container of it can be left: none ever began, their end was seen, or there was time enough."""
    if unit.held or (unit.tries and not job.runs):
        return not unit.holds(now)
    # Nothing is known of it but that it is there: it is from before our time.
    return unit.idle is not None and now - unit.idle >= session.backing.rules.linger
