# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What jobs and queues hold and want, what there is in all, and what is free of it."""

from placement.model.amounts.quantity import PODS, Amounts
from placement.model.amounts.totals import Totals, add
from placement.model.objects.pod import Pod
from placement.policy.cache.context import Context
from placement.policy.jobs.job import COUNTS_IN_DEMAND, COUNTS_IN_SHARE, OCCUPIES_NODE, RESERVES_NODE, Job, Status
from placement.policy.queues.room import UsableRoom


class Usage:
    """Keep the sums over all tasks up with every move of a task."""

    def __init__(self, context: Context, room: UsableRoom) -> None:
        self._context = context
        self._room = room
        self._held: Totals = {}

    def count(self, job: Job, amounts: Amounts, old: Status | None, new: Status | None, number: int = 1) -> None:
        """Count so many tasks of the job, each of these amounts, under their new status instead of the old one.

        There is none before they come and after they go.
        """
        in_share = (new in COUNTS_IN_SHARE) - (old in COUNTS_IN_SHARE)
        on_node = (new in OCCUPIES_NODE) - (old in OCCUPIES_NODE)
        if in_share:
            add(job.allocated, amounts, in_share * number)
        if on_node:
            add(self._held, amounts, on_node * number)
        self.count_in_queue(job, amounts, old, new, number)

    def count_in_queue(
        self, job: Job, amounts: Amounts, old: Status | None, new: Status | None, number: int = 1
    ) -> None:
        """Count the tasks under their new status in their queue and those above, but not in their job."""
        queue = self._context.tree.by_name.get(job.queue)
        if queue is None:
            return
        # A job that cannot be scheduled wants nothing, or its queue would deserve room that it cannot use.
        demanding = COUNTS_IN_SHARE if job.problem is not None else COUNTS_IN_DEMAND
        # Pipelined amounts count as held: limits are checked when a task is pipelined, and not again.
        queue.book(
            amounts,
            allocated=((new in COUNTS_IN_SHARE) - (old in COUNTS_IN_SHARE)) * number,
            held=((new in RESERVES_NODE) - (old in RESERVES_NODE)) * number,
            promised=((new is Status.PIPELINED) - (old is Status.PIPELINED)) * number,
            requests=((new in demanding) - (old in demanding)) * number,
        )
        # Every task counts as a pod, so nothing is allocated where that is nothing.
        if job.allocated.get(PODS):
            queue.begun[job.key] = job
        else:
            queue.begun.pop(job.key, None)

    def claim(self, pod: Pod, *, came: bool) -> None:
        """Note that a pod begins or ceases to wait or be placed: queues share the nodes that it tolerates."""
        if came:
            self._room.enter(pod.spec.tolerations)
        else:
            self._room.leave(pod.spec.tolerations)

    def idle(self) -> Totals:
        """Return what is free of the amounts that queues share."""
        held = self._held_of_shares()
        return {name: amount - held.get(name, 0) for name, amount in self._context.total.items()}

    def measure(self) -> Totals:
        """Return what queues share now: what is free, and what our pods hold."""
        free, held = self._room.free(), self._held_of_shares()
        return {name: max(0, amount + held.get(name, 0)) for name, amount in free.items() if name != PODS}

    def _held_of_shares(self) -> Totals:
        """Return what our pods hold, without those that a batch system has given nodes of its own."""
        held = dict(self._held)
        for queue in self._context.tree.backed:
            add(held, queue.held.items(), -1)
            add(held, queue.pipelined.items())
        return held
