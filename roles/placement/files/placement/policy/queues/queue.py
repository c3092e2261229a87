# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One queue: its place in the tree, its jobs, and what it holds."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from placement.model.amounts.quantity import Amounts
from placement.model.amounts.totals import Totals, add, covers, dominant_share
from placement.model.objects.workload import Queue
from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import Job, Task

# A waiting job with its key in the order and its position; void once the job has another position.
QueueEntry = tuple[tuple[object, ...], int, Job]
# What pods at rest are told apart by: priority and amounts.
Kind = tuple[int, Amounts]


class QueueInfo:
    """One queue, its place in the tree and its totals."""

    __slots__ = (
        "allocated",
        "archived",
        "begun",
        "best_effort",
        "capability",
        "children",
        "claimed",
        "claimed_below",
        "deserved",
        "guarantee",
        "held",
        "jobs",
        "name",
        "order",
        "parent",
        "path",
        "pipelined",
        "problem",
        "record",
        "requests",
        "waiting",
    )

    def __init__(self, record: Queue) -> None:
        self.record = record
        self.name = record.name
        self.parent: QueueInfo | None = None
        self.children: list[QueueInfo] = []
        # The queue itself and all above it; the root is not among them.
        self.path: tuple[QueueInfo, ...] = (self,)
        self.problem = ""
        self.capability = dict(record.capability)
        self.guarantee = dict(record.guarantee)
        self.jobs: dict[GroupKey, Job] = {}
        # Those of them that something is allocated to.
        self.begun: dict[GroupKey, Job] = {}
        # Pods that have no job, because nothing happens to them, by UID.
        self.archived: dict[Kind, dict[str, Task]] = {}
        # What its tasks have on nodes and what is promised to them, without those that leave.
        self.allocated: Totals = {}
        # The same with the tasks that leave, as long as they are there.
        self.held: Totals = {}
        # The part of both that is only promised.
        self.pipelined: Totals = {}
        # What its tasks have, are promised or wait for.
        self.requests: Totals = {}
        # What the queue should have of the total now (`fair_share`).
        self.deserved: Totals = {}
        # What is kept out of the others' reach: the greater of what is held and what is guaranteed.
        self.claimed: Totals = {}
        # The sum of what the queues below it claim.
        self.claimed_below: Totals = {}
        # Jobs with pending tasks, in order.
        self.order: list[QueueEntry] = []
        # The same of jobs whose pending tasks request nothing: their pods are of the class BestEffort.
        self.best_effort: list[QueueEntry] = []
        # The jobs in both; those that were tried in vain are parked elsewhere.
        self.waiting: dict[GroupKey, Job] = {}

    @property
    def share(self) -> int:
        """How much of what it deserves is allocated."""
        return dominant_share(self.allocated, self.deserved)

    @property
    def overused(self) -> bool:
        """Whether it has all that it deserves, of every resource."""
        return covers(self.allocated, self.deserved)

    def archived_tasks(self) -> Iterator[Task]:
        """Pods that have no job."""
        return chain.from_iterable(tasks.values() for tasks in self.archived.values())

    def every_job(self) -> Iterator[Job]:
        """Those of pods at rest too."""
        return chain(self.jobs.values(), (task.job for task in self.archived_tasks()))

    @property
    def sums(self) -> tuple[Totals, Totals, Totals, Totals]:
        """What is counted of its jobs and of those below it."""
        return (self.allocated, self.held, self.pipelined, self.requests)

    def take_over(self, other: "QueueInfo") -> None:
        """Take the jobs over from the old tree's queue; sums are taken over by the tree."""
        self.jobs, self.begun, self.archived = other.jobs, other.begun, other.archived
        self.order, self.best_effort, self.waiting = other.order, other.best_effort, other.waiting

    def admission(self) -> object:
        """Return what decides whether a job may be in the queue; equal if that is the same."""
        doors = [(at.name, at.record.is_open, at.record.namespaces) for at in self.path]
        backed = replace(self.record, version=0) if self.record.backed else None
        return (self.problem, bool(self.children), doors, backed)

    def book(self, amounts: Amounts, *, allocated: int, held: int, promised: int, requests: int) -> None:
        """Count amounts into the totals of the queue and all above it."""
        for queue in self.path:
            if allocated:
                add(queue.allocated, amounts, allocated)
            if requests:
                add(queue.requests, amounts, requests)
            if held:
                add(queue.held, amounts, held)
            if promised:
                add(queue.pipelined, amounts, promised)

    def __str__(self) -> str:
        return self.name
