# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The session: the job cache, the host selector and the plugins, and what the actions have decided so far."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from placement.model.messages.action import Action, Bind, BindVolume, SelectNode
from placement.model.objects.volume import PersistentVolume, PersistentVolumeClaim
from placement.model.objects.workload import GRAPH
from placement.model.slicing import SliceBudget, Steps, paced, to_the_end
from placement.policy.cache.equivalence_cache import FailureCache
from placement.policy.cache.job_cache import JobCache
from placement.policy.cache.preemptor_queue import PreemptorQueue
from placement.policy.framework.feasibility import Feasibility
from placement.policy.framework.placers.graph_placer import GraphPlacer
from placement.policy.framework.placers.host_selector import HostSelector
from placement.policy.framework.placers.placer import Placer
from placement.policy.framework.statement import Statement
from placement.policy.jobs.batch_jobs import BatchJobs
from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import Job, Task
from placement.policy.plugins.filters.filters import waits_for_others
from placement.policy.plugins.plugin_set import PluginSet
from placement.policy.queues.queue import QueueInfo
from placement.policy.queues.reservations import Reservations
from placement.state.nodes.diagnosis import Reasons

# Seconds that a provisioner has to make a volume, as many as kube-scheduler gives.
PROVISIONING: Final = 600.0
# Seconds that a gang may be bound in part, unless the settings say otherwise.
PARTIAL_GANG_SECONDS: Final = 120.0
# Tasks that are bound in one step.
_BOUND: Final = 128


@dataclass(frozen=True, slots=True)
class Unplaceable:
    """Why a job or its remaining tasks were not placed, with the nodes' reasons if nodes were asked."""

    reason: str
    message: str
    nodes: Reasons | None = None


@dataclass(frozen=True, slots=True)
class RefusedEviction:
    """Why a pod could not be evicted, and until when no eviction of it is tried, in monotonic seconds."""

    message: str
    until: float


@dataclass(frozen=True, slots=True)
class Provisioning:
    """Until when a pod with a node waits for volumes (monotonic seconds), and for which claims as they were before."""

    until: float
    claims: tuple[PersistentVolumeClaim, ...]
    # Tag of the batch system's job that the pod is bound for.
    tag: str = ""


