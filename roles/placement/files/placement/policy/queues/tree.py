# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree of queues: what each may use, how much it holds, and what each deserves.

Groups are in leaves. A queue's amounts are those of everything below it. Capabilities bind at every level. A guarantee
is room that the rest of the cluster leaves free until the queue uses it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from sys import maxsize
from types import MappingProxyType
from typing import Final

from placement.model.amounts.totals import Totals, add, format_shortage
from placement.model.objects.workload import DIALECTS, Queue
from placement.model.slicing import Steps
from placement.policy.jobs.job import Job, Problem
from placement.policy.queues.fair_share import Claim, divide
from placement.policy.queues.queue import QueueInfo

ROOT_NAMES = ("", "root")

# So many queues get their parts in one go: a millisecond or two.
_PARTS: Final = 256

_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


class QueueTree:
    """All queues by name."""

    def __init__(self, records: Iterable[Queue], default: str) -> None:
        self.by_name: dict[str, QueueInfo] = {}
        for record in sorted(records, key=_precedence):
            self.by_name.setdefault(record.name, QueueInfo(record))
        if default not in self.by_name:
            self.by_name[default] = QueueInfo(Queue(uid="", name=default, version=0, dialect=""))
        self.top: list[QueueInfo] = []
        # By resource, the total and the wishes that were divided last.
        self._divided: dict[str, tuple[int, list[int]]] = {}
        self._link()
        self.guarantees = any(node.guarantee for node in self.by_name.values())
        # Queues whose pods are on nodes that a batch system chooses: they share no room with the others.
        self.backed = [node for node in self.by_name.values() if _is_backed(node)]

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

    def _ancestors(self, node: QueueInfo) -> list[QueueInfo]:
        found: list[QueueInfo] = []
        at = node.record.parent
        while at not in ROOT_NAMES and at in self.by_name and len(found) < len(self.by_name):
            found.append(self.by_name[at])
            at = self.by_name[at].record.parent
        return found

    def in_order(self) -> Iterator[QueueInfo]:
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

    def admits_otherwise(self, old: "QueueTree") -> set[str]:
        """Queues of this tree or an old one whose jobs may be in only one of them, or in neither."""

        def admission(tree: QueueTree, name: str) -> object:
            node = tree.by_name.get(name)
            return node.admission() if node is not None else None

        names = self.by_name.keys() | old.by_name.keys()
        return {name for name in names if admission(self, name) != admission(old, name)}

    def take_over(self, old: "QueueTree") -> None:
        """Take jobs and totals over from the queues of the same names in an old tree."""
        own = old.own_sums()
        for name, node in self.by_name.items():
            if name not in own:
                continue
            node.take_over(old.by_name[name])
            for at in node.path:
                for sums, mine in zip(at.sums, own[name], strict=True):
                    add(sums, mine.items())

    def own_sums(self) -> dict[str, list[Totals]]:
        """Return what each queue's own jobs come to, without those of the queues below it."""
        found = {name: [dict(sums) for sums in node.sums] for name, node in self.by_name.items()}
        # Queues with the longer path first.
        for node in sorted(self.by_name.values(), key=lambda node: -len(node.path)):
            for above in node.path[1:]:
                for sums, mine in zip(found[above.name], found[node.name], strict=True):
                    add(sums, mine.items(), -1)
        return found

    def is_closed(self, name: str) -> bool:
        """Whether only jobs that have begun may be in this queue."""
        queue = self.by_name.get(name)
        return queue is not None and any(not at.record.is_open for at in queue.path)

    def divide(self, total: Mapping[str, int]) -> Steps[bool]:
        """Work out what every queue deserves of the total; return whether that is new.

        It yields between two resources; until its end what queues deserve must not be read.
        """
        usable = [node for node in self.in_order() if not node.problem]
        changed, parts = False, 0
        if self._divided.keys() != total.keys():
            self._divided.clear()
            for node in usable:
                node.deserved = dict.fromkeys(total, 0)
            changed = True
        for name, amount in total.items():
            asked = (amount, [node.requests.get(name, 0) for node in usable])
            if asked == self._divided.get(name):
                continue
            self._divided[name] = asked
            before = [node.deserved[name] for node in usable]
            claims = _claims(usable, name)
            self._divide(name, amount, self.top, claims)
            for node in usable:
                if node.children:
                    self._divide(name, node.deserved[name], node.children, claims)
            for node in self.backed:
                if not node.problem:
                    part = min(node.requests.get(name, 0), node.capability.get(name, maxsize))
                    for at in node.path:
                        at.deserved[name] += part
            changed = changed or before != [node.deserved[name] for node in usable]
            parts += len(usable)
            if parts > _PARTS:
                parts = 0
                yield
        return changed

    def _divide(self, name: str, amount: int, siblings: list[QueueInfo], claims: Mapping[str, Claim]) -> None:
        for node, part in zip(siblings, divide(amount, [claims[at.name] for at in siblings]), strict=True):
            node.deserved[name] = part

    def claim(self, *, leaving: bool = True) -> None:
        """Add up what other queues cannot have, from the leaves up, with leaving pods and without."""
        for node in [*self.in_order()][::-1]:
            node.claimed_below = {}
            for child in node.children:
                add(node.claimed_below, child.claimed.items())
            if _is_backed(node):
                node.claimed = {}
                continue
            own = node.held if leaving else node.allocated
            names = node.guarantee.keys() | own.keys() | node.claimed_below.keys()
            base = node.claimed_below if node.children else own
            node.claimed = {name: max(node.guarantee.get(name, 0), base.get(name, 0)) for name in names}

    def limit(self, node: QueueInfo, wanted: Mapping[str, int], total: Mapping[str, int]) -> str:
        """Which rule keeps the queue from taking so much more, in words; empty where none does."""
        for queue in node.path:
            for name, limit in queue.capability.items():
                if wanted.get(name, 0) and queue.held.get(name, 0) + wanted[name] > limit:
                    return f"capability of queue {queue.name}: {format_shortage(name, wanted, queue.held, limit)}"
        return self._guaranteed_to_others(node, wanted, total) if self.guarantees else ""

    def over_capability(self, node: QueueInfo, wanted: Mapping[str, int], yet: Mapping[str, int] = _NOTHING) -> Totals:
        """By how much capabilities of what is wanted are exceeded by what is allocated and promised, or yet will be."""
        found: Totals = {}
        for queue in node.path:
            for name, limit in queue.capability.items():
                beyond = queue.allocated.get(name, 0) + yet.get(name, 0) - limit
                if wanted.get(name, 0) and beyond > found.get(name, 0):
                    found[name] = beyond
        return found

    def over_capability_with_leaving(self, node: QueueInfo, wanted: Mapping[str, int]) -> bool:
        """Whether a capability of what is wanted is exceeded by pods that are there, those that are leaving too."""
        return any(
            wanted.get(name, 0) and queue.held.get(name, 0) - queue.pipelined.get(name, 0) > limit
            for queue in node.path
            for name, limit in queue.capability.items()
        )

    def claimed_totals(self) -> dict[str, Totals]:
        """Return what is held or guaranteed inside each queue, and in all, once leaving pods are gone."""
        if not self.guarantees:
            return {}
        self.claim(leaving=False)
        whole: Totals = {}
        for node in self.top:
            add(whole, node.claimed.items())
        return {"": whole, **{node.name: node.claimed_below for node in self.in_order() if node.children}}

    def breaks_guarantee(self, before: Mapping[str, Totals], total: Mapping[str, int]) -> bool:
        """Whether claims now exceed a capability or the total by more than before."""
        return any(
            spoken.get(name, 0) > max(limit, before[at].get(name, 0))
            for at, spoken in self.claimed_totals().items()
            for name, limit in (self.by_name[at].capability if at else total).items()
        )

    def _guaranteed_to_others(self, node: QueueInfo, wanted: Mapping[str, int], total: Mapping[str, int]) -> str:
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


