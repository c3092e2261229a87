# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A session: the book, the chooser and the plugins, and what the actions have decided so far."""

from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from placement.model.action import Action, Bind, BindVolume, SelectNode
from placement.model.volume import PersistentVolume, PersistentVolumeClaim
from placement.policy.cache.equivalence_cache import FailureCache
from placement.policy.cache.job_cache import JobCache
from placement.policy.cache.preemptor_queue import PreemptorQueue
from placement.policy.framework.feasibility import Feasibility
from placement.policy.framework.host_selector import HostSelector
from placement.policy.framework.slice_budget import SliceBudget
from placement.policy.framework.statement import Statement
from placement.policy.jobs.batch_jobs import BatchJobs
from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import Job, Task
from placement.policy.plugins.plugin_set import PluginSet
from placement.policy.queues.queue import QueueInfo
from placement.policy.queues.reservations import Reservations
from placement.state.diagnosis import Reasons

# Seconds that a provisioner has to make a volume, as many as kube-scheduler gives.
PROVISIONING: Final = 600.0
# Seconds that a gang may be bound in part, unless the settings say otherwise.
PATIENCE: Final = 120.0


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a job, or the rest of one, was not placed; with the reasons of the nodes where it came to that."""

    reason: str
    message: str
    nodes: Reasons | None = None


@dataclass(frozen=True, slots=True)
class Spared:
    """A pod that could not be evicted, why, and until when nobody asks again."""

    message: str
    until: float


@dataclass(frozen=True, slots=True)
class Provisioning:
    """A pod has a node and waits for volumes: until when, and for which claims, as they were before that."""

    until: float
    claims: tuple[PersistentVolumeClaim, ...]
    # Of the job of the batch system that it is to be bound for.
    tag: str = ""


@dataclass(slots=True)
class Session:
    """What the actions of a cycle share; a cycle can last several slices, and events come in between."""

    cache: JobCache
    host_selector: HostSelector
    rules: PluginSet
    now: float = 0.0
    # Moves with every slice: queues and jobs that an action holds may be gone then.
    slice: int = 0
    # Whether an action gave way to the next although it had more to do.
    unfinished: bool = False
    actions: list[Action] = field(default_factory=list)
    refusals: dict[GroupKey, Refused] = field(default_factory=dict)
    # Pods that the API did not let go, by UID, and jobs that had counted on it.
    unevictable: dict[str, Spared] = field(default_factory=dict)
    blocked: dict[GroupKey, Refused] = field(default_factory=dict)
    # How many evictions the API has refused.
    stays: int = 0
    # Jobs that room is kept for, and by the first of the tasks that need it together, when that was last looked for.
    promises: dict[GroupKey, dict[str, Hashable]] = field(default_factory=dict)
    # Disruption budgets that were the reason, by UID, and until when nobody is asked to leave beyond them.
    exhausted_budgets: dict[str, float] = field(default_factory=dict)
    # Gangs that were bound in part: how long they may be so, until when each may, and of whom the bound had to leave.
    patience: float = PATIENCE
    deadlines: dict[GroupKey, float] = field(default_factory=dict)
    evicted_partials: dict[GroupKey, Refused] = field(default_factory=dict)
    # Groups that lack pods, and until when room is kept for them.
    unclaimed: dict[GroupKey, float] = field(default_factory=dict)
    # Pods that have a node and wait for volumes, their own or those of others of their gang.
    provisioning: dict[str, Provisioning] = field(default_factory=dict)
    # Jobs of the batch system that back pods.
    batch_jobs: BatchJobs = field(default_factory=BatchJobs)
    failures: FailureCache = field(default_factory=FailureCache)
    # Where room can be made for claimants of a kind, kept from one action run to the next.
    finders: dict[Hashable, Any] = field(default_factory=dict)
    effort: SliceBudget = field(default_factory=SliceBudget)
    # Who waits for others of the own queue to leave, and who for those of other queues.
    preempting: PreemptorQueue = field(init=False)
    reclaiming: PreemptorQueue = field(init=False)

    def __post_init__(self) -> None:
        self.preempting, self.reclaiming = PreemptorQueue(self.cache), PreemptorQueue(self.cache)
        turns = (self.preempting.turns, self.reclaiming.turns)
        said = (self.refusals, self.blocked, self.deadlines, self.evicted_partials, self.unclaimed)
        self.cache.known += (*said, self.promises, self.reservations.since, *turns)

    @property
    def feasibility(self) -> Feasibility:
        """Return what says which nodes may hold a pod."""
        return self.host_selector.feasibility

    @property
    def reservations(self) -> Reservations:
        """What is kept for the heads of queues."""
        return self.host_selector.reservations

    def statement(self) -> Statement:
        """Begins tentative moves."""
        return Statement(self.cache)

    def refuse(self, job: Job, tried: Sequence[Task], refused: Refused) -> None:
        """Park the job until something happens that can help one of these tasks, and keep what is said of it."""
        self.refusals[job.key] = refused
        if refused.nodes is not None:
            self.reservations.note(job)
        self.cache.queue.park(job, tried)

    def bind(self, *tasks: Task, tag: str = "") -> None:
        """Bind tasks of one job for good; no member of a gang is bound before all have their volumes.

        The tag is that of the job of the batch system that gave them these; without one, what a pod has itself is void.
        """
        job = tasks[0].job
        for said in (self.refusals, self.blocked, self.evicted_partials, self.reservations.since):
            said.pop(job.key, None)
        claims = {task.uid: self.cache.cluster.volumes.waiting(task.pod) for task in tasks if task.pod.volume_claims}
        # Most clusters make no volumes for pods, so their members are not looked through.
        others = self.provisioning and any(uid in self.provisioning for uid in job.tasks)
        held = self.binds_as_gang(job) and bool(others or any(claims.values()))
        for task in tasks:
            pod, waiting = task.pod, claims.get(task.uid, ())
            self._provide(task, waiting)
            if held or waiting:
                self.provisioning[pod.uid] = Provisioning(self.now + PROVISIONING, tuple(waiting), tag)
            else:
                known = tag if tag or pod.tag else None
                self.actions.append(
                    Bind(uid=pod.uid, namespace=pod.namespace, name=pod.name, node=task.node, tag=known)
                )

    def _provide(self, task: Task, claims: Sequence[PersistentVolumeClaim]) -> None:
        """Give each claim the volume that was chosen for it, or have one made on the task's node."""
        chosen = dict(task.entry.plan[3])
        for claim in claims:
            volume = self.cache.cluster.objects.find(PersistentVolume, chosen.get(claim.uid, ""))
            if volume is None:
                self.actions.append(
                    SelectNode(uid=claim.uid, namespace=claim.namespace, name=claim.name, node=task.node)
                )
            elif volume.claim_uid != claim.uid:
                bind = BindVolume(
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
                self.actions.append(bind)

    def binds_as_gang(self, job: Job) -> bool:
        """Whether the job's members are bound together or not at all: it is a gang that has not been whole yet."""
        return self.rules.gangs and job.min_member > 1 and not job.was_ready


# One action of a cycle; it yields where the slice may end. In the middle of a statement the book is frozen then.
ActionRun = Callable[[Session], Iterator[None]]
QueueVisit = Callable[[Session, QueueInfo, bool], Generator[None, None, bool]]
