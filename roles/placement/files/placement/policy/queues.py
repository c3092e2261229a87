# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree of queues: who may use what, how much each holds, and what each deserves.

Groups are in leaves. A queue's amounts are those of everything below it; capabilities bind at every level, and a
guarantee is room that the rest of the cluster leaves free until the queue uses it.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from placement.model.quantity import Amounts
from placement.model.workload import DIALECTS, Queue
from placement.policy.amounts import Totals, add, covers, dominant_share, format_shortage
from placement.policy.division import Claim, divide
from placement.policy.jobs import Job, Problem, Task

ROOT_NAMES = ("", "root")

Place = tuple[tuple[object, ...], int, Job]


class QueueNode:
    """One queue, its place in the tree and its totals."""

    __slots__ = (
        "allocated",
        "capability",
        "children",
        "claimed",
        "claimed_below",
        "deserved",
        "dormant",
        "guarantee",
        "held",
        "idle",
        "jobs",
        "name",
        "order",
        "parent",
        "path",
        "problem",
        "record",
        "requests",
    )

    def __init__(self, record: Queue) -> None:
        self.record = record
        self.name = record.name
        self.parent: QueueNode | None = None
        self.children: list[QueueNode] = []
        # From the queue itself up to below the root.
        self.path: tuple[QueueNode, ...] = (self,)
        self.problem = ""
        self.capability = dict(record.capability)
        self.guarantee = dict(record.guarantee)
        self.jobs: dict[object, Job] = {}
        # Pods that have no job, because nothing happens to them.
        self.dormant: dict[str, Task] = {}
        # Spoken for (promises too), that and what is still leaving, and wanted in all.
        self.allocated: Totals = {}
        self.held: Totals = {}
        self.requests: Totals = {}
        self.deserved: Totals = {}
        # What is kept out of the others' reach: the greater of what is held and what is guaranteed.
        self.claimed: Totals = {}
        self.claimed_below: Totals = {}
        # Jobs with pending tasks in order: (order, ticket, job); an entry with an old ticket is void.
        self.order: list[Place] = []
        # Those whose pending tasks request nothing.
        self.idle: list[Place] = []

    @property
    def share(self) -> int:
        """How much of what it deserves is allocated."""
        return dominant_share(self.allocated, self.deserved)

    @property
    def overused(self) -> bool:
        """Whether it has all that it deserves, of every resource."""
        return covers(self.allocated, self.deserved)

    def every_job(self) -> Iterator[Job]:
        """Those of pods at rest too."""
        return chain(self.jobs.values(), (task.job for task in self.dormant.values()))

    def waiting(self) -> list[Job]:
        """Jobs that wait for their turn, in no order; those that were tried in vain are parked elsewhere."""
        return [job for _unused, ticket, job in (*self.order, *self.idle) if ticket == job.ticket]

    def book(self, allocated: int, held: int, requests: int, amounts: Amounts) -> None:
        """Counts amounts into the totals of the queue and all above it."""
        for queue in self.path:
            if allocated:
                add(queue.allocated, amounts, allocated)
            if requests:
                add(queue.requests, amounts, requests)
            if held:
                add(queue.held, amounts, held)

    def __str__(self) -> str:
        return self.name