def _claims(usable: Sequence[QueueInfo], name: str) -> dict[str, Claim]:
    """Return what each queue claims of one resource, by its name; parents come before children.

    A queue can use no more than those below it can, and is owed no less than is guaranteed to them.
    """
    found: dict[str, Claim] = {}
    for node in reversed(usable):
        found[node.name] = _claim(node, name, [found[child.name] for child in node.children])
    return found


def _claim(node: QueueInfo, name: str, below: Sequence[Claim]) -> Claim:
    if _is_backed(node):
        return Claim(node.record.weight, 0, 0)
    limit = node.capability.get(name)
    wanted = sum(claim.ceiling for claim in below) if below else node.requests.get(name, 0)
    ceiling = wanted if limit is None else min(wanted, limit)
    guaranteed = max(node.guarantee.get(name, 0), sum(claim.floor for claim in below))
    return Claim(node.record.weight, min(guaranteed, ceiling), ceiling)


def _is_backed(node: QueueInfo) -> bool:
    return node.record.backed and not node.children


def _precedence(record: Queue) -> tuple[str, int, str]:
    known = DIALECTS.index(record.dialect) if record.dialect in DIALECTS else len(DIALECTS)
    return (record.name, known, record.uid)


def _own_problem(record: Queue) -> str:
    """Return what is wrong with the queue's own fields."""
    if record.weight < 1:
        return f"spec.weight: {record.weight} is not a positive integer"
    if record.unsupported:
        return "; ".join(record.unsupported)
    capability = dict(record.capability)
    for field, amounts in (("capability", record.capability), ("guarantee", record.guarantee)):
        negative = next((name for name, amount in amounts if amount < 0), None)
        if negative is not None:
            return f"spec.{field}: {negative} is negative"
    for name, amount in record.guarantee:
        if name in capability and amount > capability[name]:
            return f"spec.guarantee: {name} is more than the capability"
    return ""
