# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeping promises: members that wait for victims are bound when there is room, before any other job is served.

Any node will do by then, not only the promised one; but a queue that has all it may must have been left, too. An
eviction may be refused, a node may go away, or a rule about other pods or volumes may forbid the room that is there.
Then the promise is given up, and the members wait like all others.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from placement.model.objects.volume import PersistentVolume
from placement.model.slicing import Steps, finish, paced, to_the_end
from placement.policy.framework.session import Session, Unplaceable
from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import Job, Status, Task, wanted_by
from placement.state.nodes.node_columns import RESTING

# Tasks that lose their nodes in one step.
_AT_ONCE: Final = 128


def bind_pipelined(session: Session) -> Steps[None]:
    """Bind pipelined tasks whose room is free. This is the first step of every cycle."""
    for tasks in _provisioning(session):
        yield from _provisioned(session, tasks)
    # Free room goes to the highest priority first; among equals, to the job that was promised room first.
    for job in sorted(session.cache.queue.pipelined.values(), key=lambda job: -job.priority):
        if session.cache.jobs.by_key.get(job.key) is job:
            yield from _redeem(session, job)
            yield


def _redeem(session: Session, job: Job) -> Steps[None]:
    tasks = [task for task in job.tasks.values() if task.status is Status.PIPELINED]
    if not tasks:
        session.cache.queue.pipelined.pop(job.key, None)
        return
    tasks.sort(key=lambda task: task.key)
    if job.key in session.cache.admission.read_before_change:
        # It is not known yet whether it may have what is kept for it.
        return
    if job.shut_out:
        # Its queue may be gone, or not be for it any more.
        yield from _release(session, tasks)
        return
    together = job.ready < job.min_member and session.plugins.gangs
    if together and (job.ready + len(tasks) < job.min_member or _lacks_task(job)):
        # The gang has grown, or others of it are gone: room is to be found for all that it needs now.
        yield from _release(session, tasks)
        return
    for number, group in enumerate([tasks] if together else [[task] for task in tasks]):
        if number:
            yield
        # Meanwhile it may have gone, or have been shut out.
        if group[0].status is not Status.PIPELINED or not _may_have(session, job):
            continue
        tried, first = session.promises.setdefault(job.key, {}), group[0].uid
        moment = _moment(session, group)
        if moment is None or tried.get(first) != moment:
            yield from _bind_or_give_up(session, job, group)
            tried[first] = _moment(session, group) if group[0].status is Status.PIPELINED else None


def _may_have(session: Session, job: Job) -> bool:
    """Return whether the job may have what its members were given, as far as that is known."""
    return not job.shut_out and job.key not in session.cache.admission.read_before_change


def _lacks_task(job: Job) -> bool:
    """Return whether the gang must have more members of some task than have a node or are promised room."""
    return job.minimums is not None and job.minimums.missing > 0


def _moment(session: Session, group: list[Task]) -> Hashable | None:
    """Return what is equal as long as trying these tasks again would end as before; None where that is not known."""
    columns, cache = session.cache.cluster.columns, session.cache
    placer = session.placer(group[0].job)
    if any(placer.one_by_one(task) for task in group):
        return None
    rows = {columns.rows.get(task.node, -1) for task in group}
    arrays = (columns.free, columns.releasing, columns.nominated)
    room = tuple(
        (row, int(columns.flags[row]), *(array[:, row].tobytes() for array in arrays))
        for row in sorted(rows)
        if row >= 0
    )
    return (cache.versions.fit, cache.tree, session.refused_evictions, len(group), room)


def _bind_or_give_up(session: Session, job: Job, group: list[Task]) -> Steps[None]:
    tree, wanted = session.cache.tree, wanted_by(group)
    queue = tree.by_name.get(job.queue)
    promised = [task.node for task in group]
    statement = session.statement()
    try:
        for task in group:
            statement.unallocate(task)
        mark = statement.savepoint()
        placer = session.placer(job)
        placed = (yield from placer.place(group, statement)) is None
        if not placed:
            # Where one takes the best node for it, another may have none.
            yield from statement.rollback_to(mark)
            placed = yield from placer.place_at(group, promised, statement)
    except GeneratorExit:
        finish(statement.discard())
        raise
    if placed and not (queue is not None and tree.over_capability_with_leaving(queue, wanted)):
        yield from session.commit_and_bind(statement, group)
        return
    yield from statement.discard()
    broken = next((task.node for task in group if not _covered(session, task)), None)
    spared = [other for uid in session.unevictable if (other := session.cache.jobs.tasks.get(uid)) is not None]
    if broken is not None:
        staying = [other for other in spared if other.node == broken]
        yield from _give_up(session, group, f"node {broken} was to be made free", staying)
    elif queue is not None and tree.over_capability(queue, wanted):
        staying = [other for other in spared if other.queue == job.queue]
        yield from _give_up(session, group, f"queue {queue} was to be left room in", staying)
    elif not placed and all(_left(session, task) for task in group):
        yield from _release(session, group)


