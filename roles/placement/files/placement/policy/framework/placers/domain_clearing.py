# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to leave one rack, or another domain, so that a gang fits into it.

The graph is asked what it would choose if some units had left. A unit is a pod, or pods that leave together. First the
lowest rank is found up to which units have to leave. Then come the nodes that are cleared with least loss. At last each
unit is spared that may stay. So no unit of the answer can be left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from placement.graph.matching.match import choose
from placement.graph.request import NoMatch, Selection
from placement.graph.topology import CLUSTER
from placement.graph.tree.tree import Graph
from placement.model.slicing import SliceBudget, Steps
from placement.policy.framework.placers.topology_ask import Ask
from placement.policy.jobs.job import Task
from placement.state.nodes.node_filters import Bools

Int64s = NDArray[np.int64]
Member = TypeVar("Member")
# What one question to the graph costs, in pods looked at.
_QUESTION: Final = 256


class Domain(NamedTuple):
    """One rack, or another domain: its level, its name, and its rows."""

    level: str
    name: str
    rows: Bools


@dataclass(frozen=True, slots=True)
class Unit(Generic[Member]):
    """Members that leave together, how dear that is (low first), and what each row has more of then."""

    members: tuple[Member, ...]
    rank: tuple[int, int]
    frees: Mapping[int, Int64s]


class Units(Generic[Member]):
    """All units, by the rows that they hold."""

    def __init__(self) -> None:
        self._by_row: dict[int, list[Unit[Member]]] = {}

    def add(self, unit: Unit[Member]) -> None:
        """Note one unit."""
        for row in unit.frees:
            self._by_row.setdefault(row, []).append(unit)

    def inside(self, rows: Bools) -> list[Unit[Member]]:
        """Return the units that hold any of these rows, each once."""
        found = (unit for row in np.flatnonzero(rows).tolist() for unit in self._by_row.get(row, ()))
        return list({id(unit): unit for unit in found}.values())


class Cleared(NamedTuple, Generic[Member]):
    """The units that have to leave, and where the gang goes then."""

    units: list[Unit[Member]]
    found: Selection


class Trial:
    """A choice of the graph for some tasks that can be made with other room and other nodes. It changes nothing."""

    def __init__(self, graph: Graph, wanted: Ask, feasible: Sequence[Bools], effort: SliceBudget) -> None:
        self.graph = graph
        self.wanted = wanted
        # The rows that each part could use if they were empty.
        self.feasible = feasible
        self._effort = effort

    @property
    def rows(self) -> Bools:
        """Return the rows that any part could use."""
        found: Bools = np.logical_or.reduce(list(self.feasible))
        return found

    def levels(self) -> Iterator[list[Domain]]:
        """Yield the domains of each level that the tasks must be within one of, the best level first."""
        graph, request, there = self.graph, self.wanted.request, self.wanted.there
        if not (request.within and request.required):
            yield [Domain(CLUSTER, CLUSTER, np.ones(graph.columns.capacity, np.bool_))]
            return
        for level in request.within:
            starts, ends = graph.runs(level)
            numbers = {graph.domain_of(level, task.entry.row) for task in there}
            domains: list[Domain] = []
            for run, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
                inside = graph.order.rows[start:end]
                if numbers and numbers != {graph.domain_of(level, int(inside[0]))}:
                    continue
                rows = np.zeros(graph.columns.capacity, np.bool_)
                rows[inside] = True
                domains.append(Domain(level, graph.domain_name(level, run), rows))
            yield domains

    def choose(self, domain: Domain, rows: Bools, room: Int64s) -> Selection | None:
        """Return where the tasks would go within these rows of the domain; None where they do not fit."""
        self._effort.spend(_QUESTION)
        request = self.wanted.request
        if domain.level != CLUSTER:
            request = replace(request, within=(domain.level,), required=True)
        found = choose(self.graph, request, [part & rows for part in self.feasible], room=room)
        return None if isinstance(found, NoMatch) else found

    def clear(
        self, domain: Domain, units: Units[Member], room: Int64s, most: tuple[int, int] | None = None
    ) -> Steps[Cleared[Member] | None]:
        """Return which units have to leave the domain; None where that does not suffice, or not up to the rank `most`.

        `room` is what is open without them. Nothing may change between two steps.
        """
        inside = units.inside(domain.rows)
        if most is not None:
            inside = [unit for unit in inside if unit.rank <= most]
        ranks = sorted({unit.rank for unit in inside})
        if self.choose(domain, domain.rows, _with(room, inside)) is None:
            return None
        low, high = 0, len(ranks)
        while low < high:
            if self._effort.is_due():
                yield
            middle = (low + high) // 2
            leaving = [unit for unit in inside if middle and unit.rank <= ranks[middle - 1]]
            if self.choose(domain, domain.rows, _with(room, leaving)) is None:
                low = middle + 1
            else:
                high = middle
        inside = [unit for unit in inside if low and unit.rank <= ranks[low - 1]]
        left = yield from self._on_fewest_rows(domain, inside, room)
        for unit in sorted(left, key=lambda unit: (unit.rank, len(unit.members)), reverse=True):
            if self._effort.is_due():
                yield
            rest = [other for other in left if other is not unit]
            if self.choose(domain, domain.rows, _with(room, rest)) is not None:
                left = rest
        found = self.choose(domain, domain.rows, _with(room, left))
        return Cleared(left, found) if found is not None else None

    def _on_fewest_rows(self, domain: Domain, units: Sequence[Unit[Member]], room: Int64s) -> Steps[list[Unit[Member]]]:
        """Return units that suffice: those of few rows, without the rows that are dearest to clear."""
        cost: dict[int, tuple[tuple[int, int], int]] = {}
        for unit in units:
            for row in unit.frees:
                rank, number = cost.get(row, (unit.rank, 0))
                cost[row] = (max(rank, unit.rank), number + len(unit.members))
        order = sorted((row for row in cost if domain.rows[row]), key=lambda row: (cost[row], row))

        def of(rows: Sequence[int]) -> list[Unit[Member]]:
            cleared = set(rows)
            return [unit for unit in units if not cleared.isdisjoint(unit.frees)]

        low, high = 0, len(order)
        while low < high:
            if self._effort.is_due():
                yield
            middle = (low + high) // 2
            if self.choose(domain, domain.rows, _with(room, of(order[:middle]))) is None:
                low = middle + 1
            else:
                high = middle
        kept = order[:low]
        for row in reversed(order[:low]):
            if self._effort.is_due():
                yield
            rest = [other for other in kept if other != row]
            if self.choose(domain, domain.rows, _with(room, of(rest))) is not None:
                kept = rest
        return of(kept)


def placed(trial: Trial, found: Selection) -> Iterator[tuple[Task, str]]:
    """Yield each task with the node that was found for it."""
    nodes = trial.graph.columns.nodes
    for part, share in zip(trial.wanted.parts, found.parts, strict=True):
        for task, row in zip(part, share.each(), strict=True):
            node = nodes[row]
            if node is not None:
                yield task, node.name


def _with(room: Int64s, units: Sequence[Unit[Member]]) -> Int64s:
    """Return the room that there is when these units have left."""
    found = room.copy()
    for unit in units:
        for row, amounts in unit.frees.items():
            found[:, row] += amounts
    return found
