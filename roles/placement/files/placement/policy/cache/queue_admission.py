# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Standing: in which queue each job is, and whether it may be scheduled there.

When queues change, thousands of jobs may have another standing, and only some are read again in each slice. What that
adds up to is caught up with so; but nobody is placed by a standing that he may have lost.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from placement.model.quantity import PODS
from placement.model.workload import Queue
from placement.policy.cache.usage import Usage
from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import Job, Problem, Task
from placement.policy.jobs.pod_groups import GroupIndex
from placement.policy.plugins.plugin_set import PluginSet
from placement.policy.queues.tree import QueueTree
from placement.state.cluster import Cluster

# So many jobs are reconsidered in one slice.
_RECONSIDERED: Final = 128
# So many pods or jobs get their places in a new tree of queues in one step.
_REBUILT: Final = 512


class QueueAdmission(Usage):
    """Jobs in their queues, in and out of scheduling."""

    def __init__(self, cluster: Cluster, rules: PluginSet, default_queue: str) -> None:
        super().__init__(cluster, rules, QueueTree((), default_queue))
        self.groups = GroupIndex(cluster, default_queue)
        self._default_queue = default_queue
        self._queue_specs: set[Queue] = set()
        # Jobs that could not run if all nodes were empty, and those that have to be read again: some in each slice.
        self.never_fits: dict[GroupKey, Job] = {}
        self.to_refresh: dict[GroupKey, Job] = {}
        # Those of them whose queues have changed since they were read: they may be shut out.
        self.stale: set[GroupKey] = set()

    def admits(self, job: Job) -> bool:
        """Whether the job may be scheduled; who has not been read again since its queue changed may not yet."""
        return job.problem is None and not (self.stale and job.key in self.stale)

    def archive(self, task: Task) -> None:
        """Forgets the job of a pod by itself, unless that is still to be read again."""
        if not self.stale or task.is_archived or task.job.key not in self.stale:
            super().archive(task)

    def reconsider(self) -> None:
        """Jobs that could never run may have got the nodes they lacked; they are taken back in some at a time."""
        self.to_refresh.update(self.never_fits)
        self.never_fits.clear()

    def give_up(self, job: Job, problem: Problem) -> None:
        """The job cannot run on the nodes there are: it waits for others, and its queue deserves nothing for it."""
        self.never_fits[job.key] = job
        self._enqueue_in(job, job.queue, problem)
        self.push(job)

    def leave(self, key: GroupKey) -> None:
        """The job is no more: nobody reads it again."""
        super().leave(key)
        self.stale.discard(key)
        for waiting in (self.never_fits, self.to_refresh):
            waiting.pop(key, None)

    def _refresh(self, job: Job) -> None:
        """Reads again what the job's group, its pods' annotations and the priority classes say."""
        self.stale.discard(job.key)
        self.never_fits.pop(job.key, None)
        facts = self.groups.facts(job)
        self.upsets += bool(job.allocated.get(PODS)) and (job.min_member, job.priority) != (
            facts.min_member,
            facts.priority,
        )
        job.group, job.min_member, job.priority = facts.group, facts.min_member, facts.priority
        job.created = facts.created
        problem = facts.problem or self.tree.refusal(facts.queue, job)
        if job.queue != facts.queue or job.problem != problem:
            self._enqueue_in(job, facts.queue, problem)
        self.push(job)

    def _read_some_again(self) -> None:
        for key in list(islice(self.to_refresh, _RECONSIDERED)):
            job = self.to_refresh.pop(key)
            self.stale.discard(key)
            if self.jobs.get(key) is job:
                self._read_again(job)

    def _reread_classes(self) -> None:
        """A priority class has come, changed or gone."""
        self.eviction_version += 1
        self.to_refresh.update(
            {key: job for key, job in self.jobs.items() if job.group is not None and job.group.priority_class}
        )

    def _read_again(self, job: Job) -> None:
        priority = job.priority
        self._refresh(job)
        # Others have to leave for it now, or it for others.
        self.eviction_version += job.priority != priority
        for task in list(job.tasks.values()):
            self.archive(task)

    def _enqueue_in(self, job: Job, name: str, problem: Problem | None = None) -> None:
        """Moves a job, with all that it is counted for, to another queue, or in and out of scheduling."""
        self.upsets += bool(job.allocated.get(PODS))
        for task in job.tasks.values():
            self._book(task, task.status, None)
        queue = self.tree.by_name.get(job.queue)
        if queue is not None:
            queue.jobs.pop(job.key, None)
            queue.waiting.pop(job.key, None)
        job.queue, job.problem = name, problem
        queue = self.tree.by_name.get(name)
        if queue is not None:
            queue.jobs[job.key] = job
        for task in job.tasks.values():
            self._book(task, None, task.status)

    def _rebuild_queues(self) -> Iterator[None]:
        """Make the tree of queues anew; jobs of queues that admit others now are read again, some in each step."""
        records = [item for item in self.cluster.objects.get(Queue, {}).values() if isinstance(item, Queue)]
        # Most changes are those of a status, our own.
        specs = {replace(record, version=0) for record in records}
        if specs == self._queue_specs:
            return
        self._queue_specs = specs
        self.room_version += 1
        old, tree = self.tree, QueueTree(records, self._default_queue)
        affected = tree.admits_otherwise(old)
        resting = [task for name in affected & old.by_name.keys() for task in old.by_name[name].archived_tasks()]
        for number, task in enumerate(resting):
            self.restore(task)
            if number % _REBUILT == _REBUILT - 1:
                yield
        tree.take_over(old)
        self.tree = tree
        done = 0
        for job in [job for job in self.jobs.values() if job.queue in affected]:
            queue = tree.by_name.get(job.queue)
            if queue is not None and job.queue not in old.by_name:
                queue.jobs[job.key] = job
                for task in job.tasks.values():
                    self._book_queue(task, None, task.status)
                    done += 1
                    if done % _REBUILT == 0:
                        yield
            self.to_refresh[job.key] = job
            self.stale.add(job.key)
            done += 1
            if done % _REBUILT == 0:
                yield
