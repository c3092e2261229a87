# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Higher priority first, between jobs and within one; and room is taken from lower priority only."""

from collections.abc import Mapping, Sequence

from placement.model.objects.pod import Pod
from placement.policy.jobs.job import Job, Task
from placement.policy.plugins.plugin import Plugin


class Priority(Plugin):
    """kube-batch's plugin of this name."""

    name = "priority"
    preempts = True

    def job_key(self, job: Job, total: Mapping[str, int]) -> int:
        """By the priority of the job."""
        return -job.priority

    def task_key(self, pod: Pod) -> int:
        """By the priority of the pod."""
        return -pod.spec.priority

    def may_preempt(self, preemptor: Task, victims: Sequence[Task], total: Mapping[str, int]) -> bool:
        """From a job of lower priority; within a job, from pods of lower priority."""
        if victims[0].owner is preemptor.job:
            return all(victim.pod.spec.priority < preemptor.pod.spec.priority for victim in victims)
        return victims[0].priority < preemptor.job.priority
