# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Queues that a batch system backs: a gang, or a pod by itself, is one job there, and goes where that job is.

no job        one is submitted, once a read of all jobs has shown that there is none.
it waits      the pods wait, and are told why in the batch system's words.
it runs       each pod gets its part of the job, if it may have the node; otherwise the job is given up.
it is gone    pods that are left are asked to leave, also those whose job is about to reach its walltime.
no pods       the job is released, when the last container has really ended.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from placement.model.batch import BatchJob
from placement.model.messages.action import Submit
from placement.model.objects.workload import Namespace
from placement.model.slicing import Steps, finish, paced
from placement.policy.backing.foreign.foreign_jobs import close_unknown_nodes, update_foreign_jobs
from placement.policy.backing.foreign.make_room import make_room
from placement.policy.backing.job_request import Demand, SharePacking, Unbackable, chunks_of, demand_of, walltime_of
from placement.policy.backing.late_members import ascribe, is_apart, returning
from placement.policy.backing.lost_pods import look_for_lost
from placement.policy.backing.node_fit import aliases, hosts, is_kept, is_resting, largest, node_of, why_not
from placement.policy.backing.orphans import OPEN, is_served
from placement.policy.backing.release import evict, give_back, job_of, may_leave, send_altered
from placement.policy.framework.session import Session, Unplaceable
from placement.policy.jobs.batch_jobs import BackedUnit
from placement.policy.jobs.job import OCCUPIES_NODE, Job, Status, Task

_STEP: Final = 64


def reconcile(session: Session) -> Steps[None]:
    """Bring jobs of the batch system and backed pods in line, before other pods are placed."""
    cache, batch_jobs = session.cache, session.batch_jobs
    for uid in list(batch_jobs.changed):
        job = job_of(session, uid)
        if job is not None:
            cache.queue.to_reconcile[job.key] = job
    batch_jobs.changed.clear()
    if batch_jobs.has_new_read:
        batch_jobs.aliases, batch_jobs.hosts = aliases(session), hosts(session)
        cache.queue.to_reconcile.update(
            (key, cache.jobs.by_key[key]) for key in cache.queue.recheck_after_read if key in cache.jobs.by_key
        )
        cache.queue.recheck_after_read.clear()
        _requeue_relabelled(session)
        look_for_lost(session)
        yield from update_foreign_jobs(session)
        yield from make_room(session)
    yield from close_unknown_nodes(session)
    for key in list(cache.queue.to_reconcile):
        if key in cache.admission.read_before_change:
            # It comes again once it has been read again.
            continue
        job = cache.queue.to_reconcile.pop(key, None)
        if job is None or cache.jobs.by_key.get(key) is not job:
            continue
        yield from _serve(session, job)
    if batch_jobs.has_new_read:
        batch_jobs.has_new_read = False
        send_altered(session)
        for uid, pause in paced(dict.fromkeys((*batch_jobs.units, *cache.tags.pods)), _STEP):
            give_back(session, uid)
            if pause:
                yield


def _requeue_relabelled(session: Session) -> None:
    """Labels of namespaces say whose jobs are, so units are looked at again where they have changed."""
    cache, batch_jobs = session.cache, session.batch_jobs
    found = cache.cluster.objects.get(Namespace, {}).values()
    labels = {item.name: item.labels for item in found if isinstance(item, Namespace)}
    if labels == batch_jobs.labels:
        return
    changed = {name for name, _unused in labels.items() ^ batch_jobs.labels.items()}
    batch_jobs.labels = labels
    for unit in batch_jobs.units.values():
        job = job_of(session, unit.uid)
        if job is not None and job.key.namespace in changed:
            unit.done_status = -1
            cache.queue.to_reconcile[job.key] = job


def _serve(session: Session, job: Job) -> Steps[None]:
    """Do what each unit of a job needs, and have the job looked at after the next read while one needs more."""
    if not is_served(session, job):
        queue = session.cache.tree.by_name.get(job.queue)
        if queue is not None and queue.record.backed:
            _tell(session, job, Unplaceable("NotBackable", f"{job}: a gang in queue {queue} needs a PodGroup"))
        return
    units, recheck = session.batch_jobs.units, session.cache.queue.recheck_after_read
    gang = job.group.uid if job.group is not None else ""
    together = [task for task in job.tasks.values() if gang and not is_apart(session, job, task)]
    if gang and (together or gang in units):
        unit = session.batch_jobs.unit(gang)
        if not _settle(session, job, unit, [*together, *returning(session, job, unit, together)]):
            recheck[job.key] = None
        yield
    for task in [task for task in job.tasks.values() if not gang or is_apart(session, job, task)]:
        if job.key in session.cache.admission.read_before_change:
            return
        # In the meantime it may have gone.
        if job.tasks.get(task.uid) is not task:
            continue
        unit = session.batch_jobs.unit(task.uid)
        if task.status != unit.done_status:
            done = _settle(session, job, unit, [task])
            unit.done_status = task.status if done else -1
            if not done:
                recheck[job.key] = None
            yield


