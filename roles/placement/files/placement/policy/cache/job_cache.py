# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs and queues as the state of the cluster implies them, kept up in time proportional to what changed."""

from collections.abc import Iterable, MutableMapping
from dataclasses import replace
from typing import Any, Final

from placement.model.amounts.quantity import PODS, Amounts
from placement.model.amounts.totals import Totals
from placement.model.device_slices import DeviceSlice
from placement.model.messages.event import Object
from placement.model.node_zones import NodeZones
from placement.model.objects.disruption import DisruptionBudget
from placement.model.objects.pod import Pod
from placement.model.objects.volume import PersistentVolumeClaim, VolumeAttachment
from placement.model.objects.workload import Namespace, PodGroup, PriorityClass, Queue
from placement.model.rules.selector import LabelPairs
from placement.model.slicing import Steps, finish, paced, pauses
from placement.policy.cache.context import Context, Versions
from placement.policy.cache.intake import Intake
from placement.policy.cache.job_table import JobTable
from placement.policy.cache.quota.queue_admission import QueueAdmission
from placement.policy.cache.quota.usage import Usage
from placement.policy.cache.scheduling_queue.queueing_hints import VOLUME_KINDS, Hints
from placement.policy.cache.scheduling_queue.scheduling_queue import SchedulingQueue
from placement.policy.jobs.batch_job_tags import BatchJobTags
from placement.policy.jobs.group_key import VOLCANO_SCHEDULER, GroupKey, group_key
from placement.policy.jobs.job import (
    ACTIVE,
    ON_NODE,
    RESERVES_NODE,
    STARTED,
    Job,
    Problem,
    Status,
    Task,
    alike,
    counted,
    status_of,
)
from placement.policy.plugins.plugin_set import PluginSet
from placement.policy.queues.room import UsableRoom
from placement.policy.queues.tree import QueueTree
from placement.state.cluster import Cluster
from placement.state.nodes.node_columns import Ring

# Tasks that get the keys of other plugins in one step.
_REKEYED: Final = 256
# Pods or jobs that get their places in a new tree of queues in one step.
_REBUILT: Final = 512


