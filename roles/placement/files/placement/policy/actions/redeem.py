# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeping promises: members that wait for victims are bound when there is room, before anybody else is served.

Any node will do by then, not only the promised one. A promise that cannot be kept any more, because an eviction was
refused or a node went away, is given up, and the members wait like all others.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from placement.policy.jobs import Job, Status, Task
from placement.policy.membership import GroupKey
from placement.policy.session import Refused, Session
from placement.state.columns import RESTING


def redeem(session: Session) -> Iterator[None]:
    """The first step of every cycle."""
    for tasks in _provisioning(session):
        _provisioned(session, tasks)
    for job in list(session.book.promised.values()):
        if session.book.jobs.get(job.key) is job:
            _redeem(session, job)
            yield


def _redeem(session: Session, job: Job) -> None:
    tasks = [task for task in job.tasks.values() if task.status is Status.PROMISED]
    if not tasks:
        session.book.promised.pop(job.key, None)
        return
    tasks.sort(key=lambda task: task.key)
    together = job.ready < job.min_member and session.rules.gangs
    if together and job.ready + len(tasks) < job.min_member:
        # The gang has grown, or others of it are gone: room is to be found for all that it needs now.
        _release(session, tasks)
        return
    for group in [tasks] if together else [[task] for task in tasks]:
        statement = session.statement()
        for task in group:
            statement.release(task)
        if session.chooser.place(group, statement) is None:
            statement.commit()
            session.bind(*group)
            continue
        statement.discard()
        broken = next((task for task in group if not _covered(session, task)), None)
        if broken is not None:
            _give_up(session, job, group, broken)


def _provisioning(session: Session) -> list[list[Task]]:
    """Pods that wait for their volumes: by themselves, or with the others of their gang."""
    found: dict[GroupKey, list[Task]] = {}
    for uid in list(session.provisioning):
        task = session.book.tasks.get(uid)
        if task is None or task.status is not Status.ASSUMED:
            del session.provisioning[uid]
        else:
            found.setdefault(task.job.key, []).append(task)
    units: list[list[Task]] = []
    for tasks in found.values():
        units += [tasks] if session.together(tasks[0].job) else [[task] for task in tasks]
    return units


def _provisioned(session: Session, tasks: Sequence[Task]) -> None:
    """Binds pods whose volumes are there; where one cannot be made, or not in time, they wait for a node again."""
    job, volumes = tasks[0].job, session.chooser.volumes
    lacking = any(volumes.waiting(task.pod) for task in tasks)
    unmade = next((text for task in tasks for text in _unmade(session, task)), "")
    if lacking and not unmade and all(session.provisioning[task.uid].until > session.now for task in tasks):
        return
    if unmade:
        session.book.hold(job, session.now)
        session.blocked[job.key] = Refused("ProvisioningFailed", unmade)
    for task in tasks:
        del session.provisioning[task.uid]
    halved = session.together(job) and job.ready < job.min_member
    if lacking or halved or not all(_reached(session, task) for task in tasks):
        # No bind has been sent, so nobody but us can have them there.
        _release(session, tasks)
    else:
        session.bind(*tasks)


def _unmade(session: Session, task: Task) -> Iterator[str]:
    """What cannot be made for the task's node: the claim has changed since that was chosen, and does not name it."""
    before = {claim.uid: claim.version for claim in session.provisioning[task.uid].claims}
    for claim in session.chooser.volumes.waiting(task.pod):
        changed = claim.version > before.get(claim.uid, claim.version)
        if changed and not claim.volume and claim.selected_node != task.node:
            yield f"the volume of claim {claim.namespace}/{claim.name} could not be made for node {task.node}"


def _reached(session: Session, task: Task) -> bool:
    """Whether the volumes, as they were made in the end, can be had on the task's node."""
    row = session.book.cluster.columns.rows.get(task.node)
    allowed = session.chooser.volumes.allowed(task.pod)
    return row is not None and (allowed is None or bool(allowed[row]))


def _release(session: Session, tasks: Sequence[Task]) -> None:
    """The tasks wait for a node again."""
    statement = session.statement()
    for task in tasks:
        statement.release(task)
    statement.commit()


def _give_up(session: Session, job: Job, tasks: list[Task], broken: Task) -> None:
    blockers = [
        f"{entry.pod.namespace}/{entry.pod.name} stays: {session.spared[entry.pod.uid].message}"
        for entry in session.book.cluster.pods.at_node(broken.node)
        if entry.pod.uid in session.spared
    ]
    node = broken.node
    _release(session, tasks)
    why = "; ".join(blockers) or "its room went otherwise"
    session.blocked[job.key] = Refused("EvictionBlocked", f"node {node} was to be made free, but {why}")


def _covered(session: Session, task: Task) -> bool:
    columns = session.book.cluster.columns
    row = columns.rows.get(task.node)
    if row is None:
        return False
    if columns.flags[row] & RESTING:
        # It will be tried again, and for the room there others have left.
        return True
    if not session.chooser.usable(task)[row]:
        return False
    wanted = columns.axis.request(task.pod.request).dense > 0
    left = columns.free[:, row] + columns.releasing[:, row] - columns.nominated[:, row]
    return not np.any(left[wanted] < 0)
