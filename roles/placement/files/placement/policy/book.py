# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The book: jobs and queues as they follow from the state, kept up with it in time proportional to what changed."""

from collections.abc import Iterable
from dataclasses import replace
from heapq import heappop, heappush

import numpy as np

from placement.model.event import Object
from placement.model.pod import Pod
from placement.model.quantity import PODS
from placement.model.workload import PodGroup, PriorityClass, Queue
from placement.policy.amounts import Totals, add
from placement.policy.groups import GroupIndex, JobFacts
from placement.policy.jobs import HOLDING, SHARING, Job, Problem, Status, Task, status_of
from placement.policy.membership import GroupKey, group_key
from placement.policy.queues import Place, QueueTree
from placement.policy.rules import Rules
from placement.state.cluster import Cluster
from placement.state.columns import HELD, PRESENT, UNREADABLE
from placement.state.pods import PodEntry


class Book:
    """Everything of ours, by job and by queue."""

    def __init__(self, cluster: Cluster, rules: Rules, *, scheduler_name: str, default_queue: str) -> None:
        self.cluster = cluster
        self.rules = rules
        self.scheduler_name = scheduler_name
        self.jobs: dict[GroupKey, Job] = {}
        self.tasks: dict[str, Task] = {}
        self.groups = GroupIndex(cluster, default_queue)
        self.tree = QueueTree((), default_queue)
        self._default_queue = default_queue
        self._queue_specs: set[Queue] = set()
        # What there is for our pods: free room, and what they hold already.
        self.total: Totals = {}
        self._held: Totals = {}
        # Moves when something that did not fit may fit now; jobs tried in vain wait for that.
        self.generation = 0
        self.parked: dict[GroupKey, Job] = {}
        # Jobs whose conditions may have to be written again.
        self.stirred: dict[GroupKey, Job] = {}
        # Pods of ours that are gone or placed, so that nobody keeps what was last said of them.
        self.settled: dict[str, None] = {}
        self.hopeless: dict[GroupKey, Job] = {}
        # Jobs that have not been let in by enqueue.
        self.outside: dict[GroupKey, Job] = {}
        # Jobs that room is kept for.
        self.promised: dict[GroupKey, Job] = {}
        self._foreigners: dict[str, Job] = {}
        # Parked jobs that need other pods somewhere: placing a pod may help them, too.
        self._near_others: dict[GroupKey, Job] = {}
        self._tickets = 0

    def reconfigure(self, rules: Rules) -> None:
        """Other plugins: every order is made again."""
        self.rules = rules
        for task in self.tasks.values():
            task.key = rules.task_order(task.pod)
            if task.status is Status.PENDING:
                task.job.wait(task)
        self._reorder(self.jobs.values())
        self.generation += 1

    def catch_up(self) -> None:
        """Takes in what has changed in the state."""
        changed = self.cluster.changed
        if changed:
            pods = changed.pop(Pod, {})
            for kind, uids in changed.items():
                self._objects_changed(kind, uids)
            changed.clear()
            for uid in pods:
                self._pod_changed(uid)
        self._add_up()
        if self.parked and any(job.parked != self.generation for job in self.parked.values()):
            again = list(self.parked.values())
            self.parked.clear()
            for job in again:
                self.push(job)

    def _objects_changed(self, kind: type[Object], uids: Iterable[str]) -> None:
        if kind is PodGroup:
            for key in {key for uid in uids for key in self.groups.changed(uid)}:
                self._refresh(self._job(key))
                self._forget_empty(key)
        elif kind is Queue:
            self._rebuild_queues()
        elif kind is PriorityClass:
            for job in list(self.jobs.values()):
                self._refresh(job)
        else:
            self.generation += 1
            self.reconsider()

    def reconsider(self) -> None:
        """Jobs that could never run may have got the nodes they lacked."""
        hopeless = [job for job in self.hopeless.values() if self.jobs.get(job.key) is job]
        self.hopeless.clear()
        for job in hopeless:
            self._refresh(job)

    def give_up(self, job: Job, problem: Problem) -> None:
        """The job cannot run on the nodes there are: it waits for others, and its queue deserves nothing for it."""
        self.hopeless[job.key] = job
        self._enqueue_in(job, job.queue, problem)
        self.push(job)

    def _pod_changed(self, uid: str) -> None:
        entry, task = self.cluster.pods.by_uid.get(uid), self.tasks.get(uid)
        if entry is None or entry.pod.spec.scheduler_name != self.scheduler_name:
            if entry is None or not entry.charged or entry.leaving:
                self.generation += 1
            if task is not None:
                self._drop(task)
            if entry is None:
                self._foreign_gone(uid)
            else:
                self._foreign_seen(entry)
            return
        if task is not None and task.job.key != (key := group_key(entry.pod)):
            self._drop(task)
            task = None
        if task is None:
            key = group_key(entry.pod)
            job = self._job(key)
            task = Task(entry, job, self.rules.task_order(entry.pod))
            self.tasks[uid] = job.tasks[uid] = task
            job.counts[task.status] += 1
            self._join(job, task)
        task.entry, task.pod = entry, entry.pod
        self.move(task, status_of(entry))

    def _foreign_seen(self, entry: PodEntry) -> None:
        key = group_key(entry.pod)
        if key.named:
            job = self._job(key)
            if entry.pod.uid not in job.foreign:
                job.foreign.add(entry.pod.uid)
                self._foreigners[entry.pod.uid] = job
                self._refresh(job)

    def _foreign_gone(self, uid: str) -> None:
        job = self._foreigners.pop(uid, None)
        if job is not None:
            job.foreign.discard(uid)
            self._refresh(job)
            self._forget_empty(job.key)

    def _job(self, key: GroupKey) -> Job:
        job = self.jobs.get(key)
        if job is None:
            job = self.jobs[key] = Job(key)
        return job

    def _drop(self, task: Task) -> None:
        job = task.job
        self.move(task, Status.FAILED)
        job.counts[Status.FAILED] -= 1
        del job.tasks[task.uid], self.tasks[task.uid]
        self.settled[task.uid] = None
        self._forget_empty(job.key)

    def _forget_empty(self, key: GroupKey) -> None:
        job = self.jobs.get(key)
        if job is not None and not job.tasks and not job.foreign and job.group is None:
            self._enqueue_in(job, "")
            del self.jobs[key]
            self.parked.pop(key, None)
            self._near_others.pop(key, None)
            self.stirred.pop(key, None)
            self.promised.pop(key, None)
            self.outside.pop(key, None)

    def _join(self, job: Job, task: Task) -> None:
        """A task has come to the job; the others are in its figures already."""
        if len(job.tasks) == 1:
            self._refresh(job)
            return
        if job.group is None or not job.group.priority_class:
            job.priority = max(job.priority, task.pod.spec.priority)
        if job.group is None:
            job.created = min(job.created, task.pod.created)

    def _refresh(self, job: Job) -> None:
        """Reads again what the job's group, its pods' annotations and the priority classes say."""
        facts = self.groups.facts(job)
        job.group, job.min_member, job.priority = facts.group, facts.min_member, facts.priority
        job.created = facts.created
        problem = facts.problem or self._queue_problem(job, facts)
        if job.queue != facts.queue or job.problem != problem:
            self._enqueue_in(job, facts.queue, problem)
        self.push(job)

    def _queue_problem(self, job: Job, facts: JobFacts) -> Problem | None:
        queue = self.tree.by_name.get(facts.queue)
        if queue is None:
            return Problem("UnknownQueue", f"spec.queue: there is no queue {facts.queue!r}")
        if queue.problem:
            return Problem("InvalidQueue", f"spec.queue: queue {queue.name} cannot be used: {queue.problem}")
        if queue.children:
            return Problem("InvalidQueue", f"spec.queue: queue {queue.name} has queues below it; name one of those")
        for at in queue.path:
            if not at.record.is_open and not job.occupied:
                return Problem("ClosedQueue", f"spec.queue: queue {at.name} is closed")
            if at.record.namespaces is not None and job.key.namespace not in at.record.namespaces:
                return Problem(
                    "ForbiddenQueue", f"spec.queue: queue {at.name} does not admit namespace {job.key.namespace}"
                )
        return None

    def _enqueue_in(self, job: Job, name: str, problem: Problem | None = None) -> None:
        """Moves a job, with all that it is counted for, to another queue, or in and out of scheduling."""
        self._count(job, -1)
        queue = self.tree.by_name.get(job.queue)
        if queue is not None:
            queue.jobs.pop(job.key, None)
        job.queue, job.problem = name, problem
        queue = self.tree.by_name.get(name)
        if queue is not None:
            queue.jobs[job.key] = job
        self._count(job, 1)

    def _count(self, job: Job, number: int) -> None:
        for task in job.tasks.values():
            self._book(task, task.status, number)

    def _rebuild_queues(self) -> None:
        records = [item for item in self.cluster.objects.get(Queue, {}).values() if isinstance(item, Queue)]
        # Most changes are those of a status, our own.
        specs = {replace(record, version=0) for record in records}
        if specs == self._queue_specs:
            return
        self._queue_specs = specs
        self.generation += 1
        self.tree = QueueTree(records, self._default_queue)
        for job in self.jobs.values():
            queue = self.tree.by_name.get(job.queue)
            if queue is not None:
                queue.jobs[job.key] = job
                for task in job.tasks.values():
                    self._book_queue(task, task.status, 1)
        for job in list(self.jobs.values()):
            self._refresh(job)

    def move(self, task: Task, status: Status) -> None:
        """The task's status is this from now on."""
        if status is not task.status:
            old = task.status
            self.shift(task, status)
            self.moved(task, old)

    def shift(self, task: Task, status: Status) -> None:
        """Counts the task under another status; tentative moves do this and take it back the same way."""
        job, old = task.job, task.status
        self._book(task, old, -1)
        job.counts[old] -= 1
        job.counts[status] += 1
        if task.pod.request:
            job.asking += (status is Status.PENDING) - (old is Status.PENDING)
        task.status = status
        self._book(task, status, 1)
        if status is Status.PENDING:
            job.wait(task)

    def moved(self, task: Task, old: Status) -> None:
        """What follows from a move that is final."""
        status = task.status
        # Room that is being left is nobody's yet.
        if old in HOLDING and status not in HOLDING:
            self.generation += 1
        if status not in (Status.PENDING, Status.PROMISED):
            self.settled[task.uid] = None
        if status is Status.PROMISED:
            self.promised[task.job.key] = task.job
        if status is Status.ASSUMED and self._near_others:
            # Whoever waits for company may have it now.
            for job in list(self._near_others.values()):
                job.parked = -1
                self.push(job)
        self.push(task.job)

    def _book(self, task: Task, status: Status, number: int) -> None:
        if status in SHARING:
            add(task.job.allocated, task.amounts, number)
        if status in HOLDING:
            add(self._held, task.amounts, number)
        self._book_queue(task, status, number)

    def _book_queue(self, task: Task, status: Status, number: int) -> None:
        queue = self.tree.by_name.get(task.job.queue)
        if queue is None:
            return
        sharing = number if status in SHARING else 0
        # What cannot be scheduled wants nothing, or its queue would deserve room that it cannot use.
        wanting = sharing or (number if status is Status.PENDING and task.job.problem is None else 0)
        queue.book(sharing, number if status in HOLDING else 0, wanting, task.amounts)

    def push(self, job: Job) -> None:
        """Gives the job its place in its queue, if it has anything to place."""
        self.stirred[job.key] = job
        job.ticket = self._tickets = self._tickets + 1
        self.parked.pop(job.key, None)
        self._near_others.pop(job.key, None)
        queue = self.tree.by_name.get(job.queue)
        if queue is None or job.problem is not None or not job.pending or not self.enough(job):
            return
        if self.rules.enqueues and not job.inqueue and job.group is not None and job.group.min_resources:
            if not job.occupied and job.group.phase in ("", "Pending"):
                self.outside[job.key] = job
                return
            job.inqueue = True
        if job.parked == self.generation:
            self.parked[job.key] = job
            return
        job.order = self.rules.job_order(job, self.total)
        heappush(queue.order if job.asking else queue.idle, (job.order, job.ticket, job))

    def enough(self, job: Job) -> bool:
        """Whether the job has as many members as must start together."""
        return not self.rules.gangs or job.valid >= job.min_member

    def pop(self, places: list[Place]) -> Job | None:
        """The first job in order that has something to place."""
        while places:
            _unused, ticket, job = heappop(places)
            if ticket == job.ticket:
                return job
        return None

    def park(self, job: Job, task: Task) -> None:
        """The job waits until something changes, because this task of it does not fit."""
        job.parked = self.generation
        job.ticket = self._tickets = self._tickets + 1
        self.parked[job.key] = job
        self.stirred[job.key] = job
        if task.pod.spec.affinity or task.pod.spec.spread:
            self._near_others[job.key] = job

    def _reorder(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            job.parked = -1
            self.push(job)

    def let_in(self, job: Job) -> None:
        """What the group asks for at least is free."""
        job.inqueue = True
        self.outside.pop(job.key, None)
        self.push(job)

    def idle(self) -> Totals:
        """What is free of what there is for our pods."""
        return {name: amount - self._held.get(name, 0) for name, amount in self.total.items()}

    def _add_up(self) -> None:
        """What there is for our pods, and what each queue deserves of it."""
        columns = self.cluster.columns
        usable = np.equal(columns.flags & (PRESENT | HELD | UNREADABLE), PRESENT)
        sums = columns.free[:, usable].sum(axis=1).tolist()
        total = {name: sums[index] + self._held.get(name, 0) for index, name in enumerate(columns.axis.names)}
        total.pop(PODS)
        if total != self.total:
            self.total = total
            self._reorder([job for job in self.jobs.values() if job.pending and job.allocated])
        self.tree.divide(total)
