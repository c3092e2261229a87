# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which members of a gang have a job by themselves, and which of those may go back to the gang's own."""

from collections.abc import Sequence

from placement.policy.backing import Unit
from placement.policy.jobs import HOLDING, Job, Status, Task
from placement.policy.session import Session


def is_apart(session: Session, job: Job, task: Task) -> bool:
    """Whether a member has a job by itself, or is to have one: it came when the gang had its job already.

    That there is a job of its name says nothing: others may have made it.
    """
    unit, tag = session.backing.units.get(task.uid), session.book.tags.of.get(task.uid)
    if unit is not None:
        ascribe(session, job, unit)
    if unit is None or tag is not None:
        return tag == task.uid
    return unit.apart if unit.apart is not None else unit.job is not None and unit.whose is not None


def returning(session: Session, job: Job, unit: Unit, together: Sequence[Task]) -> list[Task]:
    """Members who wait for a job by themselves: a part of the gang's may be free, its node may be back for one.

    Else they would wait for what their own gang has and nobody uses.
    """
    batch = unit.job
    if batch is None or not batch.runs or batch.job == unit.refused:
        return []
    if not any(task.status in HOLDING for task in together):
        return []
    known = set(together)
    waiting = [task for task in job.tasks.values() if task.status is Status.PENDING and task not in known]
    return [task for task in waiting if not _runs(session, task.uid)]


def _runs(session: Session, uid: str) -> bool:
    unit = session.backing.units.get(uid)
    return unit is not None and unit.job is not None and unit.job.runs


def ascribe(session: Session, job: Job, unit: Unit) -> None:
    """Says whose the unit's jobs are."""
    backing = session.backing
    backing.belongs(unit, backing.rules.whose(job.key.namespace, session.book.namespace_labels(job), job.queue))
