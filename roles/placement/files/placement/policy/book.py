# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The book: jobs and queues as they follow from the state, kept up with it in time proportional to what changed."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from placement.model.event import Object
from placement.model.pod import Pod
from placement.model.selector import LabelPairs
from placement.model.workload import Namespace, PodGroup, PriorityClass, Queue
from placement.policy.arrivals import Arrivals
from placement.policy.figures import Figures
from placement.policy.groups import GroupIndex
from placement.policy.jobs import BEGUN, TAKING, Job, Problem, Status, Task, counted, status_of
from placement.policy.membership import GroupKey, group_key
from placement.policy.queues import QueueTree
from placement.policy.rules import Rules
from placement.policy.tags import Tags
from placement.state.cluster import Cluster

# So many jobs are reconsidered in one slice.
_RECONSIDERED: Final = 128


class Book(Figures):
    """Everything of ours, by job and by queue."""

    def __init__(self, cluster: Cluster, rules: Rules, *, scheduler_name: str, default_queue: str) -> None:
        super().__init__(cluster, rules, QueueTree((), default_queue))
        self.scheduler_name = scheduler_name
        self.groups = GroupIndex(cluster, default_queue)
        self._default_queue = default_queue
        self._queue_specs: set[Queue] = set()
        # How often pods have got other labels or requests, and closed nodes have opened, when that was last looked at.
        self._moves = (0, 0)
        # Pods of ours that are gone or placed, so that nobody keeps what was last said of them.
        self.settled: dict[str, None] = {}
        # Jobs that could not run if all nodes were empty, and those that have to be read again: some in each slice.
        self.hopeless: dict[GroupKey, Job] = {}
        self.doubtful: dict[GroupKey, Job] = {}
        # Whether somebody is in the middle of what has to be one piece: until its end nothing may be taken in.
        self.frozen = False
        # Pods that are asked to leave or on their way out.
        self.releasing: dict[str, Task] = {}
        # For which jobs of the batch system pods were bound.
        self.tags = Tags()
        self._foreigners: dict[str, Job] = {}
        self._new_groups = Arrivals(is_new=lambda uid: not self.groups.knows(uid), take_in=self._group_changed)
        self._new_pods = Arrivals(is_new=self._is_new, take_in=self._pod_changed)

    def catch_up(self) -> None:
        """Takes in what has changed in the state."""
        for _unused in self.catching_up():
            pass

    def catching_up(self) -> Iterator[None]:
        """The same; between two answers others may have a turn, who look at nothing here and change nothing."""
        self.frozen = True
        changed = self.cluster.changed
        groups, pods = changed.pop(PodGroup, {}), changed.pop(Pod, {})
        for kind in changed:
            self._objects_changed(kind)
        changed.clear()
        moves = (self.cluster.pods.amended, self.cluster.reopened)
        if self._moves != moves:
            self._moves = moves
            self.generation += 1
        yield from self._new_groups.notice(groups)
        yield from self._new_pods.notice(pods)
        # A pod whose group has not been read yet would be told that there is none.
        self._new_groups.take_some_in()
        self._new_pods.take_some_in()
        for key in list(islice(self.doubtful, _RECONSIDERED)):
            job = self.doubtful.pop(key)
            if self.jobs.get(key) is job:
                self._read_again(job)
        self._add_up()
        self.retry_parked()
        self.frozen = False

    @property
    def arriving(self) -> bool:
        """Whether new groups or pods have not had their turn to be taken in."""
        return bool(self._new_groups or self._new_pods)

    def _is_new(self, uid: str) -> bool:
        return uid not in self.tasks and uid in self.cluster.pods.by_uid

    def _group_changed(self, uid: str) -> None:
        for key in self.groups.changed(uid):
            self._refresh(self.obtain(key))
            self._forget_empty(key)

    def _objects_changed(self, kind: type[Object]) -> None:
        if kind is Queue:
            self._rebuild_queues()
        elif kind is PriorityClass:
            self.openings += 1
            self.doubtful.update(
                {key: job for key, job in self.jobs.items() if job.group is not None and job.group.priority_class}
            )
        else:
            self.generation += 1
            self.reconsider()

    def namespace_labels(self, job: Job) -> LabelPairs:
        """Of the job's namespace, as far as it is known."""
        namespace = self.cluster.objects.find(Namespace, job.key.namespace)
        return namespace.labels if namespace is not None else ()

    def reconsider(self) -> None:
        """Jobs that could never run may have got the nodes they lacked; they are taken back in some at a time."""
        self.doubtful.update(self.hopeless)
        self.hopeless.clear()

    def give_up(self, job: Job, problem: Problem) -> None:
        """The job cannot run on the nodes there are: it waits for others, and its queue deserves nothing for it."""
        self.hopeless[job.key] = job
        self._enqueue_in(job, job.queue, problem)
        self.push(job)

    def _pod_changed(self, uid: str) -> None:
        entry, task = self.cluster.pods.by_uid.get(uid), self.tasks.get(uid)
        if task is not None:
            self.wake(task)
        if entry is None or entry.pod.spec.scheduler_name != self.scheduler_name:
            if entry is None or not entry.charged or entry.leaving:
                self.generation += 1
            else:
                self.company_came()
            if task is not None:
                self._drop(task)
            self.tags.forget(uid)
            self._foreign_changed(uid, group_key(entry.pod) if entry is not None else None)
            return
        self.tags.note(entry.pod)
        if task is not None and task.job.key != (key := group_key(entry.pod)):
            self._drop(task)
            task = None
        if task is None:
            key = group_key(entry.pod)
            job = self.obtain(key)
            task = Task(entry, job, self.rules.task_order(entry.pod))
            self.tasks[uid] = job.tasks[uid] = task
            job.counts[task.status] += 1
            self._join(job, task)
        task.entry = entry
        self._amend(task, entry.pod)
        self.move(task, status_of(entry))
        self.rest(task)

    def _amend(self, task: Task, pod: Pod) -> None:
        """The pod is as given; what it asks for, or what its annotations say, can be new."""
        old, task.pod = task.pod, pod
        if (pod.request, pod.spec, pod.annotations) == (old.request, old.spec, old.annotations):
            return
        job = task.job
        self._book(task, task.status, None)
        if task.status is Status.PENDING:
            job.asking += bool(pod.request) - bool(old.request)
        task.amounts = counted(pod.request)
        self._book(task, None, task.status)
        if pod.request != old.request:
            self.generation += 1
        job.parked = job.sought = job.reclaimed = -1
        self._refresh(job)

    def _foreign_changed(self, uid: str, key: GroupKey | None) -> None:
        old, job = self._foreigners.pop(uid, None), self.obtain(key) if key is not None and key.named else None
        if job is not None:
            self._foreigners[uid] = job
        if job is old:
            return
        if job is not None:
            job.foreign += 1
            self._refresh(job)
        if old is not None:
            old.foreign -= 1
            self._refresh(old)
            self._forget_empty(old.key)

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
            self.leave(key)

    def _join(self, job: Job, task: Task) -> None:
        """A task has come to the job; the others are in its figures already, and may fit where they do not."""
        job.parked = job.sought = job.reclaimed = -1
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
        problem = facts.problem or self.tree.refusal(facts.queue, job)
        if job.queue != facts.queue or job.problem != problem:
            self._enqueue_in(job, facts.queue, problem)
        self.push(job)

    def _read_again(self, job: Job) -> None:
        priority = job.priority
        self._refresh(job)
        # Others have to leave for it now, or it for others.
        self.openings += job.priority != priority
        for task in list(job.tasks.values()):
            self.rest(task)

    def _enqueue_in(self, job: Job, name: str, problem: Problem | None = None) -> None:
        """Moves a job, with all that it is counted for, to another queue, or in and out of scheduling."""
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

    def _rebuild_queues(self) -> None:
        records = [item for item in self.cluster.objects.get(Queue, {}).values() if isinstance(item, Queue)]
        # Most changes are those of a status, our own.
        specs = {replace(record, version=0) for record in records}
        if specs == self._queue_specs:
            return
        self._queue_specs = specs
        self.generation += 1
        old, tree = self.tree, QueueTree(records, self._default_queue)
        affected = tree.admits_otherwise(old)
        for task in [task for name in affected & old.by_name.keys() for task in old.by_name[name].at_rest()]:
            self.wake(task)
        tree.take_over(old)
        self.tree = tree
        concerned = [job for job in self.jobs.values() if job.queue in affected]
        for job in concerned:
            queue = tree.by_name.get(job.queue)
            if queue is not None and job.queue not in old.by_name:
                queue.jobs[job.key] = job
                for task in job.tasks.values():
                    self._book_queue(task, None, task.status)
        self.doubtful.update({job.key: job for job in concerned})

    def move(self, task: Task, status: Status) -> None:
        """The task's status is this from now on."""
        if status is not task.status:
            old = task.status
            self.shift(task, status)
            self.moved(task, old)
            self.push(task.job)

    def shift(self, task: Task, status: Status) -> None:
        """Counts the task under another status; tentative moves do this and take it back the same way."""
        self.wake(task)
        job, old = task.job, task.status
        self._book(task, old, status)
        job.counts[old] -= 1
        job.counts[status] += 1
        if task.pod.request:
            job.asking += (status is Status.PENDING) - (old is Status.PENDING)
        task.status = status
        if status is Status.PENDING:
            job.wait(task)
        if old is Status.RELEASING:
            del self.releasing[task.uid]
        if status is Status.RELEASING:
            self.releasing[task.uid] = task

    def moved(self, task: Task, old: Status) -> None:
        """What follows from a move that is final; the job wants to be pushed, once it is for several moves."""
        status = task.status
        task.job.note(status, old)
        # Room that is being left is nobody's yet.
        if old in TAKING and status not in TAKING:
            self.generation += 1
        if old is Status.ASSUMED:
            self.openings += 1
        if status not in (Status.PENDING, Status.PROMISED):
            self.settled[task.uid] = None
        if status is Status.PROMISED:
            self.promised[task.job.key] = task.job
        if status is Status.ASSUMED:
            self.company_came()
        if (status in BEGUN) != (old in BEGUN) and self.tree.is_closed(task.job.queue):
            self._refresh(task.job)
