# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Giving back: how unused jobs of the batch system end, and how pods are asked to leave theirs.

A job ends after the last container of its pods has ended, whatever was deleted by whatever client; so pods leave first.
"""

from collections.abc import Sequence
from typing import Final

from placement.model.batch import BatchJob
from placement.model.messages.action import Evict, Release
from placement.model.messages.event import Object
from placement.model.objects.pod import JOB_TAG
from placement.model.objects.workload import PodGroup
from placement.model.slicing import finish
from placement.policy.backing.node_fit import node_of
from placement.policy.backing.orphans import OPEN, hold, is_abandoned, strays
from placement.policy.framework.session import Session
from placement.policy.jobs.batch_jobs import BackedUnit
from placement.policy.jobs.group_key import SOURCE_OF, GroupKey
from placement.policy.jobs.job import OCCUPIES_NODE, Job, Status, Task

_THERE: Final = frozenset({Status.BOUND, Status.RUNNING})


def job_of(session: Session, uid: str) -> Job | None:
    """Return the job that has a pod or a group of this UID."""
    task = session.cache.jobs.tasks.get(uid)
    if task is not None:
        return task.job
    kind: type[Object] = PodGroup
    group = session.cache.cluster.objects.get(kind, {}).get(uid)
    if not isinstance(group, PodGroup) or group.dialect not in SOURCE_OF:
        return None
    job = session.cache.jobs.by_key.get(GroupKey(SOURCE_OF[group.dialect], group.namespace, group.name))
    # The pods' group may be a namesake of another API by now.
    return job if job is not None and job.group is not None and job.group.uid == uid else None


def evict(session: Session, tasks: Sequence[Task], reason: str, message: str) -> None:
    leaving = [task for task in tasks if may_leave(session, task)]
    grace = int(session.batch_jobs.settings.grace)
    statement = session.statement()
    for task in leaving:
        statement.evict(task)
        pod = task.pod
        session.actions.append(
            Evict(uid=pod.uid, namespace=pod.namespace, name=pod.name, reason=reason, message=message, grace=grace)
        )
    finish(statement.commit())


def may_leave(session: Session, task: Task) -> bool:
    """Whether it can be asked now; what its owner writes, a priority for one, has no say: its job is over."""
    return task.status in _THERE and not task.pod.mirror and task.uid not in session.unevictable


def give_back(session: Session, uid: str) -> None:
    """Ask pods to leave that are not served any more, and end jobs that are not needed."""
    unit, known = session.batch_jobs.units.get(uid), job_of(session, uid)
    if unit is not None:
        hold(session, unit, known)
    if is_abandoned(session, uid, known):
        there = list(strays(session, uid))
        evict(session, there, "NotBacked", "its group is gone, or is not in the queue that has a job for it any more")
        if unit is not None:
            unit.members = sum(task.uid in unit.pods_until for task in there)
    if unit is not None:
        _release(session, unit, known)


def _release(session: Session, unit: BackedUnit, known: Job | None) -> None:
    batch_jobs, now = session.batch_jobs, session.now
    if unit.members or (known is not None and unit.submitting):
        unit.unused_since = None
    elif unit.unused_since is None:
        unit.unused_since = now
    unit.pods_until = {uid: _until(session, uid, until) for uid, until in unit.pods_until.items()}
    may_end = (
        unit.batch_job is not None and unit.unused_since is not None and _may_end(session, unit, unit.batch_job, now)
    )
    # Pods that are left without a job may have been on one of these. If the owner of a job is not known, pods may need
    # one of these.
    others = may_end if unit.owner is None else unit.batch_job is not None or not unit.holds(now)
    unneeded = [job for job in unit.extra if not _is_under(session, unit, job)] if others else []
    if unit.batch_job is not None and unit.absences:
        # Not in the last answer: by now its id may belong to another job.
        pass
    elif unit.batch_job is not None:
        if may_end or (unit.batch_job.id == unit.rejected_job and not unit.holds(now)):
            # A pod that comes now would lose it as soon as it is bound.
            unit.rejected_job, unit.trouble = unit.batch_job.id, unit.trouble or "it is asked to end"
            unneeded.append(unit.batch_job)
    elif (
        unit.unused_since is not None and not unit.submitting and batch_jobs.read > unit.submit_ended and not unit.extra
    ):
        batch_jobs.forget(unit)
    for job in unneeded:
        if batch_jobs.ask(unit, job, now):
            # A batch system ends no job in the ordinary way while it cannot reach one of the hosts.
            force = any(uid in batch_jobs.lost for uid in unit.pods_until)
            session.actions.append(Release(uid=unit.uid, name=job.id, user=job.owner, force=force))


def send_altered(session: Session) -> None:
    """Evict pods whose job annotation was altered by their owner: the next daemon would believe it."""
    tasks = [session.cache.jobs.tasks[uid] for uid in session.cache.tags.altered if uid in session.cache.jobs.tasks]
    evict(session, tasks, "NotBacked", f"its annotation {JOB_TAG}, which says what it was bound for, was changed")


def _until(session: Session, uid: str, until: float) -> float:
    """Until when containers of a pod may be there."""
    task = session.cache.jobs.tasks.get(uid)
    if uid in session.batch_jobs.lost:
        return -OPEN
    if until != OPEN or (task is not None and task.status in OCCUPIES_NODE):
        return until
    if task is not None and (not task.pod.node or task.pod.node in session.cache.cluster.columns.rows):
        # They have ended, or there never were any: it could not be bound.
        return -OPEN
    # No kubelet has said that they have ended: it was deleted by force, or its node was.
    return session.now + session.batch_jobs.settings.linger


def _is_under(session: Session, unit: BackedUnit, job: BatchJob) -> bool:
    """Whether pods with its tag may be on this job, and not on the one that is taken for theirs.

    Those of the unit, unless that one has them on the same node; and those of the job's own namespace where it differs.
    """
    nodes = {node_of(session, share.host) for share in job.shares}
    theirs = {node_of(session, share.host) for share in (unit.batch_job.shares if unit.batch_job is not None else ())}
    apart = unit.batch_job is not None and unit.batch_job.namespace != job.namespace
    for uid in dict.fromkeys((*unit.pods_until, *session.cache.tags.pods.get(unit.uid, ()))):
        task = session.cache.jobs.tasks.get(uid)
        if task is None or task.status not in OCCUPIES_NODE or task.node not in nodes or uid in session.batch_jobs.lost:
            continue
        if (uid in unit.pods_until and task.node not in theirs) or (apart and task.pod.namespace == job.namespace):
            return True
    return False


def _may_end(session: Session, unit: BackedUnit, job: BatchJob, now: float) -> bool:
    """Whether no container of it can be left: none ever began, their end was seen, or there was time enough."""
    if unit.pods_until or (unit.tries and not job.runs):
        return not unit.holds(now)
    # Nothing is known of it but that it is there: it is from before our time.
    return unit.unused_since is not None and now - unit.unused_since >= session.batch_jobs.settings.linger
