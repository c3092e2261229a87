# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gangs bound in part: where bindings failed for good, those that are bound leave after a while, and the gang waits.

Until then the others are tried again, first of all. A volume that is being made for a member is waited for, but no
second one when that fails. Only a gang that has never been whole does nothing yet. One that
has lost a member works on what is left or ends by itself, so it is left alone.
"""

from typing import Final

from placement.model.messages.action import Evict
from placement.model.slicing import Steps, paced, to_the_end
from placement.policy.framework.session import Session, Unplaceable
from placement.policy.jobs.job import Job
from placement.policy.preemption.candidates import evictable

REASON: Final = "HalfBound"
# Members that are evicted in one step.
_AT_ONCE: Final = 128


def evict_partial_gangs(session: Session) -> Steps[None]:
    """Evict gangs that stay bound in part. This runs in every cycle, before anything is placed."""
    cache = session.cache
    for key, job in list(cache.queue.partial.items()):
        if not job.partial or cache.jobs.by_key.get(key) is not job:
            del cache.queue.partial[key]
            session.deadlines.pop(key, None)
            continue
        late = session.deadlines.setdefault(key, session.now + session.partial_gang_seconds) <= session.now
        # Bindings under way may still make it whole.
        if late and job.ready < job.min_member and session.plugins.gangs and not _is_provisioning(session, job):
            yield from to_the_end(_withdraw(session, job))
            yield
    # Those that are gone with their last pod.
    for key in session.deadlines.keys() - cache.queue.partial.keys():
        del session.deadlines[key]


def _is_provisioning(session: Session, job: Job) -> bool:
    """Return whether a member waits for a volume that is being made; this ends after `PROVISIONING` at the latest."""
    return bool(session.provisioning) and any(uid in session.provisioning for uid in job.tasks)


def _withdraw(session: Session, job: Job) -> Steps[None]:
    leaving = [task for task in job.tasks.values() if evictable(session, task)]
    if not leaving:
        return
    number = f"{job.ready} of {job.min_member} members"
    message = f"{job} has had {number} bound for {session.partial_gang_seconds:g} s and has never been whole"
    session.evicted_partials[job.key] = why = Unplaceable(REASON, message)
    session.set_back(job, why)
    statement = session.statement()
    for task, pause in paced(leaving, _AT_ONCE):
        statement.evict(task)
        pod = task.pod
        session.actions.append(
            Evict(uid=pod.uid, namespace=pod.namespace, name=pod.name, reason=REASON, message=message)
        )
        if pause:
            yield
    yield from statement.commit()
