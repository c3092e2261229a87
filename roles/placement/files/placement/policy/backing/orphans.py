# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that were bound for a batch job and are not served any more: their group was deleted or changed its queue.

Both are in the hands of the pods' owner, and neither takes a container off its node. So they leave, and as long as they
are there the job stays. Of which job they are their tags say (`policy/jobs/batch_job_tags`), whatever has become of the
group, the job or the daemon that bound them. Their owner may write there, too. That makes the owner's pods leave, and
can keep no job but one of the same namespace.
"""

from collections.abc import Iterator
from typing import Final

from placement.model.objects.workload import PodGroup
from placement.policy.framework.session import Session
from placement.policy.jobs.batch_jobs import BackedUnit
from placement.policy.jobs.job import OCCUPIES_NODE, Job, Task

# Until when containers of a pod may be there if their end is not known.
OPEN: Final = float("inf")


def is_served(session: Session, job: Job) -> bool:
    """Whether its pods are what the batch system backs."""
    queue = session.cache.tree.by_name.get(job.queue)
    return queue is not None and queue.record.backed and (job.group is not None or not job.key.named)


def hold(session: Session, unit: BackedUnit, known: Job | None) -> None:
    """Pods that were bound for the unit's job hold it, if they can be: those of its namespace.

    Another job with its tag may be of any user: its namespace says nothing of this one.
    """
    uids = session.cache.tags.pods.get(unit.uid, {}).keys() - unit.pods_until.keys()
    if not uids:
        return
    jobs = (unit.batch_job,) if unit.batch_job is not None else unit.extra
    namespaces = {known.key.namespace} if known is not None else {job.namespace for job in jobs}
    for uid in uids:
        task = session.cache.jobs.tasks.get(uid)
        if task is not None and task.status in OCCUPIES_NODE and task.pod.namespace in namespaces:
            unit.pods_until[uid] = OPEN


def is_abandoned(session: Session, uid: str, known: Job | None) -> bool:
    """Return whether the job or group of this UID is not served any more."""
    if known is not None:
        return not is_served(session, known)
    unit = session.batch_jobs.units.get(uid)
    job = unit.batch_job if unit is not None else None
    # A group that cannot be read may say what it said before.
    return uid not in session.cache.cluster.unreadable.get(PodGroup, {}) or job is None or not job.runs


def strays(session: Session, uid: str) -> Iterator[Task]:
    """Yield all pods that have been bound for a job of this UID, as the pods say or as we know."""
    cache, unit = session.cache, session.batch_jobs.units.get(uid)
    for one in dict.fromkeys((*cache.tags.pods.get(uid, ()), *(unit.pods_until if unit is not None else ()))):
        task = cache.jobs.tasks.get(one)
        if task is not None and task.status in OCCUPIES_NODE and one not in session.batch_jobs.lost:
            yield task
