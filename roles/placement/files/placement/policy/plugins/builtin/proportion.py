# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Queues share the cluster by weight: what one does not ask for goes to those that do."""

from collections.abc import Sequence

from placement.model.amounts.totals import Totals, add
from placement.policy.jobs.job import Task
from placement.policy.plugins.plugin import Plugin
from placement.policy.queues.queue import QueueInfo


class Proportion(Plugin):
    """kube-batch's plugin of this name; the division itself is the queue tree's."""

    name = "proportion"

    def queue_key(self, queue: QueueInfo) -> int:
        """Order queues by the part of what they deserve that they have, least first."""
        return queue.share

    def overused(self, queue: QueueInfo) -> bool:
        """Return whether a queue has all it deserves."""
        return queue.overused

    def may_reclaim(self, victims: Sequence[Task], queue: QueueInfo) -> bool:
        """As long as the queue keeps what it deserves of everything that is short.

        What it has all it wants of is not short: it would lose that only by the way. kube-batch counts it, and so takes
        nothing back while memory is plenty.
        """
        lost: Totals = {}
        for victim in victims:
            add(lost, victim.pod.request)
        short = [name for name in lost if queue.deserved.get(name, 0) < queue.requests.get(name, 0)]
        return bool(short) and all(
            queue.allocated.get(name, 0) - lost[name] >= queue.deserved.get(name, 0) for name in short
        )
