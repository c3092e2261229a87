# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A session: the book, the chooser and the plugins, and what the actions have decided so far."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from placement.model.action import Action, Bind, SelectNode
from placement.model.volume import PersistentVolumeClaim
from placement.policy.backing import Backing
from placement.policy.book import Book
from placement.policy.chooser import Chooser
from placement.policy.jobs import Job, Task
from placement.policy.membership import GroupKey
from placement.policy.queues import QueueNode
from placement.policy.rules import Rules
from placement.policy.statement import Statement
from placement.state.reasons import Reasons

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


@dataclass(slots=True)
class Session:
    """What the actions of a cycle share; a cycle can last several slices, and events come in between."""

    book: Book
    chooser: Chooser
    rules: Rules
    now: float = 0.0
    # Moves with every slice: queues and jobs that an action holds may be gone then.
    slice: int = 0
    # Whether an action gave way to the next although it had more to do.
    unfinished: bool = False
    actions: list[Action] = field(default_factory=list)
    refusals: dict[GroupKey, Refused] = field(default_factory=dict)
    # Pods that the API did not let go, by UID, and jobs that had counted on it.
    spared: dict[str, Spared] = field(default_factory=dict)
    blocked: dict[GroupKey, Refused] = field(default_factory=dict)
    # Gangs that were bound in part: how long they may be so, until when each may, and of whom the bound had to leave.
    patience: float = PATIENCE
    deadlines: dict[GroupKey, float] = field(default_factory=dict)
    withdrawn: dict[GroupKey, Refused] = field(default_factory=dict)
    # Pods that have a node and wait for volumes, their own or those of others of their gang.
    provisioning: dict[str, Provisioning] = field(default_factory=dict)
    # Jobs of the batch system that back pods.
    backing: Backing = field(default_factory=Backing)

    def statement(self) -> Statement:
        """Begins tentative moves."""
        return Statement(self.book)

    def tidy(self) -> None:
        """Forgets what was said of jobs that are no more, before that is most of it."""
        jobs = self.book.jobs
        for said in (self.refusals, self.blocked, self.withdrawn):
            if len(said) > len(jobs):
                for key in said.keys() - jobs.keys():
                    del said[key]

    def refuse(self, job: Job, task: Task, refused: Refused) -> None:
        """The job waits, and this is what is said of it."""
        self.refusals[job.key] = refused
        self.book.park(job, task)

    def bind(self, *tasks: Task) -> None:
        """The places of tasks of one job are final; no member of a gang is bound before all have their volumes."""
        job = tasks[0].job
        for said in (self.refusals, self.blocked, self.withdrawn):
            said.pop(job.key, None)
        claims = {task.uid: self.chooser.volumes.waiting(task.pod) for task in tasks if task.pod.volume_claims}
        # Most clusters make no volumes for pods, so their members are not looked through.
        others = self.provisioning and any(uid in self.provisioning for uid in job.tasks)
        held = self.together(job) and bool(others or any(claims.values()))
        for task in tasks:
            pod, waiting = task.pod, claims.get(task.uid, ())
            for claim in waiting:
                self.actions.append(
                    SelectNode(uid=claim.uid, namespace=claim.namespace, name=claim.name, node=task.node)
                )
            if held or waiting:
                self.provisioning[pod.uid] = Provisioning(self.now + PROVISIONING, tuple(waiting))
            else:
                self.actions.append(Bind(uid=pod.uid, namespace=pod.namespace, name=pod.name, node=task.node))

    def together(self, job: Job) -> bool:
        """Whether the job's members are bound together or not at all: it is a gang that has not been whole yet."""
        return self.rules.gangs and job.min_member > 1 and not job.whole


# One action of a cycle; it yields between statements, where the slice may end.
ActionRun = Callable[[Session], Iterator[None]]
QueueVisit = Callable[[Session, QueueNode, bool], bool]
