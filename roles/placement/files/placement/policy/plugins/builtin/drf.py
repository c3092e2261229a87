# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dominant resource fairness: the job whose greatest share of any resource is the smallest comes first."""

from collections.abc import Mapping, Sequence

from placement.model.amounts.totals import add, dominant_share
from placement.policy.jobs.job import Job, Task
from placement.policy.plugins.plugin import Plugin


class Drf(Plugin):
    """kube-batch's plugin of this name."""

    name = "drf"
    preempts = True
    looks_at_job = True

    def job_key(self, job: Job, total: Mapping[str, int]) -> int:
        """By the dominant share."""
        return dominant_share(job.allocated, total)

    def may_preempt(self, preemptor: Task, victims: Sequence[Task], total: Mapping[str, int]) -> bool:
        """From a job of equal priority, as long as it is left with no less than the preemptor's job then has."""
        job = victims[0].job
        if preemptor.job is job or job.priority != preemptor.job.priority:
            return False
        gaining, losing = dict(preemptor.job.allocated), dict(job.allocated)
        add(gaining, preemptor.amounts)
        for victim in victims:
            add(losing, victim.amounts, -1)
        return dominant_share(gaining, total) <= dominant_share(losing, total)