@dataclass(slots=True)
class Session:
    """Hold what the actions of a cycle share; a cycle can last several slices, with events between them."""

    cache: JobCache
    host_selector: HostSelector
    graph_placer: GraphPlacer
    plugins: PluginSet
    now: float = 0.0
    # Grows with every slice: queues and jobs that an action holds may be gone then.
    slice: int = 0
    # Whether an action ended although it had more to do.
    unfinished: bool = False
    actions: list[Action] = field(default_factory=list)
    refusals: dict[GroupKey, Unplaceable] = field(default_factory=dict)
    # What has thrown jobs back since a try last refused them, such as a failed binding. The next reason replaces it.
    setbacks: dict[GroupKey, Unplaceable] = field(default_factory=dict)
    # Pods that the API refused to evict, by UID, and jobs whose promised room such a pod keeps.
    unevictable: dict[str, RefusedEviction] = field(default_factory=dict)
    blocked: dict[GroupKey, Unplaceable] = field(default_factory=dict)
    # How many evictions the API has refused.
    refused_evictions: int = 0
    # Jobs with pipelined tasks; by the first of the tasks that are bound together, the state at their last try.
    promises: dict[GroupKey, dict[str, Hashable]] = field(default_factory=dict)
    # Disruption budgets that refused an eviction, by UID, and until when no eviction exceeds them.
    exhausted_budgets: dict[str, float] = field(default_factory=dict)
    # Gangs that are bound in part: how long they may be (seconds), until when each may, and those that were evicted.
    partial_gang_seconds: float = PARTIAL_GANG_SECONDS
    deadlines: dict[GroupKey, float] = field(default_factory=dict)
    evicted_partials: dict[GroupKey, Unplaceable] = field(default_factory=dict)
    # Pods that have a node and wait for their volumes, or for those of other members of their gang.
    provisioning: dict[str, Provisioning] = field(default_factory=dict)
    # Jobs of the batch system that back pods.
    batch_jobs: BatchJobs = field(default_factory=BatchJobs)
    failures: FailureCache = field(default_factory=FailureCache)
    # Candidate finders by kind of preemptor, kept from one run of an action to the next.
    finders: dict[Hashable, Any] = field(default_factory=dict)
    effort: SliceBudget = field(default_factory=SliceBudget)
    # Jobs that preempt serves within their queue, and jobs that reclaim serves from other queues.
    preempting: PreemptorQueue = field(init=False)
    reclaiming: PreemptorQueue = field(init=False)

    def __post_init__(self) -> None:
        self.preempting, self.reclaiming = PreemptorQueue(self.cache), PreemptorQueue(self.cache)
        turns = (self.preempting.turns, self.reclaiming.turns)
        by_job = (self.refusals, self.setbacks, self.blocked, self.deadlines, self.evicted_partials)
        self.cache.known += (*by_job, self.promises, self.failures.passed, *turns)
        self.cache.known += (self.reservations.waiting_since, self.reservations.passed_over, self.reservations.vain)

    def placer(self, job: Job) -> Placer:
        """Return what chooses the job's nodes: the graph where the job or its queue asks for that, else the columns."""
        if job.topological:
            return self.graph_placer
        queue = self.cache.tree.by_name.get(job.queue)
        return self.graph_placer if queue is not None and queue.record.placed_by == GRAPH else self.host_selector

    @property
    def feasibility(self) -> Feasibility:
        """Return what says which nodes may hold a pod."""
        return self.host_selector.feasibility

    @property
    def reservations(self) -> Reservations:
        """Return what is kept for the first jobs of queues."""
        return self.host_selector.reservations

    def statement(self) -> Statement:
        """Begin a statement."""
        return Statement(self.cache)

    def refuse(self, job: Job, tried: Iterable[Task], refused: Unplaceable, *, limited: bool = False) -> None:
        """Make the job unschedulable until an event can help one of these tasks, and keep the reason.

        It is limited where not the nodes refuse a task, but a limit of its queue or of one above that.
        """
        self.refusals[job.key] = refused
        nodes = refused.nodes
        if nodes is not None:
            self.reservations.note(job)
        self.cache.queue.park(job, tried, limited=limited)
        self.cache.queue.judge(job, stuck=nodes is not None and not any(map(waits_for_others, nodes.kinds)))

    def set_back(self, job: Job, why: Unplaceable) -> None:
        """Note why the job waits again although it was placed or promised room; an older refusal is void."""
        self.refusals.pop(job.key, None)
        self.setbacks[job.key] = why

    def commit_and_bind(self, statement: Statement, tasks: Sequence[Task]) -> Steps[None]:
        """Commit the statement, and bind these tasks that it has placed, in steps."""
        return to_the_end(self._commit_and_bind(statement, tasks))

    def _commit_and_bind(self, statement: Statement, tasks: Sequence[Task]) -> Steps[None]:
        yield from statement.commit()
        if tasks:
            # No event comes between these two: neither yields outside of a transaction.
            yield from self.bind(*tasks)

    def bind(self, *tasks: Task, tag: str = "") -> Steps[None]:
        """Bind tasks of one job to their nodes, in steps, which the caller has to do to the end. The last sends all.

        No member of a gang is bound before all have their volumes. The tag names the batch system's job that gave them
        the nodes. An empty tag clears the pod's annotation.
        """
        self.cache.in_transaction = True
        job, decided = tasks[0].job, list[Action]()
        kept = self.reservations
        by_job = (self.refusals, self.setbacks, self.blocked, self.evicted_partials)
        for noted in (*by_job, kept.waiting_since, kept.passed_over, kept.vain):
            noted.pop(job.key, None)
        claims = {task.uid: self.cache.cluster.volumes.waiting(task.pod) for task in tasks if task.pod.volume_claims}
        # Most clusters provision no volumes, so the members are not looked through there.
        others = self.provisioning and any(uid in self.provisioning for uid in job.tasks)
        held = self.binds_as_gang(job) and bool(others or any(claims.values()))
        for task, pause in paced(tasks, _BOUND):
            pod, waiting = task.pod, claims.get(task.uid, ())
            if waiting:
                decided += self._provide(task, waiting)
            if held or waiting:
                self.provisioning[pod.uid] = Provisioning(self.now + PROVISIONING, tuple(waiting), tag)
            else:
                known = tag if tag or pod.tag else None
                bind = Bind(
                    uid=pod.uid,
                    namespace=pod.namespace,
                    name=pod.name,
                    node=task.node,
                    tag=known,
                    selection=task.entry.plan.selection,
                )
                decided.append(bind)
            if pause:
                yield
        self.actions += decided
        self.cache.in_transaction = False

    def _provide(self, task: Task, claims: Sequence[PersistentVolumeClaim]) -> Iterator[Action]:
        """Yield what binds each claim to the volume chosen for it, or has one provisioned on the task's node."""
        chosen = dict(task.entry.plan.volumes)
        for claim in claims:
            volume = self.cache.cluster.objects.find(PersistentVolume, chosen.get(claim.uid, ""))
            if volume is None:
                yield SelectNode(uid=claim.uid, namespace=claim.namespace, name=claim.name, node=task.node)
            elif volume.claim_uid != claim.uid:
                yield BindVolume(
                    uid=task.uid,
                    namespace=claim.namespace,
                    name=task.pod.name,
                    node=task.node,
                    volume=volume.name,
                    volume_uid=volume.uid,
                    version=volume.version,
                    claim=claim.name,
                    claim_uid=claim.uid,
                    chosen=volume.claim is None,
                )

    def binds_as_gang(self, job: Job) -> bool:
        """Return whether the job's members are bound together: it is a gang that has not been complete yet."""
        return self.plugins.gangs and job.min_member > 1 and not job.was_ready


# One action of a cycle, in steps. Within a statement the job cache is in a transaction.
ActionRun = Callable[[Session], Steps[None]]
QueueVisit = Callable[[Session, QueueInfo, bool], Steps[bool]]
