# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which queue each job is, and whether that queue admits it.

When queues change, thousands of jobs may be admitted otherwise, and only some are read again in each slice. Until then
their amounts may count in the wrong queue, but no job is placed by an admission that it may have lost.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from placement.model.amounts.quantity import PODS
from placement.model.objects.workload import Queue
from placement.policy.cache.context import Context, Versions
from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import Job, Problem, TaskMinimums
from placement.policy.jobs.pod_groups import GroupIndex
from placement.policy.queues.tree import QueueTree
from placement.state.cluster import Cluster

# Jobs that are read again in one slice.
_RECONSIDERED: Final = 128


class QueueAdmission:
    """Say in which queue each job is, and which problem keeps it out of scheduling."""

    def __init__(self, context: Context, versions: Versions, cluster: Cluster, default_queue: str) -> None:
        self._context = context
        self._versions = versions
        self._cluster = cluster
        self._default_queue = default_queue
        self._queue_specs: set[Queue] = set()
        self.groups = GroupIndex(cluster, default_queue)
        # Jobs that could not run if all nodes were empty.
        self.never_fits: dict[GroupKey, Job] = {}
        # Jobs that have to be read again, some in each slice.
        self.to_refresh: dict[GroupKey, Job] = {}
        # Those of them that were read before their queue changed: it may not admit them any more.
        self.read_before_change: set[GroupKey] = set()

    def admits(self, job: Job) -> bool:
        """Return whether the job may be scheduled; not before it is read again after a change of its queue."""
        return job.problem is None and not (self.read_before_change and job.key in self.read_before_change)

    def reconsider(self) -> None:
        """Read the jobs again that could never run, some in each slice: the nodes they lacked may have come."""
        self.to_refresh.update(self.never_fits)
        self.never_fits.clear()

    def classes_changed(self, jobs: Mapping[GroupKey, Job]) -> None:
        """Read the jobs again that have a priority class: some class has come, changed or gone."""
        self._versions.eviction += 1
        self.to_refresh.update(
            {key: job for key, job in jobs.items() if job.group is not None and job.group.priority_class}
        )

    def queue_changed(self, job: Job) -> None:
        """Read the job again, and admit it nowhere until then."""
        self.to_refresh[job.key] = job
        self.read_before_change.add(job.key)

    def take_some(self) -> Iterator[Job]:
        """Yield some of the jobs that have to be read again, and forget that they have."""
        for key in list(islice(self.to_refresh, _RECONSIDERED)):
            job = self.to_refresh.pop(key)
            self.read_before_change.discard(key)
            yield job

    def forget(self, key: GroupKey) -> None:
        """Forget a job that is gone."""
        self.read_before_change.discard(key)
        for waiting in (self.never_fits, self.to_refresh):
            waiting.pop(key, None)

    def read(self, job: Job) -> tuple[str, Problem | None]:
        """Set what the job's group, annotations and priority class say; return its queue and its problem."""
        self.read_before_change.discard(job.key)
        self.never_fits.pop(job.key, None)
        facts = self.groups.facts(job)
        self._versions.evictability += bool(job.allocated.get(PODS)) and (job.min_member, job.priority) != (
            facts.min_member,
            facts.priority,
        )
        job.group, job.min_member, job.priority = facts.group, facts.min_member, facts.priority
        job.created = facts.created
        least = facts.group.min_tasks if facts.group is not None else ()
        job.minimums = TaskMinimums(least, job.tasks.values()) if least else None
        job.topological = job.strict = False
        if facts.group is not None and facts.group.topology is not None:
            job.note_topology(facts.group.topology)
        for task in job.tasks.values():
            if task.pod.spec.topology is not None:
                job.note_topology(task.pod.spec.topology)
        return facts.queue, facts.problem or self._context.tree.refusal(facts.queue, job)

    def assign(self, job: Job, name: str, problem: Problem | None) -> None:
        """Put the job into a queue, with or without a problem; the caller counts its amounts out and in."""
        by_name = self._context.tree.by_name
        queue = by_name.get(job.queue)
        if queue is not None:
            queue.jobs.pop(job.key, None)
            queue.waiting.pop(job.key, None)
        job.queue, job.problem = name, problem
        queue = by_name.get(name)
        if queue is not None:
            queue.jobs[job.key] = job

    def new_tree(self) -> QueueTree | None:
        """Return a tree of the queues as they are now; None if they are as they were the last time."""
        records = [item for item in self._cluster.objects.get(Queue, {}).values() if isinstance(item, Queue)]
        # Most changes of a queue are changes of its status, which we write ourselves.
        specs = {replace(record, version=0) for record in records}
        if specs == self._queue_specs:
            return None
        self._queue_specs = specs
        return QueueTree(records, self._default_queue)
