# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reservations: nodes that are kept for the job at the head of a queue, so that small jobs do not starve it. Pure.

The head of a queue is the first of its jobs that lacks nothing but room: its queue admits it, and may hold what it asks
for. While the queue has all that it deserves, nothing is kept for it from other queues. The action `reserve` chooses
the nodes on which the head can start first. What is kept there is what the head asks for, not the whole node. A job
behind the head gets room on such a node only if enough is left for the head, or if the job ends before the head can
start. This is EASY backfilling, as in Slurm and Flux.

The time at which the head can start is its shadow time. It is known if all pods that have to end first have a known
end: pods with `activeDeadlineSeconds`, and pods that a job of the batch system backs. Then the reservation holds at
once. Otherwise it holds once the head has waited for `reserve_after` of the settings, and no job behind the head gets
what it keeps.

A job that could not have its nodes even if all pods of ours had ended, or that is refused nodes with room, lacks more
than room. It is passed over: the next job of its queue is the head. Later it is looked at again, and until then the
other keeps its nodes. No such job is looked at twice before a head is found that lacks nothing but room.

A reservation is never stored. It follows from the pods, the nodes and the time at which the first waiting pod of the
head was created, so a daemon that takes over makes it again. The nodes stay the same as long as the head can use them.
Their pods only end, so the head starts at the latest when the longest of these has ended. A node is given up for one
that the head can have sooner, and for no other. If pods never end, more nodes are kept as time goes on: one more after
twice that time, two more after four times that time.

A job that comes before the head is not bound. It is before it in its queue, or, in another queue, it has a queue or a
priority above the head's. Pods of DaemonSets are not bound. Other schedulers know nothing of reservations.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import Job, Task
from placement.policy.queues.queue import QueueInfo
from placement.state.nodes.node_columns import NodeColumns
from placement.state.nodes.node_filters import Bools

# Seconds that a head waits before nodes are kept for it whose pods have no known end.
RESERVE_AFTER: Final = 300.0
# The shadow time of a head where that is not known: no job ends before it.
NO_SHADOW: Final = -inf
# Seconds by which wall clock and monotonic clock may part before the times of the API are told anew.
_JITTER: Final = 1.0

# Names and priorities of a queue and of those above it, the topmost first.
QueuePath = tuple[tuple[str, int], ...]
# What is kept, over the resource axis, by the name of the node.
Kept = dict[str, NDArray[np.int64]]
Rows = NDArray[np.intp]


@dataclass(slots=True)
class Refused:
    """What comes nearest to being let in, of all jobs that were refused room because of one reservation."""

    # The earliest end of any of them, and the first order of those in the queue of the head.
    end: float = inf
    order: tuple[object, ...] | None = None
    # The highest rank of those in other queues.
    rank: tuple[int, int] | None = None


@dataclass(slots=True, eq=False)
class Reservation:
    """What is kept for one head. Times are monotonic seconds. Only `refused` ever changes: another is made instead."""

    job: Job
    queue_path: QueuePath
    since: float
    shadow: float
    nodes: Kept
    # Whether the queue of the head has all that it deserves for now: then nothing is kept from other queues.
    paused: bool = False
    # Jobs that were refused room because of it; None if none was.
    refused: Refused | None = None

    def binds(self, job: Job, queue_path: QueuePath) -> bool:
        """Return whether this job, in the queue of this path, is behind the head."""
        if job is self.job or not self.job.pending:
            return False
        if job.queue == self.job.queue:
            return job.order > self.job.order
        return not self.paused and self._rank(job, queue_path) <= (0, self.job.priority)

    def _rank(self, job: Job, queue_path: QueuePath) -> tuple[int, int]:
        """Return how far its queue is above the head's, and the job's priority."""
        pairs = zip(queue_path, self.queue_path, strict=False)
        return next((theirs[1] - own[1] for theirs, own in pairs if theirs != own), 0), job.priority

    def refuse(self, job: Job, queue_path: QueuePath, end: float) -> None:
        """Take note that a job in the queue of this path, which ends at this time at the latest, was refused room."""
        refused = self.refused = self.refused or Refused()
        refused.end = min(refused.end, end)
        if job.queue == self.job.queue:
            refused.order = job.order if refused.order is None else min(refused.order, job.order)
        else:
            rank = self._rank(job, queue_path)
            refused.rank = rank if refused.rank is None else max(refused.rank, rank)

    def gives_back(self, later: "Reservation | None") -> bool:
        """Return whether a job that was refused may have room beside the reservation that follows, if any does.

        That may be the same one, whose head comes later in its queue by now.
        """
        refused = self.refused
        if refused is None:
            return False
        if later is None or (later.paused and not self.paused) or refused.end <= later.shadow:
            return True
        if refused.order is not None and refused.order < later.job.order:
            return True
        if refused.rank is not None and refused.rank > (0, later.job.priority):
            return True
        return later is not self and any(_is_less(later.nodes.get(name), kept) for name, kept in self.nodes.items())


