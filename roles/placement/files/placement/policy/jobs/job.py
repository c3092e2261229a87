# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs and their tasks: what kube-batch calls a PodGroup and its pods, whatever made them a group."""

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from heapq import heappop, heappush
from itertools import islice
from math import inf
from operator import attrgetter
from typing import Final

from placement.model.amounts.quantity import PODS, Amounts
from placement.model.amounts.totals import Totals, add
from placement.model.messages.action import GroupStatus
from placement.model.objects.pod import Phase, Pod
from placement.model.objects.workload import PodGroup
from placement.model.rules.topology import TopologyRequest
from placement.policy.jobs.group_key import TASK_NAME, GroupKey, group_key, value_of
from placement.state.pods.pod_table import PodEntry


class Status(IntEnum):
    """What a task is doing, in kube-batch's sense."""

    # Not to be placed yet, or not at all by us.
    GATED = 0
    REFUSED = 1
    PENDING = 2
    # Room is kept for it on a node that others are leaving; kube-batch says pipelined.
    PIPELINED = 3
    # Decided, and not yet confirmed by the API.
    ALLOCATED = 4
    BOUND = 5
    RUNNING = 6
    RELEASING = 7
    SUCCEEDED = 8
    FAILED = 9


# On a node or on the way to it, and to stay there.
ON_NODE: Final = frozenset({Status.ALLOCATED, Status.BOUND, Status.RUNNING})
# What counts as a queue's or job's share: promised room is spoken for.
COUNTS_IN_SHARE: Final = ON_NODE | {Status.PIPELINED}
# What a queue deserves something for.
COUNTS_IN_DEMAND: Final = COUNTS_IN_SHARE | {Status.PENDING}
# What a job has begun with.
STARTED: Final = COUNTS_IN_SHARE | {Status.SUCCEEDED}
# What is in use, to the last second.
OCCUPIES_NODE: Final = ON_NODE | {Status.RELEASING}
# What no other task can have now.
RESERVES_NODE: Final = OCCUPIES_NODE | {Status.PIPELINED}
# On a node, on the way there, or waiting for one.
ACTIVE: Final = RESERVES_NODE | {Status.PENDING}

# On a node, as the API says.
_THERE: Final = (Status.BOUND, Status.RUNNING, Status.RELEASING)
# Phases of groups that have never been whole; one that no phase was ever written for is such a group, too.
_NOT_BEGUN: Final = frozenset({"", "Pending", "Inqueue", "Scheduling"})

# The reason of a problem that the waiting members alone have: none of them could run if all nodes were empty.
NEVER_FITS: Final = "NeverFits"

# Void entries that the order of a job with few waiting members may have.
_VOID: Final = 64

# Priority first, then age.
TaskKey = tuple[int, str, str]
# What a condition of a pod says: the reasons, without numbers.
Reasons = tuple[str, frozenset[str], str]


def status_of(entry: PodEntry) -> Status:
    """Return the status that the state gives."""
    pod = entry.pod
    if pod.phase is Phase.SUCCEEDED:
        return Status.SUCCEEDED
    if pod.phase is Phase.FAILED:
        return Status.FAILED
    if entry.charged:
        if entry.leaving:
            return Status.RELEASING
        if not pod.node:
            return Status.ALLOCATED
        return Status.RUNNING if pod.phase is Phase.RUNNING else Status.BOUND
    if pod.terminating:
        return Status.FAILED
    if pod.spec.unsupported:
        return Status.REFUSED
    if pod.gated:
        return Status.GATED
    return Status.PIPELINED if entry.at else Status.PENDING


@lru_cache(maxsize=1 << 12)
def counted(request: Amounts) -> Amounts:
    """Return the request and one pod; equal requests share one object, as many pods have few sizes."""
    return (*request, (PODS, 1))


