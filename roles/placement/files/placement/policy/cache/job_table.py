# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs by key and tasks by UID; archived pods have no job.

A job with its order, counts and sums takes more memory than all else that is known of one pod. A pod without a group
needs no job once it has its node, and most pods of a cluster are such. Their jobs are archived: a job is built again
when something happens to its pod, and for each reader that asks for it.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from placement.model.objects.workload import PBS
from placement.policy.cache.context import Context
from placement.policy.jobs.group_key import GroupKey, Source
from placement.policy.jobs.job import Job, Status, Task, TaskKey
from placement.policy.queues.queue import Kind

_NO_KEY: Final[TaskKey] = (0, "", "")


class JobTable:
    """Find jobs and tasks; every task is here, and every job but those of archived pods."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.by_key: dict[GroupKey, Job] = {}
        self.tasks: dict[str, Task] = {}

    def obtain(self, key: GroupKey) -> Job:
        """Return the job of this key; create it if there is none."""
        job = self.by_key.get(key)
        if job is None:
            job = self.by_key[key] = Job(key)
        return job

    def every_job(self) -> Iterator[Job]:
        """Yield all jobs, with those of archived pods."""
        return chain(self.by_key.values(), (task.job for task in self.archived()))

    def archived(self) -> list[Task]:
        """Return the archived pods."""
        return [task for queue in self._context.tree.by_name.values() for task in queue.archived_tasks()]

    def archive(self, task: Task) -> bool:
        """Drop the job of a pod that has no group and has its node; return whether the job is dropped now."""
        if isinstance(task.owner, str):
            return False
        job = task.owner
        queue = self._context.tree.by_name.get(job.queue)
        settled = task.status in (Status.BOUND, Status.RUNNING) and job.key.source is Source.POD
        # A pod that a batch system backs is watched as long as it runs.
        if not settled or queue is None or queue.record.placed_by == PBS or job.problem is not None:
            return False
        del self.by_key[job.key], queue.jobs[job.key], queue.begun[job.key]
        queue.archived.setdefault(_kind(task), {})[task.uid] = task
        task.owner, task.key = queue.name, _NO_KEY
        return True

    def restore(self, task: Task) -> None:
        """Build the job of an archived pod again, because the pod is about to change."""
        if not isinstance(task.owner, str):
            return
        queue, job = self._context.tree.by_name[task.owner], task.job
        alike = queue.archived[_kind(task)]
        del alike[task.uid]
        if not alike:
            del queue.archived[_kind(task)]
        task.owner, task.key = job, self._context.plugins.task_order(task.pod)
        self.by_key[job.key] = queue.jobs[job.key] = queue.begun[job.key] = job


def _kind(task: Task) -> Kind:
    return (task.pod.spec.priority, task.amounts)
