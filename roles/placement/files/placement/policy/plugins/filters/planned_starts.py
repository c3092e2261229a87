# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes on which the batch system plans to start a job, or a reservation begins, before the pod can have ended.

The plan is the batch system's own: Slurm plans starts in its backfill scheduler and in reservations, and the batch
controllers write the next one to the Node. A pod ends at its deadline. A pod without a deadline is not kept away by
plans: the controllers taint the node some time before the start, and that is the site's setting for such pods.
"""

from typing import Final

import numpy as np

from placement.policy.jobs.job import Task
from placement.policy.plugins.filters.filters import Filter
from placement.policy.queues.reservations import Reservations
from placement.state.cluster import Cluster
from placement.state.nodes.node_filters import Bools

# Without the time, so that a plan that moves is no news for all that wait.
PLANNED: Final = "where a batch job or a reservation begins before the pod ends"
# Seconds after which a planned start was missed. Controllers round it down by up to five minutes, and the
# batch system may be late. A job that has begun holds its node by other means.
MISSED: Final = 600.0


class PlannedStarts(Filter):
    """Nodes that the batch system wants before the pod's deadline."""

    reason = PLANNED

    def __init__(self, cluster: Cluster, clock: Reservations) -> None:
        super().__init__(cluster)
        self._clock = clock

    def allowed(self, task: Task) -> Bools | None:
        """Return the nodes without a start before the latest end of the pod; None means all."""
        planned = self._columns.planned
        if not planned:
            return None
        deadline, clock = task.pod.spec.deadline, self._clock
        if not deadline or deadline < 0 or task.pod.daemon or clock.epoch is None:
            return None
        now = clock.now + clock.epoch
        before = [row for row, at in planned.items() if now - MISSED <= at < now + task.pod.spec.longest]
        if not before:
            return None
        found = np.ones(self._columns.capacity, np.bool_)
        found[before] = False
        return found

    # What one pod takes changes no plan.
    untouched = allowed

    def why_backed(self, task: Task, row: int, end: float) -> str:
        """Return nothing: the batch system knows its own plans when it chooses a node."""
        return ""
