# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The book: jobs and queues as they follow from the state, kept up with it in time proportional to what changed."""

from collections.abc import Iterable, Iterator

from placement.model.disruption import DisruptionBudget
from placement.model.event import Object
from placement.model.pod import Pod
from placement.model.selector import LabelPairs
from placement.model.volume import PersistentVolumeClaim
from placement.model.workload import Namespace, PodGroup, PriorityClass, Queue
from placement.policy.cache.intake import Intake
from placement.policy.cache.queue_admission import QueueAdmission
from placement.policy.cache.queueing_hints import VOLUME_KINDS
from placement.policy.jobs.batch_job_tags import BatchJobTags
from placement.policy.jobs.group_key import VOLCANO_SCHEDULER, GroupKey, group_key
from placement.policy.jobs.job import BEGUN, CLAIMING, PLACED, TAKING, Job, Status, Task, alike, counted, status_of
from placement.policy.plugins.plugin_set import PluginSet
from placement.state.cluster import Cluster
from placement.state.node_columns import Ring


class JobCache(QueueAdmission):
    """Everything of ours, by job and by queue."""

    def __init__(self, cluster: Cluster, rules: PluginSet, *, scheduler_name: str, default_queue: str) -> None:
        super().__init__(cluster, rules, default_queue)
        self.scheduler_name = scheduler_name
        self.stands_for_volcano = scheduler_name == VOLCANO_SCHEDULER
        # How often pods have got other labels or requests, and closed nodes have opened, when that was last looked at.
        self._moves = (0, 0)
        # How often label sets had been split when that was last looked at.
        self._splits = 0
        # Pods of ours that are gone or placed, so that nobody keeps what was last said of them.
        self.settled: dict[str, None] = {}
        # Whether somebody is in the middle of what has to be one piece: until its end nothing may be taken in.
        self.in_transaction = False
        # Pods that are asked to leave or on their way out.
        self.releasing: dict[str, Task] = {}
        # Rows of pods whose bindings have been confirmed.
        self.confirmed = Ring()
        # For which jobs of the batch system pods were bound.
        self.tags = BatchJobTags()
        self._foreigners: dict[str, Job] = {}
        self._new_groups = Intake(is_new=lambda uid: not self.groups.knows(uid), take_in=self._group_changed)
        self._new_pods = Intake(is_new=self._is_new, take_in=self._pod_changed)

    def sync(self) -> None:
        """Takes in what has changed in the state."""
        for _unused in self.sync_steps():
            pass

    def sync_steps(self) -> Iterator[None]:
        """The same; between two answers others may have a turn, who look at nothing here and change nothing."""
        self.in_transaction = True
        changed = self.cluster.changed
        groups, pods = changed.pop(PodGroup, {}), changed.pop(Pod, {})
        yield from self._place_again()
        for kind, uids in changed.items():
            if kind is Queue:
                yield from self._rebuild_queues()
            else:
                self._objects_changed(kind, uids)
        changed.clear()
        if self._splits != self.cluster.labelsets.splits:
            # Labels that told no pods apart do so now.
            self._splits = self.cluster.labelsets.splits
            for job in self.jobs.values():
                job.motley = job.motley or len(job.tasks) > 1
        moves = (self.cluster.pods.amended, self.cluster.reopened)
        if self._moves != moves:
            self._moves = moves
            self.room_version += 1
        yield from self._new_groups.notice(groups)
        yield from self._new_pods.notice(pods)
        # A pod whose group has not been read yet would be told that there is none.
        self._new_groups.take_some_in()
        self._new_pods.take_some_in()
        self._read_some_again()
        yield from self._add_up()
        yield from self.retry_parked(arriving=self.arriving)
        self.in_transaction = False

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

    def _objects_changed(self, kind: type[Object], uids: Iterable[str]) -> None:
        """Look again at the jobs that news of such objects can help."""
        if kind is PriorityClass:
            self._reread_classes()
        elif kind is DisruptionBudget:
            # No pod finds a node by it, but more pods may be evicted.
            self.eviction_version += 1
        elif kind is Namespace:
            self.hints.namespaces_changed()
        elif kind is PersistentVolumeClaim:
            claims = self.cluster.objects.get(kind, {})
            self.hints.claims_changed(claim for uid in uids if (claim := claims.get(uid)) is not None)
        elif kind in VOLUME_KINDS:
            self.hints.volumes_changed()
        else:
            self.room_version += 1
            self.reconsider()

    def namespace_labels(self, job: Job) -> LabelPairs:
        """Of the job's namespace, as far as it is known."""
        namespace = self.cluster.objects.find(Namespace, job.key.namespace)
        return namespace.labels if namespace is not None else ()

    def _pod_changed(self, uid: str) -> None:
        entry, task = self.cluster.pods.by_uid.get(uid), self.tasks.get(uid)
        if task is not None:
            self.restore(task)
        if entry is None or entry.pod.spec.scheduler_name != self.scheduler_name:
            if entry is None or not entry.charged or entry.leaving:
                self.room_version += 1
            else:
                self.hints.pod_placed(entry.labelset)
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
        self.archive(task)

    def _amend(self, task: Task, pod: Pod) -> None:
        """The pod is as given; what it asks for, or what its annotations say, can be new."""
        old, task.pod = task.pod, pod
        if (pod.labels, pod.spec, pod.request) != (old.labels, old.spec, old.request):
            task.job.motley = len(task.job.tasks) > 1
        if (pod.request, pod.spec, pod.annotations) == (old.request, old.spec, old.annotations):
            return
        if pod.spec.tolerations != old.spec.tolerations and task.status in CLAIMING:
            self._claim_room(old, came=False)
            self._claim_room(pod, came=True)
        job = task.job
        self._book(task, task.status, None)
        if task.status is Status.PENDING:
            job.asking += bool(pod.request) - bool(old.request)
        task.amounts = counted(pod.request)
        self._book(task, None, task.status)
        if pod.request != old.request:
            self.room_version += 1
        job.unschedulable_at = job.preempt_tried_at = job.reclaim_tried_at = -1
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
        if not job.tasks and job.group is not None:
            # Whether it is over, and whose it is, shows only now.
            self.push(job)
        highest = task.pod.spec.priority == job.priority and not (job.group is not None and job.group.has_priority)
        if highest and job.tasks and all(left.pod.spec.priority < job.priority for left in job.tasks.values()):
            self._read_again(job)
        self._forget_empty(job.key)

    def _forget_empty(self, key: GroupKey) -> None:
        job = self.jobs.get(key)
        if job is not None and not job.tasks and not job.foreign and job.group is None:
            self._enqueue_in(job, "")
            del self.jobs[key]
            self.leave(key)

    def _join(self, job: Job, task: Task) -> None:
        """A task has come to the job; the others are in its figures already, and may fit where they do not."""
        job.unschedulable_at = job.preempt_tried_at = job.reclaim_tried_at = -1
        if len(job.tasks) == 1:
            job.motley = False
            self._refresh(job)
            return
        if not job.motley:
            job.motley = not alike(task, next(iter(job.tasks.values())))
        if job.group is None or not job.group.has_priority:
            self.upsets += task.pod.spec.priority > job.priority
            job.priority = max(job.priority, task.pod.spec.priority)
        if job.group is None:
            job.created = min(job.created, task.pod.created)

    def move(self, task: Task, status: Status) -> None:
        """The task's status is this from now on."""
        if status is not task.status:
            old = task.status
            self.shift(task, status)
            self.moved(task, old)
            self.push(task.job)

    def _claim_room(self, pod: Pod, *, came: bool) -> None:
        """Note a pod that waits or is placed, or one that does so no longer: nodes that it tolerates are shared."""
        if came:
            self.room.enter(pod.spec.tolerations)
        else:
            self.room.leave(pod.spec.tolerations)

    def shift(self, task: Task, status: Status) -> None:
        """Counts the task under another status; tentative moves do this and take it back the same way."""
        self.restore(task)
        job, old = task.job, task.status
        self._book(task, old, status)
        job.counts[old] -= 1
        job.counts[status] += 1
        if task.pod.request:
            job.asking += (status is Status.PENDING) - (old is Status.PENDING)
        if (status in CLAIMING) != (old in CLAIMING):
            self._claim_room(task.pod, came=status in CLAIMING)
        task.status = status
        if status is Status.PENDING:
            job.wait(task)
        if old is Status.RELEASING:
            del self.releasing[task.uid]
        if status is Status.RELEASING:
            self.releasing[task.uid] = task

    def moved(self, task: Task, old: Status) -> None:
        """What follows from a move that is final; the job wants to be pushed, once it is for several moves."""
        status, job = task.status, task.job
        job.note(status, old)
        # Room that is being left is nobody's yet.
        if old in TAKING and status not in TAKING:
            self.room_version += 1
        if old is Status.ALLOCATED:
            self.eviction_version += 1
            if task.entry.row >= 0:
                # It may be evicted from now on.
                self.confirmed.note(task.entry.row)
        if job.min_member > 1:
            # Whether a gang would be broken is a question about all nodes of its members.
            self.upsets += 1
        if status not in (Status.PENDING, Status.PIPELINED):
            self.settled[task.uid] = None
        if status is Status.PENDING:
            job.untold[task.uid] = task
        elif job.untold:
            job.untold.pop(task.uid, None)
        if status is Status.PIPELINED:
            self.pipelined[task.job.key] = task.job
        if status in PLACED and old not in PLACED:
            self.hints.pod_placed(task.entry.labelset)
        if (status in BEGUN) != (old in BEGUN) and self.tree.is_closed(task.job.queue):
            self._refresh(task.job)
