# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A statement: tentative moves of tasks that become true together or not at all."""

from placement.policy.cache.job_cache import JobCache
from placement.policy.jobs.job import Status, Task


class Statement:
    """Moves since it was begun. Between its begin and its end no event is taken in, and there is one at a time.

    It may last several slices; if it is never ended, its moves are to be taken back.
    """

    def __init__(self, cache: JobCache) -> None:
        self._cache = cache
        cache.in_transaction = True
        self._pods = cache.cluster.pods
        self._mark = self._pods.mark()
        self._moves: list[tuple[Task, Status]] = []

    def allocate(self, task: Task, node: str) -> None:
        """Assign the task to this node."""
        volumes = self._cache.cluster.volumes.choose(task.pod, node) if task.pod.volume_claims else ()
        self._pods.assume(task.uid, node, volumes)
        self._shift(task, Status.ALLOCATED)

    def pipeline(self, task: Task, node: str) -> None:
        """Room that others leave on this node is kept for the task."""
        self._pods.promise(task.uid, node, task.priority)
        self._shift(task, Status.PIPELINED)

    def unallocate(self, task: Task) -> None:
        """Let the task wait for a node again."""
        self._pods.forget(task.uid)
        self._shift(task, Status.PENDING)

    def evict(self, task: Task) -> None:
        """Have the task leave."""
        self._pods.evict(task.uid)
        self._shift(task, Status.RELEASING)

    def unevict(self, task: Task, status: Status) -> None:
        """Let a task that this statement evicted stay, with the status it had."""
        self._pods.evict(task.uid, evicting=False)
        self._shift(task, status)

    def _shift(self, task: Task, status: Status) -> None:
        self._moves.append((task, task.status))
        self._cache.shift(task, status)

    def savepoint(self) -> tuple[int, int]:
        """Return a point within the statement to roll back to."""
        return self._pods.mark(), len(self._moves)

    def rollback_to(self, mark: tuple[int, int]) -> None:
        """Take back the moves since the mark, last first."""
        self._pods.rollback(mark[0])
        while len(self._moves) > mark[1]:
            task, status = self._moves.pop()
            self._cache.shift(task, status)

    def discard(self) -> None:
        """Take back everything."""
        tasks = {task.uid: task for task, _unused in self._moves}
        self.rollback_to((self._mark, 0))
        for task in tasks.values():
            self._cache.archive(task)
        self._cache.in_transaction = False

    def commit(self) -> None:
        """Make everything final."""
        self._pods.settle()
        first: dict[str, tuple[Task, Status]] = {}
        for task, status in self._moves:
            first.setdefault(task.uid, (task, status))
        self._moves.clear()
        moved = [(task, status) for task, status in first.values() if task.status is not status]
        for task, status in moved:
            self._cache.moved(task, status)
        for job in {task.job.key: task.job for task, _unused in moved}.values():
            self._cache.queue.push(job)
        for task, status in first.values():
            if task.status is status:
                self._cache.archive(task)
        self._cache.in_transaction = False