class JobCache:
    """Keep the jobs and their tasks: the table, the sums, the admission and the queue, which do not know each other.

    Only this class moves a task from one status or queue to another, and tells the four of it.
    """

    def __init__(self, cluster: Cluster, plugins: PluginSet, *, scheduler_name: str, default_queue: str) -> None:
        self.cluster = cluster
        self.scheduler_name = scheduler_name
        self.versions = Versions()
        self._context = context = Context(plugins, QueueTree((), default_queue))
        self.jobs = JobTable(context)
        self.usage = Usage(context, UsableRoom(cluster, self.jobs.tasks.__contains__))
        self.admission = QueueAdmission(context, self.versions, cluster, default_queue)
        self.queue = SchedulingQueue(
            context,
            self.versions,
            Hints(cluster.labelsets, cluster.columns.axis),
            stands_for_volcano=scheduler_name == VOLCANO_SCHEDULER,
        )
        # What others keep by the key of a job; it is dropped with the job.
        self.known: list[MutableMapping[GroupKey, Any]] = []
        # Pods of ours that are gone or placed, so that what was last said of them is dropped.
        self.settled: dict[str, None] = {}
        # Whether a statement, a search or a sync is between its begin and its end: no event may be taken in.
        self.in_transaction = False
        # Pods that are evicted or terminate.
        self.releasing: dict[str, Task] = {}
        # Rows of pods with confirmed bindings.
        self.confirmed = Ring()
        # For which jobs of the batch system pods were bound.
        self.tags = BatchJobTags()
        # How often pods have got other labels or requests, and closed nodes have opened, at the last sync.
        self._moves = (0, 0)
        # How often label sets had been split at the last sync.
        self._splits = 0
        # Jobs that have the places of other plugins, since those were configured.
        self._misplaced: list[Job] = []
        self._foreigners: dict[str, Job] = {}
        self._new_groups = Intake(is_new=lambda uid: not self.admission.groups.knows(uid), take_in=self._group_changed)
        self._new_pods = Intake(is_new=self._is_new, take_in=self._pod_changed)

    @property
    def plugins(self) -> PluginSet:
        """Return the plugins that order the jobs."""
        return self._context.plugins

    @property
    def tree(self) -> QueueTree:
        """Return the tree of queues."""
        return self._context.tree

    @property
    def total(self) -> Totals:
        """Return the amounts that the queues divide: what is free, and what our pods hold already."""
        return self._context.total

    def reconfigure(self, plugins: PluginSet) -> None:
        """Order jobs by these plugins from now on; no job has a place before the next sync gives it one."""
        self._context.plugins = plugins
        self.queue.forget_orders()
        self._misplaced = list(self.jobs.by_key.values())[::-1]
        self.versions.room += 1

    def sync(self) -> None:
        """Take in what has changed in the state."""
        finish(self.sync_steps())

    def sync_steps(self) -> Steps[None]:
        """Take in what has changed in the state, in steps; until the last of them nothing here may be read."""
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
            for job in self.jobs.by_key.values():
                job.mixed = job.mixed or len(job.tasks) > 1
        moves = (self.cluster.pods.amended, self.cluster.reopened)
        if self._moves != moves:
            self._moves = moves
            self.versions.room += 1
        yield from self._retry_for_departures()
        yield from self._new_groups.notice(groups)
        yield from self._new_pods.notice(pods)
        # A pod would be told that it has no group if its group were not taken in first.
        self._new_groups.take_some_in()
        self._new_pods.take_some_in()
        for job in self.admission.take_some():
            if self.jobs.by_key.get(job.key) is job:
                self._read_again(job)
        yield from self._divide()
        yield from self.queue.retry_limited()
        yield from self.queue.retry_parked(arriving=self.arriving)
        self.in_transaction = False

    @property
    def arriving(self) -> bool:
        """Return whether new groups or pods are still to be taken in."""
        return bool(self._new_groups or self._new_pods)

    def namespace_labels(self, job: Job) -> LabelPairs:
        """Return the labels of the job's namespace, as far as it is known."""
        namespace = self.cluster.objects.find(Namespace, job.key.namespace)
        return namespace.labels if namespace is not None else ()

    def give_up(self, job: Job, problem: Problem) -> None:
        """Note that the job fits on no node there is: its queue deserves nothing for it until nodes change."""
        self.admission.never_fits[job.key] = job
        self._assign(job, job.queue, problem)
        self.queue.push(job)

    def archive(self, task: Task) -> None:
        """Drop the job of a pod that has no group and has its node, unless the job is still to be read again."""
        job, unread = task.owner, self.admission.read_before_change
        if isinstance(job, str) or (unread and job.key in unread):
            return
        if self.jobs.archive(task):
            self._forget(job.key)

    def move(self, task: Task, status: Status) -> None:
        """Give the task this status for good."""
        if status is not task.status:
            job, old = task.job, task.status
            others_wait = Status.PENDING in (old, status)
            if others_wait:
                # The job lacks other tasks than those that were tried.
                job.forget_tries()
            self.shift(task, status)
            self.moved(task, old)
            if others_wait and job.key in self.admission.never_fits:
                # Of these tasks it is not known that they can never run.
                self._refresh(job)
            else:
                self.queue.push(job)

    def shift(self, task: Task, status: Status) -> None:
        """Count the task under another status; a tentative move does this and takes it back the same way."""
        self.jobs.restore(task)
        job, old = task.job, task.status
        self.usage.count(job, task.amounts, old, status)
        job.counts[old] -= 1
        job.counts[status] += 1
        if job.minimums is not None:
            job.minimums.move(task, old, status)
        if task.pod.request:
            job.requesting += (status is Status.PENDING) - (old is Status.PENDING)
        if (status in ACTIVE) != (old in ACTIVE):
            self.usage.claim(task.pod, came=status in ACTIVE)
        task.status = status
        if status is Status.PENDING:
            job.wait(task)
        if old is Status.RELEASING:
            del self.releasing[task.uid]
        if status is Status.RELEASING:
            self.releasing[task.uid] = task

    def moved(self, task: Task, old: Status) -> None:
        """Draw the consequences of a move that is final; the caller pushes the job, once for all its moves."""
        status, job = task.status, task.job
        job.note(status, old)
        # A task that is being evicted still takes its room. Which node it leaves is noted by the state.
        if old in RESERVES_NODE and status not in RESERVES_NODE:
            self.queue.queue_shrunk(task.queue)
            # Its node may be gone already, so that no room is freed; pipelined jobs wait for the queue, too.
            self.versions.departures += 1
        if old is Status.ALLOCATED:
            self.versions.eviction += 1
            if task.entry.row >= 0:
                # It may be evicted from now on.
                self.confirmed.note(task.entry.row)
        if job.min_member > 1:
            # Whether an eviction breaks a gang depends on all nodes of its members.
            self.versions.evictability += 1
        if status not in (Status.PENDING, Status.PIPELINED):
            self.settled[task.uid] = None
        if status is Status.PENDING:
            job.unreported[task.uid] = task
        elif job.unreported:
            job.unreported.pop(task.uid, None)
        if status is Status.PIPELINED:
            self.queue.pipelined[job.key] = job
        if status in ON_NODE and old not in ON_NODE:
            self.queue.hints.pod_placed(task.entry.labelset)
        if (status in STARTED) != (old in STARTED) and self.tree.is_closed(job.queue):
            self._refresh(job)

    def _place_again(self) -> Steps[None]:
        """Give the jobs their places by the plugins of now, some in each step."""
        pacing = pauses(_REKEYED)
        while self._misplaced:
            job = self._misplaced.pop()
            if self.jobs.by_key.get(job.key) is not job:
                continue
            for task in job.tasks.values():
                task.key = self.plugins.task_order(task.pod)
                if task.status is Status.PENDING:
                    job.wait(task)
                if next(pacing):
                    yield
            self.queue.reorder(job)

    def _divide(self) -> Steps[None]:
        """Add up what queues share, and divide it among them."""
        total = self.usage.measure()
        if total != self._context.total:
            self._context.total = total
            self.queue.total_changed()
        self.queue.reorder_some()
        redivided = yield from self.tree.divide(total)
        self.versions.eviction += redivided

    def _rebuild_queues(self) -> Steps[None]:
        """Build the tree of queues again; jobs of queues that admit others now are read again, some in each step."""
        tree = self.admission.new_tree()
        if tree is None:
            return
        self.versions.room += 1
        old = self.tree
        affected = tree.admits_otherwise(old)
        archived = [task for name in affected & old.by_name.keys() for task in old.by_name[name].archived_tasks()]
        for task, pause in paced(archived, _REBUILT):
            self.jobs.restore(task)
            if pause:
                yield
        tree.take_over(old)
        self._context.tree = tree
        pacing = pauses(_REBUILT)
        for job in [job for job in self.jobs.by_key.values() if job.queue in affected]:
            queue = tree.by_name.get(job.queue)
            if queue is not None and job.queue not in old.by_name:
                queue.jobs[job.key] = job
                for task in job.tasks.values():
                    self.usage.count_in_queue(job, task.amounts, None, task.status)
                    if next(pacing):
                        yield
            self.admission.queue_changed(job)
            if next(pacing):
                yield

    def _objects_changed(self, kind: type[Object], uids: Iterable[str]) -> None:
        """Look again at the jobs that a change of these objects can help."""
        hints = self.queue.hints
        if kind is PriorityClass:
            self.admission.classes_changed(self.jobs.by_key)
        elif kind is DisruptionBudget:
            # No pod finds a node by it, but more pods may be evicted.
            self.versions.eviction += 1
        elif kind is Namespace:
            hints.namespaces_changed()
        elif kind is PersistentVolumeClaim:
            claims = self.cluster.objects.get(kind, {})
            hints.claims_changed(claim for uid in uids if (claim := claims.get(uid)) is not None)
        elif kind is VolumeAttachment:
            # What is attached leaves no room; what is detached does.
            known = self.cluster.objects.get(kind, {})
            if any(uid not in known for uid in uids):
                hints.volumes_changed()
        elif kind in VOLUME_KINDS:
            hints.volumes_changed()
        elif kind in (NodeZones, DeviceSlice):
            # It is advice which node is better, and keeps no job from any. Devices are only shown.
            pass
        else:
            self.versions.room += 1
            self.admission.reconsider()

    def _group_changed(self, uid: str) -> None:
        for key in self.admission.groups.changed(uid):
            self._refresh(self.jobs.obtain(key))
            self._forget_empty(key)

    def _is_new(self, uid: str) -> bool:
        return uid not in self.jobs.tasks and uid in self.cluster.pods.by_uid

    def _retry_for_departures(self) -> Steps[None]:
        """Have the jobs tried again that pods have left room for, or do not keep away any more."""
        departed, self.cluster.pods.departed = self.cluster.pods.departed, []
        rows: dict[int, None] = {}
        for left, pause in paced(departed, _REBUILT):
            self.queue.hints.pod_left(left)
            rows[left.row] = None
            if pause:
                yield
        if not rows:
            return
        self.versions.departures += 1
        if self.plugins.site:
            # What a plugin of the site reads is not known.
            self.versions.room += 1
        else:
            yield from self.queue.retry_helped(self.cluster.columns, [*rows])

    def _pod_changed(self, uid: str) -> None:
        entry, task = self.cluster.pods.by_uid.get(uid), self.jobs.tasks.get(uid)
        if task is not None:
            self.jobs.restore(task)
        if entry is None or entry.pod.spec.scheduler_name != self.scheduler_name:
            if entry is not None and entry.charged and not entry.leaving:
                self.queue.hints.pod_placed(entry.labelset)
            if task is not None:
                # What a pod leaves that is gone has been noted by the state; this one asks for another scheduler.
                self.versions.room += entry is not None
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
            job = self.jobs.obtain(key)
            task = Task(entry, job, self.plugins.task_order(entry.pod))
            self.jobs.tasks[uid] = job.tasks[uid] = task
            job.counts[task.status] += 1
            self._join(job, task)
        task.entry = entry
        self._amend(task, entry.pod)
        self.move(task, status_of(entry))
        self.archive(task)

    def _amend(self, task: Task, pod: Pod) -> None:
        """Take in that the pod is as given: its requests and its annotations may be new."""
        old, task.pod = task.pod, pod
        if (pod.labels, pod.spec, pod.request) != (old.labels, old.spec, old.request):
            task.job.mixed = len(task.job.tasks) > 1
        if (pod.request, pod.spec, pod.annotations) == (old.request, old.spec, old.annotations):
            return
        if pod.spec.tolerations != old.spec.tolerations and task.status in ACTIVE:
            self.usage.claim(old, came=False)
            self.usage.claim(pod, came=True)
        job = task.job
        self.usage.count(job, task.amounts, task.status, None)
        if task.status is Status.PENDING:
            job.requesting += bool(pod.request) - bool(old.request)
        task.amounts = counted(pod.request)
        self.usage.count(job, task.amounts, None, task.status)
        if pod.request != old.request:
            self.versions.room += 1
        job.forget_tries()
        self._refresh(job)

    def _join(self, job: Job, task: Task) -> None:
        """Take in a new task of the job; the job may fit now, and the figures of its other tasks are there already."""
        job.forget_tries()
        if len(job.tasks) == 1:
            job.mixed = False
            self._refresh(job)
            return
        if task.pod.spec.topology is not None:
            job.note_topology(task.pod.spec.topology)
        if not job.mixed:
            job.mixed = not alike(task, next(iter(job.tasks.values())))
        if job.group is None or not job.group.has_priority:
            self.versions.evictability += task.pod.spec.priority > job.priority
            job.priority = max(job.priority, task.pod.spec.priority)
        if job.group is None:
            job.created = min(job.created, task.pod.created)

    def _foreign_changed(self, uid: str, key: GroupKey | None) -> None:
        """Count a pod of another scheduler in the group it names; None if it is gone."""
        jobs = self.jobs
        old, job = self._foreigners.pop(uid, None), jobs.obtain(key) if key is not None and key.named else None
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
        """Remove the task from its job and from the table."""
        job = task.job
        self.move(task, Status.FAILED)
        job.counts[Status.FAILED] -= 1
        del job.tasks[task.uid], self.jobs.tasks[task.uid]
        self.settled[task.uid] = None
        if not job.tasks and job.group is not None:
            # Only now it shows whether the job is over, and which scheduler owns its group.
            self.queue.push(job)
        highest = task.pod.spec.priority == job.priority and not (job.group is not None and job.group.has_priority)
        if highest and job.tasks and all(left.pod.spec.priority < job.priority for left in job.tasks.values()):
            self._read_again(job)
        self._forget_empty(job.key)

    def _refresh(self, job: Job) -> None:
        """Read again what the job's group, its pods' annotations and the priority classes say."""
        group, priority = job.group, job.priority
        name, problem = self.admission.read(job)
        if job.priority != priority or _asks_otherwise(group, job.group):
            job.forget_tries()
        if job.queue != name or job.problem != problem:
            self._assign(job, name, problem)
        self.queue.push(job)

    def _read_again(self, job: Job) -> None:
        """Refresh the job and archive its tasks; its priority may decide about evictions now."""
        priority = job.priority
        self._refresh(job)
        self.versions.eviction += job.priority != priority
        for task in list(job.tasks.values()):
            self.archive(task)

    def _assign(self, job: Job, name: str, problem: Problem | None = None) -> None:
        """Move a job, with all that it is counted for, to another queue, or in and out of scheduling."""
        self.versions.evictability += bool(job.allocated.get(PODS))
        if job.queue != name:
            job.forget_tries()
            self.queue.queue_shrunk(job.queue)
        # Most jobs that come are one pod, for which a Counter takes longer than all else here.
        numbers: dict[tuple[Status, Amounts], int] = {}
        for task in job.tasks.values():
            kind = (task.status, task.amounts)
            numbers[kind] = numbers.get(kind, 0) + 1
        for (status, amounts), number in numbers.items():
            self.usage.count(job, amounts, status, None, number)
        self.admission.assign(job, name, problem)
        for (status, amounts), number in numbers.items():
            self.usage.count(job, amounts, None, status, number)

    def _forget_empty(self, key: GroupKey) -> None:
        """Drop the job of this key if it has neither tasks nor a group."""
        job = self.jobs.by_key.get(key)
        if job is not None and not job.tasks and not job.foreign and job.group is None:
            self._assign(job, "")
            del self.jobs.by_key[key]
            self._forget(key)

    def _forget(self, key: GroupKey) -> None:
        """Drop what is known of a job that is gone."""
        self.queue.forget(key)
        for known in self.known:
            known.pop(key, None)
        self.admission.forget(key)


def _asks_otherwise(before: PodGroup | None, group: PodGroup | None) -> bool:
    """Return whether the group asks for something else; its phase is only told."""
    if before is None or group is None or before is group:
        return before is not group
    return replace(before, version=0, phase="") != replace(group, version=0, phase="")