def _settle(session: Session, job: Job, unit: BackedUnit, tasks: Sequence[Task]) -> bool:
    """Do what a unit needs; return whether nothing more is to be done until something changes."""
    batch_jobs = session.batch_jobs
    there = [task for task in tasks if task.status in OCCUPIES_NODE and task.uid not in batch_jobs.lost]
    waiting = [task for task in tasks if task.status is Status.PENDING and job.problem is None]
    unit.pods_until.update((task.uid, OPEN) for task in there)
    unit.members = len(there) + len(waiting)
    ascribe(session, job, unit)
    batch_job = unit.batch_job
    if batch_job is None:
        if batch_jobs.is_gone(unit):
            whose = f", and job {unit.extra[0].id} is not of this namespace's user and queue" if unit.extra else ""
            evict(session, there, "JobEnded", f"the job that {job} was part of is gone{whose}")
        # A pod that is still there has no job, so it has to leave, and counts for the next job.
        if waiting and not there and _suffice(session, job, unit, len(waiting)):
            _submit(session, job, unit, sorted(waiting, key=lambda task: task.key))
        return not (waiting or there)
    if not batch_job.runs:
        leaving = [task for task in there if not _perhaps_elsewhere(session, unit, task)]
        evict(session, leaving, "JobStopped", f"job {batch_job.id} does not run any more")
    if unit.owner is None:
        reason = (
            f"job {batch_job.id} may be another user's: the settings name no user for namespace {job.key.namespace}"
        )
        if waiting:
            _tell(session, job, Unplaceable("NoJob", reason))
        return not waiting and (batch_job.runs or not there)
    if batch_job.runs and batch_job.left is not None and batch_job.left <= batch_jobs.settings.grace:
        evict(session, there, "WalltimeReached", f"job {batch_job.id} ends in {max(0, int(batch_job.left))} s")
        unit.trouble = (
            f"job {batch_job.id} has less time left than the {batch_jobs.settings.grace:g} s that pods have to end"
        )
        unit.rejected_job = batch_job.id
    if batch_job.runs and unit.absences:
        # The job may be gone: no pod goes to its nodes, and none leaves yet.
        return False
    if batch_job.runs and batch_job.id != unit.rejected_job:
        return _place(session, job, unit, batch_job, waiting, there)
    if waiting:
        reason = unit.trouble if batch_job.id == unit.rejected_job else batch_job.comment
        _tell(
            session,
            job,
            Unplaceable("JobWaiting", f"job {batch_job.id} has no nodes to give yet: {reason or 'queued'}"),
        )
    return batch_job.id != unit.rejected_job and not there


def _perhaps_elsewhere(session: Session, unit: BackedUnit, task: Task) -> bool:
    """Return whether it may be part of another running job of the tag, since the owner of these jobs is not known."""
    shares = [share for job in unit.extra for share in job.shares] if unit.owner is None else []
    return any(node_of(session, share.host) == task.node for share in shares)


def _needed(session: Session, job: Job, unit: BackedUnit) -> int:
    """Return how many members must get nodes together; 1 for a pod with a job of its own, whatever its group says."""
    return session.plugins.needed(job) if job.group is not None and unit.uid == job.group.uid else 1


def _suffice(session: Session, job: Job, unit: BackedUnit, number: int) -> bool:
    """Return whether this number of waiting members is enough to ask for a job, also by the tasks that a gang needs."""
    gang = job.group is not None and unit.uid == job.group.uid
    return number >= _needed(session, job, unit) and (not gang or session.cache.queue.has_min_member(job))


def _submit(session: Session, job: Job, unit: BackedUnit, waiting: Sequence[Task]) -> None:
    batch_jobs, now = session.batch_jobs, session.now
    if not batch_jobs.may_submit(unit, now):
        reason = batch_jobs.trouble or unit.trouble or "a job is being submitted"
        _tell(session, job, Unplaceable("NoJob", reason))
        return
    pods = [task.pod for task in waiting]
    try:
        demands = [demand_of(pod, batch_jobs.settings, batch_jobs.hosts) for pod in pods]
        chunks, walltime = chunks_of(demands, largest(session)), walltime_of(pods)
    except Unbackable as error:
        _tell(session, job, Unplaceable("NotBackable", f"{job}: {error}"))
        return
    batch_jobs.submitted(unit, now)
    session.actions.append(
        Submit(
            uid=unit.uid,
            namespace=job.key.namespace,
            name=job.group.name if job.group is not None and unit.uid == job.group.uid else pods[0].name,
            queue=job.queue,
            namespace_labels=session.cache.namespace_labels(job),
            chunks=chunks,
            walltime=walltime,
            mark=batch_jobs.mark,
        )
    )
    _tell(session, job, Unplaceable("NoJob", unit.trouble or "a job is being submitted"))