@dataclass(slots=True)
class Head:
    """The first job of a queue that was refused for lack of room, and when nodes are chosen for it again.

    The job that was the head before and keeps nodes goes on doing so until they are chosen for this one. Mostly that
    gets its room first, and then the other is the head again.
    """

    job: Job
    next_look: float = -inf
    former: Job | None = None
    # Whether the last look found that it lacks nothing but room.
    judged: bool = False
    # The order of the job when that was last looked at.
    order: tuple[object, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.order = self.job.order


class Reservations:
    """All heads, and what is kept for them."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self.reserve_after = RESERVE_AFTER
        # Monotonic seconds, and the seconds since 1970 at which they began; None if that is not known.
        self.now = 0.0
        self.epoch: float | None = None
        # By the name of the queue.
        self.heads: dict[str, Head] = {}
        self.queue_paths: dict[str, QueuePath] = {}
        # When nodes were last chosen for a head of the queue.
        self.chosen_at: dict[str, float] = {}
        # Since when jobs have waited that have been heads.
        self.waiting_since: dict[GroupKey, float] = {}
        # Jobs that were passed over as heads, and until when at least; queues whose head is to be sought among all.
        self.passed_over: dict[GroupKey, float] = {}
        self.to_seek: set[str] = set()
        # How often in a row there was room for a head although it was refused.
        self.vain: dict[GroupKey, int] = {}
        self.active: tuple[Reservation, ...] = ()
        # The earliest bound that was found of the end of a running pod, without that of its batch job, by UID.
        self.pod_ends: dict[str, float] = {}
        # When the heads are looked at again; when one of them has waited long enough, and when one that `enqueue` keeps
        # out has.
        self.next_look = -inf
        self.due = inf
        self.due_outside = inf
        # What reservations keep together, by row, and the generation of the nodes for which these are the rows.
        self._sums: dict[tuple[int, ...], tuple[Rows, NDArray[np.int64]]] = {}
        self._summed_at = -1

    def note(self, job: Job) -> None:
        """Take note that a job was refused for lack of room: it may be the head of its queue."""
        if job.key in self.passed_over:
            return
        head = self.heads.get(job.queue)
        known = [one for one in (head.job, head.former) if one is not None and one.pending] if head is not None else []
        if known and (known[0] is job or known[0].order < job.order):
            return
        keeping = next((one for one in known if one is not job and self.of(one) is not None), None)
        self.heads[job.queue] = Head(job, former=keeping)
        self.waiting_since.setdefault(job.key, self.now)

    def pass_over(self, job: Job, until: float) -> None:
        """Have another job be the head, until this time and as long as none is found that lacks nothing but room."""
        head = self.heads.get(job.queue)
        if head is None or head.job is not job:
            return
        self.passed_over[job.key] = until
        if head.former is not None and head.former.pending and self.of(head.former) is not None:
            self.heads[job.queue] = Head(head.former)
        else:
            del self.heads[job.queue]
            self.to_seek.add(job.queue)

    def waited(self, job: Job) -> float:
        """Return the seconds since the job became a head, or since its first waiting pod was created, the longer."""
        since, first = self.waiting_since.setdefault(job.key, self.now), job.peek()
        created = self.monotonic(first.pod.created if first is not None else job.created)
        return self.now - (since if created is None else min(since, created))

    def set_epoch(self, epoch: float) -> bool:
        """Go by this value from now on; return whether it differs from the former by more than the clock's jitter."""
        if self.epoch is not None and abs(epoch - self.epoch) < _JITTER:
            return False
        self.epoch = epoch
        # Ends were told by the former value, and the earliest is kept.
        self.pod_ends.clear()
        return True

    def monotonic(self, timestamp: str) -> float | None:
        """Return a timestamp of the API in monotonic seconds; None if it cannot be known."""
        if not timestamp or self.epoch is None:
            return None
        try:
            return datetime.fromisoformat(timestamp).timestamp() - self.epoch
        except ValueError:
            return None

    def hold(self, found: Iterable[Reservation]) -> bool:
        """Hold these reservations from now on; return whether jobs that were refused before may have room now."""
        before, self.active = self.active, tuple(found)
        if self.active != before:
            self._sums.clear()
        followers = {item.job: item for item in self.active}
        freed = False
        for item in before:
            later = followers.get(item.job)
            back = item.gives_back(later)
            freed = freed or back
            if later is not None:
                later.refused = None if back else item.refused
        return freed

    def forget(self) -> None:
        """Forget all heads and reservations: jobs are about to be ordered otherwise."""
        self.heads.clear()
        self.passed_over.clear()
        self.vain.clear()
        self.to_seek.clear()
        self.hold(())
        self.due = self.due_outside = inf

    def is_due(self) -> bool:
        """Return whether a job has waited long enough by now, although nothing else has happened."""
        return min(self.due, self.due_outside) <= self.now

    def binding(self, task: Task, end: float = inf) -> tuple[Reservation, ...]:
        """Return the reservations that the task, which ends at this time at the latest, must leave enough for."""
        if not self.active or task.pod.daemon:
            return ()
        job, end = task.job, min(end, self.now + task.pod.spec.longest)
        queue_path = self.queue_paths.get(job.queue, ())
        return tuple(item for item in self.active if end > item.shadow and item.binds(job, queue_path))

    def mask(self, task: Task, end: float = inf) -> Bools | None:
        """Return the rows that have enough left for the heads once the task is there; None means all."""
        bound = self.binding(task, end)
        if not bound:
            return None
        rows, kept = self._sum(bound)
        columns = self._columns
        # What is not asked for is less than anything, so it is enough everywhere.
        least = columns.axis.request(task.pod.request).least[: len(kept)]
        enough = np.logical_and.reduce(
            columns.unpromised[: len(least)].take(rows, axis=1) >= kept[: len(least)] + least
        )
        if not enough.all():
            job, end = task.job, min(end, self.now + task.pod.spec.longest)
            for item in bound:
                item.refuse(job, self.queue_paths.get(job.queue, ()), end)
        allowed = np.ones(columns.capacity, np.bool_)
        allowed[rows] = enough
        return allowed

    def untouched(self, task: Task) -> Bools | None:
        """Return the rows on which nothing is kept that the task must leave; None means all."""
        bound = self.binding(task)
        if not bound:
            return None
        allowed = np.ones(self._columns.capacity, np.bool_)
        allowed[self._sum(bound)[0]] = False
        return allowed

    def of(self, job: Job) -> Reservation | None:
        """Return what is kept for this job."""
        return next((item for item in self.active if item.job is job), None)

    def _sum(self, bound: tuple[Reservation, ...]) -> tuple[Rows, NDArray[np.int64]]:
        """Return the rows of these reservations, each once, and what they keep there together."""
        if self._summed_at != self._columns.generation:
            self._sums.clear()
            self._summed_at = self._columns.generation
        key = tuple(map(id, bound))
        found = self._sums.get(key)
        if found is None:
            total = sum_up(item.nodes for item in bound)
            rows = {self._columns.rows[name]: kept for name, kept in total.items() if name in self._columns.rows}
            sums = np.zeros((len(self._columns.axis), len(rows)), np.int64)
            for place, kept in enumerate(rows.values()):
                sums[: len(kept), place] = kept
            found = self._sums[key] = (np.fromiter(rows, np.intp, len(rows)), sums)
        return found


def sum_up(parts: Iterable[Kept]) -> Kept:
    """Return what all parts keep together."""
    total: Kept = {}
    for part in parts:
        for name, kept in part.items():
            # Resources are only ever added to the axis, so the later of two is not shorter.
            if name in total:
                longer, shorter = sorted((total[name], kept), key=len, reverse=True)
                total[name] = longer.copy()
                total[name][: len(shorter)] += shorter
            else:
                total[name] = kept
    return total


def _is_less(now: NDArray[np.int64] | None, before: NDArray[np.int64]) -> bool:
    """Return whether less is kept of any resource; resources are only ever added to the axis."""
    return now is None or bool((now[: len(before)] < before[: len(now)]).any() or before[len(now) :].any())


def path_of(queue: QueueInfo) -> QueuePath:
    """Return the names and priorities of the queue and of those above it."""
    return tuple((node.name, node.record.priority) for node in reversed(queue.path))
