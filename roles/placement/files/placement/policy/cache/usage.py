# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures: what jobs and queues hold and want, what there is in all, and what is free of it."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from placement.model.quantity import PODS
from placement.model.totals import Totals, add
from placement.policy.cache.job_table import JobTable
from placement.policy.cache.queueing_hints import Hints
from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import HOLDING, SHARING, TAKING, WANTING, Job, Status, Task
from placement.policy.plugins.plugin_set import PluginSet
from placement.policy.queues.room import UsableRoom
from placement.policy.queues.tree import QueueTree
from placement.state.cluster import Cluster

# So many jobs are given another order in one slice.
_ORDERED: Final = 128


class Usage(JobTable):
    """Sums over all tasks, kept up with every move."""

    def __init__(self, cluster: Cluster, rules: PluginSet, tree: QueueTree) -> None:
        super().__init__(rules, tree, Hints(cluster.labelsets))
        self.cluster = cluster
        self._held: Totals = {}
        self.room = UsableRoom(cluster, self.tasks.__contains__)
        # Jobs in line whose order may be another, because there is more or less in all.
        self._unordered: dict[GroupKey, Job] = {}

    def _book(self, task: Task, old: Status | None, new: Status | None) -> None:
        """Counts the task under its new status instead of the old one; under none before it comes and after it goes."""
        sharing, holding = (new in SHARING) - (old in SHARING), (new in HOLDING) - (old in HOLDING)
        if sharing:
            add(task.job.allocated, task.amounts, sharing)
        if holding:
            add(self._held, task.amounts, holding)
        self._book_queue(task, old, new)

    def _book_queue(self, task: Task, old: Status | None, new: Status | None) -> None:
        job = task.job
        queue = self.tree.by_name.get(job.queue)
        if queue is None:
            return
        # What cannot be scheduled wants nothing, or its queue would deserve room that it cannot use.
        wanting = SHARING if job.problem is not None else WANTING
        # Promised room will be held, and whoever it is promised to is not asked about limits again.
        queue.book(
            task.amounts,
            allocated=(new in SHARING) - (old in SHARING),
            held=(new in TAKING) - (old in TAKING),
            promised=(new is Status.PIPELINED) - (old is Status.PIPELINED),
            requests=(new in wanting) - (old in wanting),
        )
        # Every task counts as a pod, so nothing is allocated where that is nothing.
        if job.allocated.get(PODS):
            queue.begun[job.key] = job
        else:
            queue.begun.pop(job.key, None)

    def idle(self) -> Totals:
        """Return what is free of what queues share."""
        held = self._held_of_shares()
        return {name: amount - held.get(name, 0) for name, amount in self.total.items()}

    def _held_of_shares(self) -> Totals:
        """Return what our pods hold, without those that a batch system has given nodes of its own."""
        held = dict(self._held)
        for queue in self.tree.backed:
            add(held, queue.held.items(), -1)
            add(held, queue.pipelined.items())
        return held

    def _add_up(self) -> Iterator[None]:
        """Add up what queues share, and divide it among them."""
        free, held = self.room.free(), self._held_of_shares()
        total = {name: max(0, amount + held.get(name, 0)) for name, amount in free.items() if name != PODS}
        if total != self.total:
            self.total = total
            # Shares of what there is order those that have begun. A parked job gets a new order when it comes back.
            for queue in self.tree.by_name.values():
                fewer, more = sorted((queue.begun, queue.waiting), key=len)
                self._unordered.update({key: job for key, job in fewer.items() if key in more})
        for key in list(islice(self._unordered, _ORDERED)):
            job = self._unordered.pop(key)
            at = self.tree.by_name.get(job.queue)
            if at is not None and at.waiting.get(key) is job:
                self.push(job)
        redivided = yield from self.tree.divide(total)
        self.eviction_version += redivided
