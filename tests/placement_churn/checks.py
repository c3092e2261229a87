# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The invariants, checked on what the API server lists: no question is put to the daemon here.

A node is never given twice, no gang stays bound in part, no pod that has a place waits, no process grows.
"""

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

# By how much the memory of a process may grow from the first to the last quarter of its time.
MEMORY_SHARE: Final = 1.10
# Fewer samples than these say nothing about growth.
LEAST_SAMPLES: Final = 16
# What the daemon must have come to when nothing happens.
AT_REST: Final = ("bindings_under_way", "writes_under_way", "overfull_nodes", "kept_nodes", "graph_drift_total")


@dataclass(frozen=True, slots=True)
class Size:
    """What a pod asks for, or what a node has."""

    cpu: int  # thousandths of a core
    memory: int  # MiB
    pods: int = 1

    def __add__(self, other: "Size") -> "Size":
        return Size(self.cpu + other.cpu, self.memory + other.memory, self.pods + other.pods)

    def __sub__(self, other: "Size") -> "Size":
        return Size(self.cpu - other.cpu, self.memory - other.memory, self.pods - other.pods)

    def times(self, one: "Size") -> int:
        """Return how often one fits into this."""
        shares = (
            (self.cpu, one.cpu),
            (self.memory, one.memory),
            (self.pods, one.pods),
        )
        return max(0, min(room // asked for room, asked in shares if asked))


NOTHING: Final = Size(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the API server shows it."""

    name: str
    size: Size
    pool: str = ""
    open: bool = True  # ready, not cordoned, without taints


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as the API server shows it."""

    name: str
    uid: str
    size: Size
    node: str = ""
    gang: str = ""
    pool: str = ""
    nominated: str = ""
    ended: bool = False
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold."""

    kind: str
    subject: str
    text: str


@dataclass(slots=True)
class _GangState:
    """What has been seen of a gang."""

    members: frozenset[tuple[str, bool]] = frozenset()
    changed: float = 0.0
    was_whole: bool = False


@dataclass(slots=True)
class Checker:
    """Compare one look at the cluster with those before it; each violation is given once."""

    # How long a gang may be bound in part, and a pod wait that has a place, once nothing goes wrong any more.
    patience: float
    quiet_since: float | None = None
    found: dict[tuple[str, str], Violation] = field(default_factory=dict)
    _gangs: dict[str, _GangState] = field(default_factory=dict)
    _fits_since: dict[str, float] = field(default_factory=dict)

    def look(self, now: float, nodes: Sequence[Node], pods: Sequence[Pod], gangs: Mapping[str, int]) -> list[Violation]:
        """Return the new violations. `gangs` gives the minimum of each gang that is to be whole."""
        free, overfull = _room(nodes, pods)
        new = list(overfull)
        new += self._half(now, pods, gangs)
        new += self._forgotten(now, nodes, pods, gangs, free)
        new = [one for one in new if (one.kind, one.subject) not in self.found]
        self.found.update({(one.kind, one.subject): one for one in new})
        return new

    def _half(self, now: float, pods: Sequence[Pod], gangs: Mapping[str, int]) -> Iterator[Violation]:
        by_gang: dict[str, list[Pod]] = {name: [] for name in gangs}
        for pod in pods:
            if pod.gang in by_gang and not pod.ended and not pod.leaving:
                by_gang[pod.gang].append(pod)
        for name in self._gangs.keys() - gangs.keys():
            del self._gangs[name]
        for name, members in by_gang.items():
            state = self._gangs.setdefault(name, _GangState(changed=now))
            bound = _followed(state, now, members, gangs[name])
            # A gang that was whole and has lost members may wait for room; whether it has room, `_forgotten` says.
            if not bound or bound >= gangs[name] or state.was_whole or self.quiet_since is None:
                continue
            lasted = now - max(state.changed, self.quiet_since)
            if lasted > self.patience:
                text = f"{bound} of {gangs[name]} members are bound, unchanged for {lasted:.0f} s"
                yield Violation("half gang", name, text)

    def _forgotten(
        self,
        now: float,
        nodes: Sequence[Node],
        pods: Sequence[Pod],
        gangs: Mapping[str, int],
        free: Mapping[str, Size],
    ) -> Iterator[Violation]:
        fitting = {pod.uid: pod for pod in placeable(nodes, pods, gangs, free)}
        self._fits_since = {uid: self._fits_since.get(uid, now) for uid in fitting}
        if self.quiet_since is None:
            return
        for uid, since in self._fits_since.items():
            lasted = now - max(since, self.quiet_since)
            if lasted > self.patience:
                yield Violation("forgotten pod", fitting[uid].name, f"has a place, and waits for {lasted:.0f} s")