def _provisioning(session: Session) -> list[list[Task]]:
    """Pods that wait for their volumes: by themselves, or with the others of their gang."""
    found: dict[GroupKey, list[Task]] = {}
    for uid in list(session.provisioning):
        task = session.cache.jobs.tasks.get(uid)
        if task is None or task.status is not Status.ALLOCATED:
            del session.provisioning[uid]
        else:
            found.setdefault(task.job.key, []).append(task)
    units: list[list[Task]] = []
    for tasks in found.values():
        units += [tasks] if session.binds_as_gang(tasks[0].job) else [[task] for task in tasks]
    return units


def _provisioned(session: Session, tasks: Sequence[Task]) -> Steps[None]:
    """Bind pods whose volumes are there. If a volume cannot be made in time, or if the node has changed since it was
    chosen, they wait for a node again.
    """
    job, volumes = tasks[0].job, session.cache.cluster.volumes
    if job.key in session.cache.admission.read_before_change:
        return
    if job.shut_out:
        # Without its group it is not known how many members must start together.
        for task in tasks:
            del session.provisioning[task.uid]
        yield from _release(session, tasks)
        return
    here = all(task.node in session.cache.cluster.columns.rows for task in tasks)
    lacking = any(volumes.waiting(task.pod) for task in tasks)
    unmade = next((text for task in tasks for text in _unmade(session, task)), "")
    if lacking and here and not unmade and all(session.provisioning[task.uid].until > session.now for task in tasks):
        return
    if unmade:
        session.cache.queue.back_off(job, session.now)
        session.set_back(job, Unplaceable("ProvisioningFailed", unmade))
    tags = [session.provisioning.pop(task.uid).tag for task in tasks]
    incomplete = session.binds_as_gang(job) and (job.ready < job.min_member or _lacks_task(job))
    if lacking or incomplete or not all(session.feasibility.stands(task) for task in tasks):
        # No bind has been sent, so only this scheduler counts them there.
        yield from _release(session, tasks)
    else:
        for task, tag in zip(tasks, tags, strict=True):
            finish(session.bind(task, tag=tag))


def _unmade(session: Session, task: Task) -> Iterator[str]:
    """Yield claims that were made again, volumes that others have got, and what cannot be made for the task's node. In
    the last case the claim has changed since the node was chosen, and does not name it.
    """
    before = {claim.uid: claim.version for claim in session.provisioning[task.uid].claims}
    chosen = dict(task.entry.plan.volumes)
    for claim in session.cache.cluster.volumes.waiting(task.pod):
        name = chosen.get(claim.uid, "")
        if claim.uid not in before and not claim.volume:
            yield f"claim {claim.namespace}/{claim.name} was made again"
        elif name:
            volume = session.cache.cluster.objects.find(PersistentVolume, name)
            if volume is None or volume.claim_uid not in ("", claim.uid):
                yield f"volume {name} for claim {claim.namespace}/{claim.name} went to another, or is gone"
        elif not claim.volume and claim.version > before[claim.uid] and claim.selected_node != task.node:
            yield f"the volume of claim {claim.namespace}/{claim.name} could not be made for node {task.node}"


def _release(session: Session, tasks: Sequence[Task]) -> Steps[None]:
    """Let the tasks wait for a node again, in steps."""
    return to_the_end(_unallocated(session, tasks))


def _unallocated(session: Session, tasks: Sequence[Task]) -> Steps[None]:
    statement = session.statement()
    for task, pause in paced(tasks, _AT_ONCE):
        statement.unallocate(task)
        if pause:
            yield
    yield from statement.commit()


def _give_up(session: Session, tasks: list[Task], what: str, staying: Sequence[Task]) -> Steps[None]:
    yield from _release(session, tasks)
    job = tasks[0].job
    if not staying:
        session.set_back(job, Unplaceable("EvictionBlocked", f"{what}, but its room went otherwise"))
        return
    blockers = "; ".join(f"{task} stays: {session.unevictable[task.uid].message}" for task in staying)
    session.blocked[job.key] = Unplaceable("EvictionBlocked", f"{what}, but {blockers}")


def _covered(session: Session, task: Task) -> bool:
    """Whether the task's promise has room, or will have it when others have left."""
    columns = session.cache.cluster.columns
    row = columns.rows.get(task.node)
    if row is None:
        return False
    if columns.flags[row] & RESTING:
        # It will be tried again, and for the room there others have left.
        return True
    return bool(session.feasibility.usable(task)[row]) and session.feasibility.has_room(task, leaving=True)


def _left(session: Session, task: Task) -> bool:
    """Whether the room that is promised to the task is there already."""
    columns = session.cache.cluster.columns
    return not columns.flags[columns.rows[task.node]] & RESTING and session.feasibility.has_room(task)