class Task:
    """One pod of ours."""

    __slots__ = ("amounts", "entry", "key", "owner", "pod", "status", "uid")

    def __init__(self, entry: PodEntry, job: "Job", key: TaskKey) -> None:
        self.uid = entry.pod.uid
        self.entry = entry
        self.pod: Pod = entry.pod
        # What it counts for in its queue.
        self.amounts = counted(entry.pod.request)
        # Its job, or at rest only the name of its queue.
        self.owner: Job | str = job
        self.key = key
        self.status = Status.FAILED

    @property
    def job(self) -> "Job":
        """Its job; at rest one that is made for the occasion (see `job_table`)."""
        return _lone_job(self, self.owner) if isinstance(self.owner, str) else self.owner

    @property
    def is_archived(self) -> bool:
        """Whether it is a pod by itself that nothing happens to: its job would have to be made, for every question."""
        return isinstance(self.owner, str)

    @property
    def priority(self) -> int:
        """Its job's priority."""
        return self.pod.spec.priority if isinstance(self.owner, str) else self.owner.priority

    @property
    def queue(self) -> str:
        """The name of its queue."""
        return self.owner if isinstance(self.owner, str) else self.owner.queue

    @property
    def node(self) -> str:
        """Where it is, or where room is kept for it."""
        return self.entry.at

    def __str__(self) -> str:
        return f"{self.pod.namespace}/{self.pod.name}"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a job is not scheduled at all, as a condition says it."""

    reason: str
    message: str


class TaskMinimums:
    """Count the members of a gang that must have a least number of each task, by the names of the tasks."""

    __slots__ = ("_least", "_occupied", "_valid")

    def __init__(self, least: Iterable[tuple[str, int]], members: Iterable[Task]) -> None:
        self._least = dict(least)
        # Members that have begun or will once room is free, and those and the members that wait for a node.
        self._occupied: Counter[str] = Counter()
        self._valid: Counter[str] = Counter()
        for member in members:
            self.move(member, None, member.status)

    def move(self, member: Task, old: Status | None, status: Status | None) -> None:
        """Count the member under another status."""
        name = _task_name(member)
        self._occupied[name] += (status in STARTED) - (old in STARTED)
        self._valid[name] += (status in COUNTS_IN_DEMAND or status in STARTED) - (
            old in COUNTS_IN_DEMAND or old in STARTED
        )

    @property
    def missing(self) -> int:
        """Return how many members must still be placed before each task has its least number."""
        return sum(max(0, least - self._occupied[name]) for name, least in self._least.items())

    @property
    def too_few(self) -> tuple[str, int, int] | None:
        """Return the first task that has too few members to begin; None if no task lacks any.

        The answer is the task's name, its least number, and its number of members that have begun or wait for a node.
        """
        return next(
            ((name, least, self._valid[name]) for name, least in self._least.items() if self._valid[name] < least), None
        )

    def choose(self, members: Iterator[Task], number: int) -> tuple[list[Task], list[Task], bool]:
        """Take so many of these waiting members, first those that the numbers lack.

        Returns them, the others that were looked at, and whether those that the numbers lack are all found.
        """
        lacking = {name: max(0, least - self._occupied[name]) for name, least in self._least.items()}
        needed: list[Task] = []
        others: list[Task] = []
        missing = sum(lacking.values())
        while missing or len(needed) + len(others) < number:
            member = next(members, None)
            if member is None:
                break
            name = _task_name(member)
            if lacking.get(name, 0):
                lacking[name] -= 1
                missing -= 1
                needed.append(member)
            else:
                others.append(member)
        found = [*needed, *others]
        return found[:number], found[number:], not missing


def _task_name(member: Task) -> str:
    return value_of(member.pod.annotations, TASK_NAME)


class Job:
    """Pods that belong together, and how many of them must run at once."""

    __slots__ = (
        "allocated",
        "counts",
        "created",
        "failures",
        "foreign",
        "group",
        "has_hints",
        "inqueue",
        "key",
        "lapses",
        "last_reasons",
        "last_status",
        "last_valid_count",
        "min_member",
        "minimums",
        "mixed",
        "order",
        "position",
        "preempt_tried_at",
        "priority",
        "problem",
        "queue",
        "reclaim_tried_at",
        "requesting",
        "stirred",
        "strict",
        "stuck_since",
        "tasks",
        "topological",
        "unreported",
        "unschedulable_at",
        "untried",
        "waiting",
        "was_ready",
    )

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        self.group: PodGroup | None = None
        self.queue = ""
        self.min_member = 1
        # What the gang must have of each task, if its group says that.
        self.minimums: TaskMinimums | None = None
        self.priority = 0
        self.created = ""
        self.problem: Problem | None = None
        # Members that name another scheduler; one is enough to leave the whole group alone.
        self.foreign = 0
        self.tasks: dict[str, Task] = {}
        # Whether some of the tasks may have to be placed otherwise than the others.
        self.mixed = False
        # Whether the group or one of its pods asks where they are to be together, and whether they wait for that.
        self.topological = self.strict = False
        # What the last condition of all pending tasks said, but of those that came to wait since.
        self.last_reasons: Reasons | None = None
        self.unreported: dict[str, Task] = {}
        self.counts = [0] * len(Status)
        # Pending tasks that request something; where none does, the job is left to backfill.
        self.requesting = 0
        self.allocated: Totals = {}
        self.waiting: list[TaskKey] = []
        # The part of it that has not been tried, while the job's members are tried a few kinds at a time; else None.
        self.untried: list[TaskKey] | None = None
        # Whether something has come since the first of them was tried that may help one of those tried.
        self.stirred = False
        self.inqueue = False
        # How often what was kept for it lapsed, because its pods did not come.
        self.lapses = 0
        # Since when nodes refuse it for what no other pod has (monotonic seconds); inf where that is not so.
        self.stuck_since = inf
        # Bindings that failed in a row.
        self.failures = 0
        # Whether its minimum has been bound once, as far as is known.
        self.was_ready = False
        # What was last said of its group, and when.
        self.last_status: tuple[GroupStatus, float] | None = None
        # How many could be scheduled when that was last too few, and since when.
        self.last_valid_count = (-1, 0.0)
        # Its place in the queue's order, and the generation of the state it was last tried against in vain.
        self.order: tuple[object, ...] = ()
        self.position = 0
        self.unschedulable_at = -1
        # Whether it is noted which events can help it.
        self.has_hints = False
        # The retry versions at which victims were last looked for in vain, in the own queue and in others.
        self.preempt_tried_at = -1
        self.reclaim_tried_at = -1

    def forget_tries(self) -> None:
        """Note that no earlier try says anything of the job any more."""
        self.stirred = True
        self.try_again()

    def try_again(self) -> None:
        """Have the job tried as if nothing had been tried since the last change."""
        self.unschedulable_at = self.preempt_tried_at = self.reclaim_tried_at = -1

    @property
    def shut_out(self) -> bool:
        """Whether the job may not have what its members were given either: its queue or its group may be gone."""
        return self.problem is not None and self.problem.reason != NEVER_FITS

    @property
    def ready(self) -> int:
        """Members that run, are about to, or are done."""
        counts = self.counts
        return counts[Status.ALLOCATED] + counts[Status.BOUND] + counts[Status.RUNNING] + counts[Status.SUCCEEDED]

    @property
    def bound(self) -> int:
        """Members of which the API says that they have a node, or are done."""
        return self.ready - self.counts[Status.ALLOCATED]

    @property
    def partial(self) -> bool:
        """Whether some members have been bound of a gang that has never been whole."""
        begun = self.counts[Status.BOUND] or self.counts[Status.RUNNING]
        return bool(begun) and not self.was_ready and not self.foreign and self.bound < self.min_member

    @property
    def occupied(self) -> int:
        """Members that will be ready once room that is kept for them is free."""
        return self.ready + self.counts[Status.PIPELINED]

    @property
    def valid(self) -> int:
        """Members that can count towards the minimum."""
        return self.occupied + self.counts[Status.PENDING]

    @property
    def missing(self) -> int:
        """Return how many waiting members must be placed together before any of them is bound."""
        missing = max(0, self.min_member - self.occupied)
        # A gang that has begun replaces a member that it has lost as it can.
        return missing if not missing or self.minimums is None else max(missing, self.minimums.missing)

    @property
    def pending(self) -> int:
        """Members that wait for a node."""
        return self.counts[Status.PENDING]

    def note(self, status: Status, old: Status) -> None:
        """Take note of what the final move of a member says about the whole.

        A member that is found bound may be what is left of a gang that was whole once. The exception is a gang of this
        scheduler alone with a group whose phase says that it has not begun.
        """
        counts = self.counts
        found = status in _THERE and old not in RESERVES_NODE
        if status in _THERE:
            self.failures = 0
        denied = self.group is not None and not self.foreign and self.group.phase in _NOT_BEGUN
        if self.bound >= self.min_member or (found and not denied):
            self.was_ready = True
        elif not any(counts[held] for held in _THERE):
            self.was_ready = False

    def note_topology(self, topology: TopologyRequest) -> None:
        """Take note of what the group or a member asks of racks and switches."""
        self.topological = True
        self.strict = self.strict or topology.strict

    def wait(self, task: Task) -> None:
        """Put a task into the job's own order."""
        heappush(self.waiting, task.key)
        if self.untried is not None:
            heappush(self.untried, task.key)
            if len(self.untried) > 2 * self.counts[Status.PENDING] + _VOID:
                # Of those that have ended or changed, too.
                self.untried = [task.key for task in self._pop(self.untried)]
        if len(self.waiting) > 2 * self.counts[Status.PENDING] + _VOID:
            # Tasks that were tried without being taken out of the order are in it several times.
            self.waiting = sorted(task.key for task in self.tasks.values() if task.status is Status.PENDING)

    def next_tasks(self, number: int) -> list[Task]:
        """Take so many tasks out of the job's order; the caller puts back those it does not place.

        Of a gang that must have a least number of each task, those that lack come first.
        """
        members = self._first(number)
        if self.minimums is None or not self.minimums.missing:
            return list(islice(members, number))
        found, left, _reached = self.minimums.choose(members, number)
        for task in left:
            self.wait(task)
        return found

    def next_untried(self, number: int, kinds: Container[Hashable]) -> list[Task]:
        """Return the first so many members that have not been tried and are of none of these kinds.

        There are none if they are too few to start together. Those that the caller puts back may be tried once more.
        """
        if self.untried is None:
            self.untried = self.waiting.copy()
        members = (task for task in self._pop(self.untried) if kind_of(task) not in kinds)
        if self.minimums is None or not self.missing:
            found, reached = list(islice(members, number)), True
        else:
            found, left, reached = self.minimums.choose(members, number)
            for task in left:
                heappush(self.untried, task.key)
        return found if reached and len(found) == number else []

    def _first(self, number: int) -> Iterator[Task]:
        """Take tasks out of the job's own order; the caller takes so many, or all."""
        if number > 1 and number >= self.pending > len(self.tasks) // 2:
            # All that wait are taken, and they are most of the job: to sort them is faster than to look each up.
            self.waiting.clear()
            waiting = [task for task in self.tasks.values() if task.status is Status.PENDING]
            return iter(sorted(waiting, key=attrgetter("key")))
        return self._pop(self.waiting)

    def _pop(self, order: list[TaskKey]) -> Iterator[Task]:
        """Take tasks out of this order, one by one."""
        last = None
        while order:
            key = heappop(order)
            task = self.tasks.get(key[2])
            # Entries of tasks that changed or went away stay in the heap until they come up, equal ones together.
            if task is not None and task is not last and task.status is Status.PENDING and task.key == key:
                last = task
                yield task

    def peek(self) -> Task | None:
        """Return the first task of the job's order."""
        for task in self.next_tasks(1):
            self.wait(task)
            return task
        return None

    def __str__(self) -> str:
        first = next(iter(self.tasks.values()), None)
        return str(self.key) if self.key.named or first is None else str(first)


def wanted_by(tasks: Iterable[Task]) -> Totals:
    """Return what the tasks request in all."""
    wanted: Totals = {}
    for task in tasks:
        add(wanted, task.amounts)
    return wanted


def alike(task: Task, other: Task) -> bool:
    """Whether two tasks can be placed in one run; equal specs and requests are mostly one object."""
    pod, peer = task.pod, other.pod
    return (
        (pod.spec is peer.spec or pod.spec == peer.spec)
        and (pod.request is peer.request or pod.request == peer.request)
        and task.entry.labelset is other.entry.labelset
        and pod.volume_claims == peer.volume_claims
    )


def kind_of(task: Task) -> Hashable:
    """Return what is equal for tasks that are alike."""
    return task.pod.spec, task.pod.request, task.entry.labelset, task.pod.volume_claims


def _lone_job(task: Task, queue: str) -> Job:
    """Return the job of a lone pod as it is once the pod has its node."""
    job = Job(group_key(task.pod))
    job.queue, job.priority, job.created = queue, task.pod.spec.priority, task.pod.created
    job.tasks[task.uid] = task
    job.counts[task.status] = 1
    add(job.allocated, task.amounts)
    job.was_ready = True
    return job
