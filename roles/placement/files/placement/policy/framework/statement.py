# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A statement: tentative moves of tasks that are committed or discarded together."""

from typing import Final

from placement.model.slicing import Steps, paced, pauses, to_the_end
from placement.policy.cache.job_cache import JobCache
from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import RESERVES_NODE, Job, Status, Task

# Moves that are taken back or made final in one step: about half a millisecond.
_AT_ONCE: Final = 128


class Statement:
    """Collect moves of tasks from its begin to its commit or discard.

    There is one statement at a time, and no event is taken in before it ends. It may last several slices, and so may
    its end. The owner of a statement that is interrupted discards it. Once it is committed or discarded, another
    discard does nothing.
    """

    def __init__(self, cache: JobCache) -> None:
        self._cache = cache
        cache.in_transaction = True
        self._pods = cache.cluster.pods
        self._mark = self._pods.mark()
        self._moves: list[tuple[Task, Status]] = []
        # Tasks that have lost their promise of room, and the node that it was on.
        self._promised: list[tuple[Task, str]] = []

    def allocate(self, task: Task, node: str, selection: str = "") -> None:
        """Place the task on this node; the selection says where that is in the tree, if the graph chose it."""
        self._note_promise(task)
        volumes = self._cache.cluster.volumes.choose(task.pod, node) if task.pod.volume_claims else ()
        self._pods.assume(task.uid, node, volumes, selection)
        self._shift(task, Status.ALLOCATED)

    def pipeline(self, task: Task, node: str) -> None:
        """Keep the room that leaving pods free on this node for the task."""
        self._pods.promise(task.uid, node, task.priority)
        self._shift(task, Status.PIPELINED)

    def unallocate(self, task: Task) -> None:
        """Take the task from its node; it is pending again."""
        self._note_promise(task)
        self._pods.forget(task.uid)
        self._shift(task, Status.PENDING)

    def evict(self, task: Task) -> None:
        """Evict the task."""
        self._pods.evict(task.uid)
        self._shift(task, Status.RELEASING)

    def unevict(self, task: Task, status: Status) -> None:
        """Take back an eviction of this statement; the task has this status, which it had before."""
        self._pods.evict(task.uid, evicting=False)
        self._shift(task, status)

    def _note_promise(self, task: Task) -> None:
        if task.status is Status.PIPELINED:
            self._promised.append((task, task.entry.at))

    def _shift(self, task: Task, status: Status) -> None:
        self._moves.append((task, task.status))
        self._cache.shift(task, status)

    def savepoint(self) -> tuple[int, int]:
        """Return a point within the statement that `rollback_to` can return to."""
        return self._pods.mark(), len(self._moves)

    def rollback_to(self, mark: tuple[int, int]) -> Steps[None]:
        """Take back the moves since the mark, the last first, in steps."""
        pacing = pauses(_AT_ONCE)
        while self._pods.mark() > mark[0]:
            self._pods.rollback(self._pods.mark() - 1)
            if next(pacing):
                yield
        while len(self._moves) > mark[1]:
            task, status = self._moves.pop()
            self._cache.shift(task, status)
            if next(pacing):
                yield

    def discard(self) -> Steps[None]:
        """End the statement and take back all its moves, in steps."""
        return to_the_end(self._discard())

    def _discard(self) -> Steps[None]:
        tasks = {task.uid: task for task, _unused in self._moves}
        yield from self.rollback_to((self._mark, 0))
        for task, pause in paced(tasks.values(), _AT_ONCE):
            self._cache.archive(task)
            if pause:
                yield
        self._cache.in_transaction = False

    def commit(self) -> Steps[None]:
        """End the statement and make all its moves final, in steps, which the caller has to do to the end."""
        self._pods.settle()
        first: dict[str, tuple[Task, Status]] = {}
        for task, status in self._moves:
            first.setdefault(task.uid, (task, status))
        self._moves.clear()
        moved = [(task, status) for task, status in first.values() if task.status is not status]
        jobs: dict[GroupKey, Job] = {}
        left = False
        for start in range(0, len(moved), _AT_ONCE):
            if start:
                yield
            for task, status in moved[start : start + _AT_ONCE]:
                self._cache.moved(task, status)
                jobs[task.job.key] = task.job
                left = left or (status in RESERVES_NODE and task.status not in RESERVES_NODE)
        if left or any(task.entry.at != node for task, node in self._promised):
            # No event tells of the room that they do not need any more.
            self._cache.versions.room += 1
        for job in jobs.values():
            self._cache.queue.push(job)
        for task, status in first.values():
            if task.status is status:
                self._cache.archive(task)
        self._cache.in_transaction = False
