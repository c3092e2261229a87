# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""reserve: choose the nodes that are kept for the heads of queues (see `reservations`).

A place is room for one member of the head on one node. First come places that are free, then those that are free at a
known time, the soonest first, then those that are kept already, then those that lack the least. Heads that come first
choose first, and what they keep is not there for the others. A head that does not fit on its nodes even if all pods of
ours had ended keeps nothing, and the next job of its queue is the head. Pods of DaemonSets, static pods and those of
other schedulers are taken to stay.

Rules about other pods and volumes are asked as things stand when the nodes are chosen.
"""

from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heapreplace
from itertools import islice
from math import inf, log2
from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.model.objects.pod import GRACE
from placement.model.slicing import Steps, paced
from placement.policy.framework.session import Session
from placement.policy.jobs.job import Job, Task, alike, wanted_by
from placement.policy.queues.reservations import NO_SHADOW, Head, Kept, QueuePath, Reservation, path_of, sum_up
from placement.state.nodes.node_filters import Bools
from placement.state.pods.pod_table import PodEntry

# Seconds between two looks, and until a head is looked at again that was passed over, or has not waited long enough.
_INTERVAL: Final = 1.0
_VAIN: Final = 30.0
_AGAIN: Final = 10.0
# So often a head is tried that has room as far as can be seen.
_TRIES: Final = 3
# So many heads have nodes chosen for them in one look; and of so many places a second they are chosen again.
_HEADS: Final = 8
_PLACES: Final = 64
# So many nodes, at least, are looked at in one go for the pods that have to end there.
_NODES: Final = 64
# So many waiting jobs are looked through in one step for the next heads.
_PARKED: Final = 512

Int64s = NDArray[np.int64]


def reserve(session: Session) -> Steps[None]:
    """Choose the nodes that are kept for heads, at most once a second; a step of every cycle before jobs are placed."""
    kept, cache = session.reservations, session.cache
    if not (kept.heads or kept.active or kept.passed_over or kept.to_seek):
        return
    _hold(session, kept.active)
    if session.now < kept.next_look:
        return
    kept.next_look, kept.due = session.now + _INTERVAL, inf
    for name in [name for name, head in kept.heads.items() if not _waits(session, name, head.job)]:
        del kept.heads[name]
    yield from _seek_heads(session)
    kept.queue_paths = _paths(session)
    if len(kept.pod_ends) > len(cache.jobs.tasks):
        kept.pod_ends.clear()
    found: list[Reservation] = []
    changed, chosen = False, 0
    for head in sorted(kept.heads.values(), key=lambda head: _precedence(session, head.job)):
        before = kept.of(head.job)
        if changed:
            # A head that comes before it may have chosen the same nodes.
            head.next_look = session.now
        if session.now >= head.next_look and chosen < _HEADS and not _is_gone(session, head.job):
            chosen += 1
            after = yield from _choose(session, head, before, sum_up(item.nodes for item in found))
            changed = changed or (after.nodes if after else {}).keys() != (before.nodes if before else {}).keys()
            before = after
        gone = _is_gone(session, head.job) or kept.heads.get(head.job.queue) is not head
        if before is None and not gone and (left := kept.reserve_after - kept.waited(head.job)) > 0:
            kept.due = min(kept.due, session.now + left)
        if head.job.key in kept.vain and not gone:
            kept.due = min(kept.due, max(head.next_look, kept.next_look))
        before = before or (kept.of(head.former) if head.former is not None else None)
        if before is not None:
            found.append(before)
    _hold(session, found)


def _seek_heads(session: Session) -> Steps[None]:
    """Note the first job of each queue whose head was passed over or comes later now.

    Jobs that were passed over are noted again, but only once their queue has a head that lacks nothing but room, or no
    other job that may be one.
    """
    kept, cache = session.reservations, session.cache
    for name, first in kept.heads.items():
        if first.job.order > first.order:
            kept.to_seek.add(name)
        first.order = first.job.order
    sought, kept.to_seek = kept.to_seek, set()
    if sought:
        for job, pause in paced(list(cache.queue.unschedulable.values()), _PARKED):
            if pause:
                yield
            if job.queue in sought and _lacks_room(session, job):
                kept.note(job)
    for key, until in list(kept.passed_over.items()):
        known = cache.jobs.by_key.get(key)
        head = kept.heads.get(known.queue) if known is not None else None
        if until <= session.now and (head is None or head.judged):
            del kept.passed_over[key]
            if known is not None and _lacks_room(session, known):
                kept.note(known)


def _lacks_room(session: Session, job: Job) -> bool:
    """Return whether the job waits because nodes refused it when it was last tried."""
    refused = session.refusals.get(job.key)
    parked = session.cache.queue.unschedulable.get(job.key) is job
    return parked and refused is not None and refused.nodes is not None


def reserve_at_once(session: Session, job: Job) -> Steps[None]:
    """Choose nodes for a new head that has waited long enough, before jobs behind it are placed.

    A daemon that takes over begins with such heads. Each queue has this once a second.
    """
    kept = session.reservations
    head = kept.heads.get(job.queue)
    if head is None or head.job is not job or session.now < kept.chosen_at.get(job.queue, -inf) + _INTERVAL:
        return
    if kept.waited(job) < kept.reserve_after or not _waits(session, job.queue, job):
        return
    kept.queue_paths = kept.queue_paths or _paths(session)
    others = [item for item in kept.active if item.job.queue != job.queue]
    found = yield from _choose(session, head, kept.of(job), sum_up(item.nodes for item in others))
    if found is not None:
        _hold(session, [*others, found])


def _hold(session: Session, found: Sequence[Reservation]) -> None:
    """Hold what is kept for jobs that are still heads; jobs that were refused because of others are tried again."""
    kept = session.reservations
    found = tuple(_paused_or_not(session, item) for item in found if _stands(session, item, found))
    if kept.hold(found):
        session.cache.versions.room += 1


def _paused_or_not(session: Session, item: Reservation) -> Reservation:
    """Return the reservation as the share of its queue is now."""
    paused = session.plugins.overused(session.cache.tree.by_name[item.job.queue])
    return item if paused == item.paused else replace(item, paused=paused)


def _paths(session: Session) -> dict[str, QueuePath]:
    return {queue.name: path_of(queue) for queue in session.cache.tree.by_name.values()}


def _stands(session: Session, item: Reservation, found: Sequence[Reservation]) -> bool:
    """Return whether the reservation is that of a head, or of the job that was the head before one without any."""
    heads, job = session.reservations.heads, item.job
    head = heads.get(job.queue)
    if head is None or not _waits(session, job.queue, job):
        return False
    if head.job is not job and head.former is job and not _waits(session, job.queue, head.job):
        head = heads[job.queue] = Head(job)
    return head.job is job or (head.former is job and all(other.job is not head.job for other in found))


def _is_gone(session: Session, job: Job) -> bool:
    """Return whether an event took the job away between two steps; nothing is noted of such a job."""
    return session.cache.jobs.by_key.get(job.key) is not job


def _waits(session: Session, name: str, job: Job) -> bool:
    """Return whether the job waits in the queue of this name, and for room alone."""
    cache, queue = session.cache, session.cache.tree.by_name.get(name)
    if queue is None or queue.record.backed or _is_gone(session, job) or job.queue != name:
        return False
    apart = job.key in cache.queue.backoff or job.key in cache.queue.gated
    return bool(job.pending) and not apart and cache.admission.admits(job) and cache.queue.has_min_member(job)


def _precedence(session: Session, job: Job) -> tuple[object, ...]:
    """Return the key of a head among heads: those of a higher priority first, then those that keep nodes."""
    kept = session.reservations
    queue_path = kept.queue_paths.get(job.queue, ())
    since = kept.waiting_since.get(job.key, session.now)
    return (tuple(-priority for _name, priority in queue_path), -job.priority, kept.of(job) is None, since, job.queue)


def _choose(session: Session, head: Head, before: Reservation | None, taken: Kept) -> Steps[Reservation | None]:
    """Choose what is kept for a head beside what is taken by others; None where nothing is to be kept."""
    kept, cache, job = session.reservations, session.cache, head.job
    needed = session.plugins.needed(job)
    tasks = job.next_tasks(needed)
    for task in tasks:
        job.wait(task)
    queue = cache.tree.by_name.get(job.queue)
    head.next_look, kept.chosen_at[job.queue] = session.now + _VAIN, session.now
    if len(tasks) < needed or queue is None or cache.tree.limit(queue, wanted_by(tasks), cache.total):
        _pass_over(session, job)
        return None
    waited = kept.waited(job)
    more = max(0, int(log2(max(1.0, waited / kept.reserve_after))))
    best: tuple[float, Kept] | None = None
    # A job that must be within one rack has its nodes kept there: in the one that can be had first.
    for within in session.placer(job).domains(tasks[0]) or (None,):
        found = yield from _nodes(session, tasks, more, before, taken, within)
        if found is not None and (best is None or _earlier(found, best, before)):
            best = found
        yield
    if _is_gone(session, job):
        return None
    if best is None:
        _pass_over(session, job)
        return None
    shadow, nodes = best
    free = shadow <= session.now
    head.next_look = session.now + max(_INTERVAL, len(nodes) / _PLACES, len(kept.heads) / _HEADS)
    if free:
        # It fits, as far as can be seen from here, and is tried again whatever it was tried against before.
        job.unschedulable_at = -1
        cache.queue.push(job)
        kept.vain[job.key] = kept.vain.get(job.key, 0) + 1
    else:
        kept.vain.pop(job.key, None)
    if kept.vain.get(job.key, 0) > _TRIES:
        # It has been tried: what it lacks is not room.
        _pass_over(session, job)
        return None
    head.judged = not free
    # Room that is about to be free is mostly that of pods which leave for somebody.
    soon = free or (before is None and shadow <= session.now + GRACE)
    if waited < kept.reserve_after and (soon or shadow == inf):
        head.next_look = session.now + min(max(_INTERVAL, kept.reserve_after - waited), _AGAIN)
        return None
    shadow = NO_SHADOW if shadow == inf else shadow
    queue_path = kept.queue_paths.get(job.queue, ())
    if before is not None:
        return replace(before, queue_path=queue_path, shadow=shadow, nodes=nodes)
    return Reservation(job=job, queue_path=queue_path, since=session.now, shadow=shadow, nodes=nodes)


def _pass_over(session: Session, job: Job) -> None:
    """Have the next job of the queue be its head, and look for it soon although nothing else happens."""
    kept = session.reservations
    kept.pass_over(job, session.now + _VAIN)
    kept.due = min(kept.due, kept.next_look)


def _earlier(found: tuple[float, Kept], best: tuple[float, Kept], before: Reservation | None) -> bool:
    """Return whether these nodes can be had before the best ones so far; of equal ones those that are kept already."""
    old = before.nodes.keys() if before is not None else ()
    return (found[0], found[1].keys() != old) < (best[0], best[1].keys() != old)


def _nodes(
    session: Session, tasks: Sequence[Task], more: int, before: Reservation | None, taken: Kept, within: Bools | None
) -> Steps[tuple[float, Kept] | None]:
    """Find nodes for all tasks, on these rows or on all; return when they can be had, now at the earliest."""
    nodes: Kept = {}
    shadow = session.now
    for group in _classes(tasks):
        places = yield from _places(session, group[0], len(group), more, before, sum_up((taken, nodes)), within)
        if places is None:
            return None
        end, at = places
        shadow = max(shadow, end)
        vector = session.cache.cluster.columns.axis.request(group[0].pod.request).dense
        nodes = sum_up((nodes, *({name: vector} for name in at)))
    return shadow, nodes


def _per_node(task: Task) -> int:
    """Return how many such pods are asked for on each node, by their sub-group or else by their group; 0 for any."""
    own, group = task.pod.spec.topology, task.job.group
    of_group = group.topology if group is not None else None
    return (own.per_node if own is not None else 0) or (of_group.per_node if of_group is not None else 0)


def _classes(tasks: Sequence[Task]) -> list[list[Task]]:
    """Return the tasks by what they ask for, in order."""
    found: list[list[Task]] = []
    for task in tasks:
        # Members that are alike mostly follow each other.
        group = next((group for group in reversed(found) if alike(group[0], task)), None)
        if group is None:
            found.append([task])
        else:
            group.append(task)
    return found


def _places(
    session: Session,
    task: Task,
    number: int,
    more: int,
    before: Reservation | None,
    taken: Kept,
    within: Bools | None = None,
) -> Steps[tuple[float, list[str]] | None]:
    """Find places for so many equal tasks, and a few more.

    Return when the last of the number can be had, inf where that is not known, and the nodes of all places; None where
    there are too few.
    """
    columns, feasibility = session.cache.cluster.columns, session.feasibility
    vector = columns.axis.request(task.pod.request)
    if vector.unknown:
        return None
    allowed = feasibility.usable(task) & np.logical_and.reduce(columns.allocatable[: len(vector.least)] >= vector.least)
    if within is not None:
        allowed = allowed & within
    by_rules = feasibility.by_rules(task)
    rows = np.flatnonzero(allowed if by_rules is None else allowed & by_rules)
    asked = np.flatnonzero(vector.dense)
    wanted = vector.dense[asked]
    most = 1 if feasibility.exclusive(task.pod.spec) or session.host_selector.one_by_one(task) else number
    most = min(most, _per_node(task) or most)
    room = columns.unpromised[np.ix_(asked, rows)]
    old = np.zeros(columns.capacity, np.bool_)
    for name in before.nodes if before is not None else ():
        if name in columns.rows:
            old[columns.rows[name]] = True
    place_of = np.full(columns.capacity, -1)
    place_of[rows] = np.arange(len(rows))
    for name, amounts in taken.items():
        place = place_of[columns.rows[name]] if name in columns.rows else -1
        if place >= 0:
            room[:, place] -= np.pad(amounts, (0, len(columns.axis) - len(amounts)))[asked]
    free = np.clip((room // wanted[:, None]).min(axis=0), 0, most) if len(rows) else np.zeros(0, np.int64)
    names: list[str] = []
    for index in np.lexsort((-free, ~old[rows], free == 0)).tolist():
        if not free[index] or len(names) == number + more:
            break
        names += [_name(session, int(rows[index]))] * min(int(free[index]), number + more - len(names))
    if len(names) == number + more:
        return session.now, names
    offered = np.maximum(columns.allocatable[np.ix_(asked, rows)], 1)
    lacking = ((free + 1) * wanted[:, None] - room).clip(0) / offered
    order = np.lexsort((lacking.max(axis=0), ~old[rows])).tolist() if len(rows) else []
    soon = yield from _soonest(session, task, number + more - len(names), order, rows, old, free, room, most)
    if len(names) + len(soon) < number:
        return None
    end = session.now if len(names) >= number else soon[number - len(names) - 1][0]
    return end, [*names, *(_name(session, row) for _end, row in soon)]


def _soonest(
    session: Session,
    task: Task,
    number: int,
    order: Sequence[int],
    rows: NDArray[np.intp],
    old: Bools,
    free: Int64s,
    room: Int64s,
    most: int,
) -> Steps[list[tuple[float, int]]]:
    """Return the time and the row of so many places that others have to leave first, or of all there are."""
    axis = session.cache.cluster.columns.axis
    vector = axis.request(task.pod.request).dense
    asked = np.flatnonzero(vector)
    heap: list[tuple[float, bool, int, list[float]]] = []
    waiting = iter(order)
    there = 0
    while there < number and (some := list(islice(waiting, max(_NODES, 2 * number)))):
        for rank, index in enumerate(some, there):
            row = int(rows[index])
            times = yield from _times(session, row, asked, vector[asked], room[:, index], int(free[index]), most)
            if times:
                there += len(times)
                heap.append((times[0], not old[row], rank * len(rows) + index, times))
    heapify(heap)
    found: list[tuple[float, int]] = []
    while heap and len(found) < number:
        _end, new, place, times = heap[0]
        found.append((times.pop(0), int(rows[place % len(rows)])))
        if times:
            heapreplace(heap, (times[0], new, place, times))
        else:
            heappop(heap)
    return found


def _times(
    session: Session, row: int, asked: NDArray[np.intp], wanted: Int64s, room: Int64s, free: int, most: int
) -> Steps[list[float]]:
    """Return when each further place of a row can be had, in order; inf where that is not known."""
    cluster, effort = session.cache.cluster, session.effort
    node = cluster.columns.nodes[row]
    entries = list(cluster.pods.at_node(node.name)) if node is not None else []
    effort.spend(1 + len(entries))
    if effort.is_due():
        yield
    ending = [(end, entry) for entry in entries if entry.charged and (end := _end(session, entry)) is not None]
    times: list[float] = []
    left = room.copy()
    for end, entry in sorted(ending, key=lambda item: item[0]):
        left += cluster.columns.axis.request(entry.pod.request).dense[asked]
        fitting = min(int((left // wanted).min()), most)
        times += [end] * (fitting - free - len(times))
    return times


def _end(session: Session, entry: PodEntry) -> float | None:
    """Return when a pod ends at the latest, inf where that is not known; None for pods that are taken to stay.

    A pod that leaves, or that is there past its end, is taken to be gone a while after the look that finds it so.
    """
    kept, pod, now = session.reservations, entry.pod, session.now
    task = session.cache.jobs.tasks.get(pod.uid)
    ends = [now] if entry.leaving else []
    if not ends and (pod.mirror or pod.daemon):
        return None
    if pod.spec.longest < inf:
        began = kept.monotonic(pod.started)
        ends.append((now if began is None else min(now, began)) + pod.spec.longest)
    known = kept.pod_ends.get(pod.uid, inf)
    if ends or known > now:
        # A bound that has passed is not taken for a later one: jobs that pass the head would make it wait ever longer.
        ends.append(known)
    end = min((end if end > now else now + GRACE for end in ends), default=inf)
    if end < inf:
        kept.pod_ends[pod.uid] = end
    batch = session.batch_jobs.job_of(task) if task is not None and session.batch_jobs.units else None
    if batch is not None and batch.left is not None:
        # The batch system may give its job more time, so this is not remembered.
        left = session.batch_jobs.read + batch.left
        end = min(end, left if left > now else now + GRACE)
    return end if end < inf or task is not None else None


def _name(session: Session, row: int) -> str:
    node = session.cache.cluster.columns.nodes[row]
    return node.name if node is not None else ""