def _place(
    session: Session, job: Job, unit: BackedUnit, batch_job: BatchJob, waiting: Sequence[Task], there: Sequence[Task]
) -> bool:
    """Give pods their parts of a job that runs: all that must start together, or none."""
    bins = SharePacking(
        batch_job.shares, lambda host: node_of(session, host), session.batch_jobs.settings.devices.values()
    )
    known = sorted(there, key=lambda task: _demand(session, task), reverse=True)
    lost = [task for task in known if not bins.take(task.node, _demand(session, task)) and may_leave(session, task)]
    known_hosts = all(node_of(session, share.host) for share in batch_job.shares)
    if not known_hosts:
        # A host that is no node now may be the very one where they are.
        lost = []
    evict(session, lost, "NotInJob", f"job {batch_job.id} has no part for it on its node")
    if not waiting:
        return known_hosts and not lost
    if job.key in session.cache.queue.backoff or session.batch_jobs.foreign.doubted[0]:
        return False
    statement = session.statement()
    placed: list[Task] = []
    # A pod that is placed counts as one of the minimum from then on.
    needed = _needed(session, job, unit)
    enough = min(needed, len(waiting))
    refused = ""
    ordered = sorted(waiting, key=lambda task: (len(_demand(session, task).properties), _demand(session, task)))
    for task in reversed(ordered):
        node, why = bins.put(_demand(session, task), partial(why_not, session, task))
        if node:
            statement.allocate(task, node)
            placed.append(task)
        refused = why or refused
    # The job may have been asked for when others of the gang had jobs of their own: a pod bound now would wait in vain.
    too_small = known_hosts and bins.spent and len(placed) < needed
    if too_small or len(placed) < enough or not placed:
        finish(statement.discard())
        return _without(
            session, job, unit, batch_job, waiting, there, refused or _no_part(session, batch_job, waiting[0])
        )
    finish(statement.commit())
    # Nothing may come of their bindings for long, and their group be deleted meanwhile.
    unit.pods_until.update((task.uid, OPEN) for task in placed)
    unit.tries, unit.trouble = 0, ""
    for own in [session.batch_jobs.units[task.uid] for task in placed if task.uid in session.batch_jobs.units]:
        # A pod that has a part of its gang's job needs no job of its own.
        own.has_own_job, own.members = own is unit, own.members if own is unit else 0
    finish(session.bind(*placed, tag=unit.uid))
    return len(placed) == len(waiting) and known_hosts and not lost


def _no_part(session: Session, batch_job: BatchJob, task: Task) -> str:
    hosts_ = sorted({share.host for share in batch_job.shares})
    strange = [host for host in hosts_ if not node_of(session, host)]
    if strange:
        return f"{', '.join(strange[:5])} are no nodes; where only some hosts are, pbs_chunk says which"
    return f"its hosts {', '.join(hosts_[:5])} have no part for {task}"


def _without(
    session: Session,
    job: Job,
    unit: BackedUnit,
    batch_job: BatchJob,
    waiting: Sequence[Task],
    there: Sequence[Task],
    refused: str,
) -> bool:
    """Decide what becomes of a job in which no waiting pod could have a place."""
    if any(task.status is Status.RELEASING for task in there):
        # Their parts are the next ones'.
        _tell(session, job, Unplaceable("JobWaiting", f"pods are still leaving job {batch_job.id}"))
    elif any(
        is_resting(session, name, waiting) or any(is_kept(session, task, name) for task in waiting)
        for name in {node_of(session, share.host) for share in batch_job.shares}
    ):
        # The job is as good as it was, and its node will be tried again.
        _tell(session, job, Unplaceable("JobWaiting", refused))
    elif there and (job.was_ready or not job.missing):
        for task in job.tasks.values():
            if task.status is Status.PENDING:
                session.batch_jobs.unit(task.uid).has_own_job = True
    elif not there:
        session.batch_jobs.give_up(unit, batch_job, session.now, f"job {batch_job.id} was given up: {refused}")
        _tell(session, job, Unplaceable("WrongNodes", unit.trouble))
    return False


def _demand(session: Session, task: Task) -> Demand:
    try:
        return demand_of(task.pod, session.batch_jobs.settings)
    except Unbackable:
        # It was admitted by other rules, and takes nothing that these have a name for.
        return Demand(0, 0, (), ())


def _tell(session: Session, job: Job, refused: Unplaceable) -> None:
    if session.cache.jobs.by_key.get(job.key) is job and session.refusals.get(job.key) != refused:
        session.refusals[job.key] = refused
        session.cache.queue.dirty[job.key] = job