def _followed(state: _GangState, now: float, members: Sequence[Pod], least: int) -> int:
    """Take in what a gang is like now, and return how many of its members are bound."""
    bound = sum(1 for pod in members if pod.node)
    known = frozenset((pod.uid, bool(pod.node)) for pod in members)
    gone = {uid for uid, _has_node in state.members} - {pod.uid for pod in members}
    if known != state.members:
        state.members, state.changed = known, now
    # A gang may have been whole between two looks if a member has gone: only bound members are evicted or lost with
    # a node. The member that has gone need not have been seen with its node.
    state.was_whole = bool(bound) and (state.was_whole or bound >= least or bool(gone))
    return bound


def _room(nodes: Sequence[Node], pods: Sequence[Pod]) -> tuple[dict[str, Size], list[Violation]]:
    """Return what is free on each node, and the nodes of which more is taken than there is."""
    used: dict[str, Size] = {}
    for pod in pods:
        if pod.node and not pod.ended:
            used[pod.node] = used.get(pod.node, NOTHING) + pod.size
    free = {node.name: node.size - used.get(node.name, NOTHING) for node in nodes}
    overfull = [
        Violation("overcommit", name, f"has {room.cpu} m, {room.memory} MiB and {room.pods} pods left")
        for name, room in free.items()
        if min(room.cpu, room.memory, room.pods) < 0
    ]
    return free, overfull


def placeable(
    nodes: Sequence[Node], pods: Sequence[Pod], gangs: Mapping[str, int], free: Mapping[str, Size]
) -> Iterator[Pod]:
    """Yield the pods that wait though there is room for each, and for what its gang lacks; members are of one size."""
    waiting = [pod for pod in pods if not pod.node and not pod.ended and not pod.leaving]
    left = dict(free)
    promised: dict[str, list[Pod]] = {}
    for pod in waiting:
        if pod.nominated in left:
            left[pod.nominated] -= pod.size
            promised.setdefault(pod.gang or pod.uid, []).append(pod)
    bound = Counter(pod.gang for pod in pods if pod.gang and pod.node and not pod.ended and not pod.leaving)
    members = Counter(pod.gang for pod in waiting if pod.gang)
    answers: dict[tuple[str, Size, int, str], bool] = {}
    for pod in waiting:
        lacking = max(1, gangs.get(pod.gang, 1) - bound[pod.gang]) if pod.gang else 1
        if pod.gang and (pod.gang not in gangs or members[pod.gang] < lacking):
            continue
        own = pod.gang or pod.uid
        asked = (pod.pool, pod.size, lacking, own if own in promised else "")
        if asked not in answers:
            answers[asked] = _fit(nodes, _with(left, promised.get(own, ())), pod.pool, pod.size, lacking)
        if answers[asked]:
            yield pod


def _with(left: dict[str, Size], promised: Sequence[Pod]) -> Mapping[str, Size]:
    """Return what is left for those to whom these nodes are promised: what is promised to others is no room."""
    if not promised:
        return left
    own = dict(left)
    for pod in promised:
        own[pod.nominated] += pod.size
    return own


def _fit(nodes: Sequence[Node], free: Mapping[str, Size], pool: str, size: Size, number: int) -> bool:
    """Return whether so many pods of one size fit on the open nodes of a pool."""
    for node in nodes:
        if node.open and node.pool == pool:
            number -= free[node.name].times(size)
            if number <= 0:
                return True
    return False


def unsettled(figures: Mapping[str, float], waiting: int) -> list[str]:
    """Return what the daemon has not come to at rest; `waiting` are the pods without a node that the API shows."""
    wrong = [f"{name} is {figures[name]:g}, not 0" for name in AT_REST if figures.get(name)]
    wrong += [f"{name} is not among the metrics" for name in AT_REST if name not in figures]
    pending = figures.get("queue_pending_pods")
    if pending != waiting:
        wrong.append(f"queue_pending_pods is {pending}, and {waiting} pods have no node")
    return wrong


def growth(samples: Sequence[float]) -> tuple[float, float] | None:
    """Return the medians of the first and of the last quarter; None where there are too few samples."""
    if len(samples) < LEAST_SAMPLES:
        return None
    quarter = len(samples) // 4
    return statistics.median(samples[:quarter]), statistics.median(samples[-quarter:])


def has_grown(samples: Sequence[float]) -> bool:
    """Return whether the memory of a process has grown by more than it may."""
    medians = growth(samples)
    return medians is not None and medians[1] > MEMORY_SHARE * medians[0]