class QueueTree:
    """All queues by name."""

    def __init__(self, records: Iterable[Queue], default: str) -> None:
        self.by_name: dict[str, QueueNode] = {}
        for record in sorted(records, key=_precedence):
            self.by_name.setdefault(record.name, QueueNode(record))
        if default not in self.by_name:
            self.by_name[default] = QueueNode(Queue(uid="", name=default, version=0, dialect=""))
        self.top: list[QueueNode] = []
        # The total and the wishes that were divided last.
        self._divided: tuple[dict[str, int], list[Totals]] | None = None
        self._link()
        self.guarantees = any(node.guarantee for node in self.by_name.values())

    def _link(self) -> None:
        for node in self.by_name.values():
            parent = node.record.parent
            if parent not in ROOT_NAMES and parent not in self.by_name:
                node.problem = f"spec.parent: there is no queue {parent!r}"
            node.problem = node.problem or _own_problem(node.record)
        for node in self.by_name.values():
            chain, at = [node.name], node.record.parent
            while at not in ROOT_NAMES and at in self.by_name and at not in chain:
                chain.append(at)
                at = self.by_name[at].record.parent
            if at in chain:
                node.problem = f"spec.parent: the queues form a circle ({' < '.join([*chain, at])})"
        for _unused, node in sorted(self.by_name.items()):
            above = self._ancestors(node)
            broken = next((queue for queue in above if queue.problem), None)
            if node.problem:
                continue
            if broken is not None:
                node.problem = f"spec.parent: queue {broken.name!r} above it cannot be used ({broken.problem})"
            elif not above:
                self.top.append(node)
            else:
                node.parent = above[0]
                above[0].children.append(node)
            node.path = (node, *above)

    def _ancestors(self, node: QueueNode) -> list[QueueNode]:
        found: list[QueueNode] = []
        at = node.record.parent
        while at not in ROOT_NAMES and at in self.by_name and len(found) < len(self.by_name):
            found.append(self.by_name[at])
            at = self.by_name[at].record.parent
        return found

    def in_order(self) -> Iterator[QueueNode]:
        """Parents before children, siblings by name; at last those that cannot be used."""
        stack = self.top[::-1]
        while stack:
            node = stack.pop()
            yield node
            stack += node.children[::-1]
        yield from (node for _unused, node in sorted(self.by_name.items()) if node.problem)

    def refusal(self, name: str, job: Job) -> Problem | None:
        """Why the job cannot be in the queue of this name."""
        queue = self.by_name.get(name)
        if queue is None:
            return Problem("UnknownQueue", f"spec.queue: there is no queue {name!r}")
        if queue.problem:
            return Problem("InvalidQueue", f"spec.queue: queue {queue} cannot be used: {queue.problem}")
        if queue.children:
            return Problem("InvalidQueue", f"spec.queue: queue {queue} has queues below it; name one of those")
        for at in queue.path:
            if not at.record.is_open and not job.occupied:
                return Problem("ClosedQueue", f"spec.queue: queue {at} is closed")
            if at.record.namespaces is not None and job.key.namespace not in at.record.namespaces:
                return Problem("ForbiddenQueue", f"spec.queue: queue {at} does not admit namespace {job.key.namespace}")
        return None

    def is_closed(self, name: str) -> bool:
        """Whether only jobs that have begun may be in this queue."""
        queue = self.by_name.get(name)
        return queue is not None and any(not at.record.is_open for at in queue.path)

    def divide(self, total: Mapping[str, int]) -> bool:
        """What every queue deserves of the total; says whether that is something new."""
        asked = (dict(total), [dict(node.requests) for node in self.by_name.values()])
        if asked == self._divided:
            return False
        self._divided = asked
        before = [node.deserved for node in self.by_name.values()]
        self._divide(total, self.top)
        for node in self.in_order():
            if node.children:
                self._divide(node.deserved, node.children)
        return before != [node.deserved for node in self.by_name.values()]

    def _divide(self, total: Mapping[str, int], siblings: list[QueueNode]) -> None:
        for node in siblings:
            node.deserved = {}
        for name, amount in total.items():
            claims = [_claim(node, name) for node in siblings]
            for node, part in zip(siblings, divide(amount, claims), strict=True):
                node.deserved[name] = part

    def claim(self, *, leaving: bool = True) -> None:
        """Adds up what is kept out of the others' reach, from the leaves up, with what is still leaving or without."""
        for node in [*self.in_order()][::-1]:
            node.claimed_below = {}
            for child in node.children:
                add(node.claimed_below, child.claimed.items())
            own = node.held if leaving else node.allocated
            names = node.guarantee.keys() | own.keys() | node.claimed_below.keys()
            base = node.claimed_below if node.children else own
            node.claimed = {name: max(node.guarantee.get(name, 0), base.get(name, 0)) for name in names}

    def limit(self, node: QueueNode, wanted: Mapping[str, int], total: Mapping[str, int]) -> str:
        """Which rule keeps the queue from taking so much more, in words; empty where none does."""
        for queue in node.path:
            for name, limit in queue.capability.items():
                if wanted.get(name, 0) and queue.held.get(name, 0) + wanted[name] > limit:
                    return f"capability of queue {queue.name}: {format_shortage(name, wanted, queue.held, limit)}"
        return self._guaranteed_to_others(node, wanted, total) if self.guarantees else ""

    def beyond(self, node: QueueNode) -> bool:
        """Whether a capability is exceeded by what is allocated and promised."""
        return any(
            queue.allocated.get(name, 0) > limit for queue in node.path for name, limit in queue.capability.items()
        )

    def spoken_for(self) -> dict[str, Totals]:
        """What is held or guaranteed inside each queue, and in all, once everything that leaves is gone."""
        if not self.guarantees:
            return {}
        self.claim(leaving=False)
        whole: Totals = {}
        for node in self.top:
            add(whole, node.claimed.items())
        return {"": whole, **{node.name: node.claimed_below for node in self.in_order() if node.children}}

    def encroaches(self, before: Mapping[str, Totals], total: Mapping[str, int]) -> bool:
        """Whether more is spoken for than was before, and more than there is."""
        return any(
            spoken.get(name, 0) > max(limit, before[at].get(name, 0))
            for at, spoken in self.spoken_for().items()
            for name, limit in (self.by_name[at].capability if at else total).items()
        )

    def _guaranteed_to_others(self, node: QueueNode, wanted: Mapping[str, int], total: Mapping[str, int]) -> str:
        self.claim()
        for name, whole in total.items():
            amount = wanted.get(name, 0)
            more = _growth(node.guarantee.get(name, 0), node.held.get(name, 0), amount)
            for queue in node.path[1:]:
                below, limit = queue.claimed_below, queue.capability.get(name)
                if more and limit is not None and below.get(name, 0) + more > limit:
                    return f"guarantees inside queue {queue.name}: {format_shortage(name, {name: more}, below, limit)}"
                more = _growth(queue.guarantee.get(name, 0), below.get(name, 0), more)
            claimed = {name: sum(queue.claimed.get(name, 0) for queue in self.top)}
            if more and claimed[name] + more > whole:
                return f"guarantees of other queues: {format_shortage(name, {name: more}, claimed, whole)}"
        return ""


def _growth(guaranteed: int, used: int, more: int) -> int:
    """By how much the greater of guarantee and use grows."""
    return max(guaranteed, used + more) - max(guaranteed, used)


def _claim(node: QueueNode, name: str) -> Claim:
    limit = node.capability.get(name)
    wanted = node.requests.get(name, 0)
    ceiling = wanted if limit is None else min(wanted, limit)
    return Claim(node.record.weight, min(node.guarantee.get(name, 0), ceiling), ceiling)


def _precedence(record: Queue) -> tuple[str, int, str]:
    known = DIALECTS.index(record.dialect) if record.dialect in DIALECTS else len(DIALECTS)
    return (record.name, known, record.uid)


def _own_problem(record: Queue) -> str:
    """What is wrong with the queue's own fields."""
    if record.weight < 1:
        return f"spec.weight: {record.weight} is not a positive integer"
    capability = dict(record.capability)
    for field, amounts in (("capability", record.capability), ("guarantee", record.guarantee)):
        negative = next((name for name, amount in amounts if amount < 0), None)
        if negative is not None:
            return f"spec.{field}: {negative} is negative"
    for name, amount in record.guarantee:
        if name in capability and amount > capability[name]:
            return f"spec.guarantee: {name} is more than the capability"
    return ""
