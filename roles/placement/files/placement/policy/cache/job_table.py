# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs and tasks by what names them; pods at rest have no job.

A job with its order, counts and sums takes more memory than all else that is known of one pod. A pod that belongs to no
group needs none once it has its node, and most pods of a cluster are such: its job is made again when something happens
to it, and for whoever only looks.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from placement.policy.cache.queueing_hints import Hints
from placement.policy.cache.scheduling_queue import SchedulingQueue
from placement.policy.jobs.group_key import GroupKey, Source
from placement.policy.jobs.job import Job, Status, Task, TaskKey
from placement.policy.plugins.plugin_set import PluginSet
from placement.policy.queues.queue import Kind
from placement.policy.queues.tree import QueueTree

# So many tasks get other keys in one step.
_AT_ONCE: Final = 256
_NO_KEY: Final[TaskKey] = (0, "", "")


class JobTable(SchedulingQueue):
    """All jobs but those of pods at rest, and all tasks."""

    def __init__(self, rules: PluginSet, tree: QueueTree, hints: Hints) -> None:
        super().__init__(rules, tree, hints)
        self.jobs: dict[GroupKey, Job] = {}
        self.tasks: dict[str, Task] = {}
        # Jobs that have the places of other plugins, since those were configured.
        self._misplaced: list[Job] = []

    def reconfigure(self, rules: PluginSet) -> None:
        """Order jobs by these plugins from now on; no job has a place before the next catching up gives it one."""
        self.rules = rules
        self.unfinished_visits.clear()
        # Keys of other plugins cannot be compared with those of these.
        self.forget_orders()
        self._misplaced = list(self.jobs.values())[::-1]
        self.room_version += 1

    def _place_again(self) -> Iterator[None]:
        """Give jobs their places by the plugins of now, some in each step."""
        done = 0
        while self._misplaced:
            job = self._misplaced.pop()
            if self.jobs.get(job.key) is not job:
                continue
            for task in job.tasks.values():
                task.key = self.rules.task_order(task.pod)
                if task.status is Status.PENDING:
                    job.wait(task)
                done += 1
                if done % _AT_ONCE == 0:
                    yield
            self.reorder([job])

    def obtain(self, key: GroupKey) -> Job:
        """The job of this key, a new one if need be."""
        job = self.jobs.get(key)
        if job is None:
            job = self.jobs[key] = Job(key)
        return job

    def every_job(self) -> Iterator[Job]:
        """Those of pods at rest too."""
        return chain(self.jobs.values(), (task.job for task in self.archived()))

    def archived(self) -> list[Task]:
        """Pods at rest."""
        return [task for queue in self.tree.by_name.values() for task in queue.archived_tasks()]

    def archive(self, task: Task) -> None:
        """Forgets the job of a pod by itself that has its node."""
        if isinstance(task.owner, str):
            return
        job = task.owner
        queue = self.tree.by_name.get(job.queue)
        settled = task.status in (Status.BOUND, Status.RUNNING) and job.key.source is Source.POD
        # What a batch system backs is looked after as long as it runs.
        if not settled or queue is None or queue.record.backed_by or job.problem is not None:
            return
        self.leave(job.key)
        del self.jobs[job.key], queue.jobs[job.key], queue.begun[job.key]
        queue.archived.setdefault(_kind(task), {})[task.uid] = task
        task.owner, task.key = queue.name, _NO_KEY

    def restore(self, task: Task) -> None:
        """Something is about to happen to the pod: it has a job from now on."""
        if not isinstance(task.owner, str):
            return
        queue, job = self.tree.by_name[task.owner], task.job
        alike = queue.archived[_kind(task)]
        del alike[task.uid]
        if not alike:
            del queue.archived[_kind(task)]
        task.owner, task.key = job, self.rules.task_order(task.pod)
        self.jobs[job.key] = queue.jobs[job.key] = queue.begun[job.key] = job


def _kind(task: Task) -> Kind:
    return (task.pod.spec.priority, task.amounts)
