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

from placement.model.action import Submit
from placement.model.batch import BatchJob
from placement.model.workload import Namespace
from placement.policy.apart import ascribe, is_apart, returning
from placement.policy.backing import Unit
from placement.policy.clearing import clear
from placement.policy.demand import Bins, Demand, Unbackable, chunks_of, demand_of, walltime_of
from placement.policy.giving_back import evict, give_back, job_of, may_leave, send_altered
from placement.policy.jobs import HOLDING, Job, Status, Task
from placement.policy.leases import doubt, renew
from placement.policy.lost import look_for_lost
from placement.policy.session import Refused, Session
from placement.policy.strays import OPEN, is_served
from placement.policy.verify import aliases, hosts, is_kept, is_resting, largest, node_of, why_not

_STEP: Final = 64


def back(session: Session) -> Iterator[None]:
    """A step of every cycle, before anybody else is placed."""
    book, backing = session.book, session.backing
    for uid in list(backing.changed):
        job = job_of(session, uid)
        if job is not None:
            book.backed[job.key] = job
    backing.changed.clear()
    if backing.fresh:
        backing.aliases, backing.hosts = aliases(session), hosts(session)
        book.backed.update((key, book.jobs[key]) for key in book.restless if key in book.jobs)
        book.restless.clear()
        _renamed(session)
        look_for_lost(session)
        yield from renew(session)
        yield from clear(session)
    yield from doubt(session)
    for key in list(book.backed):
        if key in book.unread:
            # It comes again once it has been read again.
            continue
        job = book.backed.pop(key, None)
        if job is None or book.jobs.get(key) is not job:
            continue
        for rests in _serve(session, job):
            if not rests:
                book.restless[key] = None
            yield
    if backing.fresh:
        backing.fresh = False
        send_altered(session)
        for number, uid in enumerate(dict.fromkeys((*backing.units, *book.tags.pods))):
            give_back(session, uid)
            if number % _STEP == 0:
                yield


def _renamed(session: Session) -> None:
    """Labels of namespaces say whose jobs are, so units are looked at again where they have changed."""
    book, backing = session.book, session.backing
    found = book.cluster.objects.get(Namespace, {}).values()
    labels = {item.name: item.labels for item in found if isinstance(item, Namespace)}
    if labels == backing.labels:
        return
    changed = {name for name, _unused in labels.items() ^ backing.labels.items()}
    backing.labels = labels
    for unit in backing.units.values():
        job = job_of(session, unit.uid)
        if job is not None and job.key.namespace in changed:
            unit.seen = -1
            book.backed[job.key] = job


def _serve(session: Session, job: Job) -> Iterator[bool]:
    """Does what there is to do for a job; each time says whether nothing more will be until something changes."""
    if not is_served(session, job):
        queue = session.book.tree.by_name.get(job.queue)
        if queue is not None and queue.record.backed_by:
            _tell(session, job, Refused("NotBackable", f"{job}: a gang in queue {queue} needs a PodGroup"))
        return
    units = session.backing.units
    gang = job.group.uid if job.group is not None else ""
    together = [task for task in job.tasks.values() if gang and not is_apart(session, job, task)]
    if gang and (together or gang in units):
        unit = session.backing.unit(gang)
        yield _settle(session, job, unit, [*together, *returning(session, job, unit, together)])
    for task in [task for task in job.tasks.values() if not gang or is_apart(session, job, task)]:
        if job.key in session.book.unread:
            return
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
    there = [task for task in tasks if task.status in HOLDING and task.uid not in backing.lost]
    waiting = [task for task in tasks if task.status is Status.PENDING and job.problem is None]
    unit.held.update((task.uid, OPEN) for task in there)
    unit.members = len(there) + len(waiting)
    ascribe(session, job, unit)
    batch = unit.job
    if batch is None:
        if backing.is_gone(unit):
            whose = f", and job {unit.extra[0].job} is not of this namespace's user and queue" if unit.extra else ""
            evict(session, there, "JobEnded", f"the job that {job} was part of is gone{whose}")
        # Who is still there has no job, so he has to leave and is a part of the next one.
        if waiting and not there and len(waiting) >= _needed(session, job, unit):
            _submit(session, job, unit, sorted(waiting, key=lambda task: task.key))
        return not (waiting or there)
    if not batch.runs:
        leaving = [task for task in there if not _perhaps_elsewhere(session, unit, task)]
        evict(session, leaving, "JobStopped", f"job {batch.job} does not run any more")
    if unit.whose is None:
        said = f"job {batch.job} may be another user's: the settings name no user for namespace {job.key.namespace}"
        if waiting:
            _tell(session, job, Refused("NoJob", said))
        return not waiting and (batch.runs or not there)
    if batch.runs and batch.left is not None and batch.left <= backing.rules.grace:
        evict(session, there, "WalltimeReached", f"job {batch.job} ends in {max(0, int(batch.left))} s")
        unit.trouble = f"job {batch.job} has less time left than the {backing.rules.grace:g} s that pods have to end"
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


