# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which members of a gang have a job by themselves, and which of those may go back to the gang's own."""

from collections.abc import Sequence

from placement.policy.framework.session import Session
from placement.policy.jobs.batch_jobs import BackedUnit
from placement.policy.jobs.job import OCCUPIES_NODE, Job, Status, Task


def is_apart(session: Session, job: Job, task: Task) -> bool:
    """Whether a member has a job by itself, or is to have one: it came when the gang had its job already.

    That there is a job of its name says nothing: others may have made it.
    """
    unit, tag = session.batch_jobs.units.get(task.uid), session.cache.tags.of.get(task.uid)
    if unit is not None:
        ascribe(session, job, unit)
    if unit is None or tag is not None:
        return tag == task.uid
    return unit.has_own_job if unit.has_own_job is not None else unit.batch_job is not None and unit.owner is not None


def returning(session: Session, job: Job, unit: BackedUnit, together: Sequence[Task]) -> list[Task]:
    """Return members that wait for a job by themselves: a part of the gang's may be free, its node may be back for one.

    Else they would wait for what their own gang has and does not use.
    """
    batch_job = unit.batch_job
    if batch_job is None or not batch_job.runs or batch_job.id == unit.rejected_job:
        return []
    if not any(task.status in OCCUPIES_NODE for task in together):
        return []
    known = set(together)
    waiting = [task for task in job.tasks.values() if task.status is Status.PENDING and task not in known]
    return [task for task in waiting if not _runs(session, task.uid)]


def _runs(session: Session, uid: str) -> bool:
    unit = session.batch_jobs.units.get(uid)
    return unit is not None and unit.batch_job is not None and unit.batch_job.runs


def ascribe(session: Session, job: Job, unit: BackedUnit) -> None:
    """Note which user and queue the unit's jobs belong to."""
    batch_jobs = session.batch_jobs
    batch_jobs.belongs(
        unit, batch_jobs.settings.whose(job.key.namespace, session.cache.namespace_labels(job), job.queue)
    )