def _perhaps_elsewhere(session: Session, unit: Unit, task: Task) -> bool:
    """Whether it may be part of another job of the tag, which runs, as nobody can say whose the jobs are."""
    shares = [share for job in unit.extra for share in job.shares] if unit.whose is None else []
    return any(node_of(session, share.host) == task.node for share in shares)


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
        demands = [demand_of(pod, backing.rules, backing.hosts) for pod in pods]
        chunks, walltime = chunks_of(demands, largest(session)), walltime_of(pods)
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
            mark=backing.mark,
        )
    )
    _tell(session, job, Refused("NoJob", unit.trouble or "a job is being submitted"))


def _place(
    session: Session, job: Job, unit: Unit, batch: BatchJob, waiting: Sequence[Task], there: Sequence[Task]
) -> bool:
    """Gives pods their parts of a job that runs; all that must start together, or none."""
    bins = Bins(batch.shares, lambda host: node_of(session, host), session.backing.rules.devices.values())
    known = sorted(there, key=lambda task: _demand(session, task), reverse=True)
    lost = [task for task in known if not bins.take(task.node, _demand(session, task)) and may_leave(session, task)]
    known_hosts = all(node_of(session, share.host) for share in batch.shares)
    if not known_hosts:
        # A host that is no node now may be the very one where they are.
        lost = []
    evict(session, lost, "NotInJob", f"job {batch.job} has no part for it on its node")
    if not waiting:
        return known_hosts and not lost
    if job.key in session.book.held or session.backing.leases.doubted[0]:
        return False
    statement = session.statement()
    placed: list[Task] = []
    # Who is placed counts as one of the minimum from then on.
    needed = _needed(session, job, unit)
    enough = min(needed, len(waiting))
    refused = ""
    ordered = sorted(waiting, key=lambda task: (len(_demand(session, task).properties), _demand(session, task)))
    for task in reversed(ordered):
        node, why = bins.put(_demand(session, task), partial(why_not, session, task))
        if node:
            statement.place(task, node)
            placed.append(task)
        refused = why or refused
    # It may have been asked for when others of the gang had jobs of their own: who is bound now would wait in vain.
    too_small = known_hosts and bins.spent and len(placed) < needed
    if too_small or len(placed) < enough or not placed:
        statement.discard()
        return _without(session, job, unit, batch, waiting, there, refused or _no_part(session, batch, waiting[0]))
    statement.commit()
    # Nothing may come of their bindings for long, and their group be deleted meanwhile.
    unit.held.update((task.uid, OPEN) for task in placed)
    unit.tries, unit.trouble = 0, ""
    for own in [session.backing.units[task.uid] for task in placed if task.uid in session.backing.units]:
        # Nobody needs a job of his own who has a part of his gang's.
        own.apart, own.members = own is unit, own.members if own is unit else 0
    session.bind(*placed, tag=unit.uid)
    return len(placed) == len(waiting) and known_hosts and not lost


def _no_part(session: Session, batch: BatchJob, task: Task) -> str:
    hosts_ = sorted({share.host for share in batch.shares})
    strange = [host for host in hosts_ if not node_of(session, host)]
    if strange:
        return f"{', '.join(strange[:5])} are no nodes; where only some hosts are, pbs_chunk says which"
    return f"its hosts {', '.join(hosts_[:5])} have no part for {task}"


def _without(
    session: Session,
    job: Job,
    unit: Unit,
    batch: BatchJob,
    waiting: Sequence[Task],
    there: Sequence[Task],
    refused: str,
) -> bool:
    """Decide what becomes of a job in which no waiting pod could have a place."""
    if any(task.status is Status.RELEASING for task in there):
        # Their parts are the next ones'.
        _tell(session, job, Refused("JobWaiting", f"pods are still leaving job {batch.job}"))
    elif any(
        is_resting(session, name, waiting) or any(is_kept(session, task, name) for task in waiting)
        for name in {node_of(session, share.host) for share in batch.shares}
    ):
        # The job is as good as it was, and its node will be tried again.
        _tell(session, job, Refused("JobWaiting", refused))
    elif there and (job.whole or not job.missing):
        for task in job.tasks.values():
            if task.status is Status.PENDING:
                session.backing.unit(task.uid).apart = True
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


def _tell(session: Session, job: Job, refused: Refused) -> None:
    if session.book.jobs.get(job.key) is job and session.refusals.get(job.key) != refused:
        session.refusals[job.key] = refused
        session.book.stirred[job.key] = job
