# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The choice: from a graph, the feasible rows of each part, and a request to rows. It changes nothing.

Everything is done in the order of the tree, where a domain is one run of places. Slots are added up once, and the sum
of any domain is a difference of two of these running totals. Only domains whose sums suffice are tried node by node.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from placement.graph.matching.filling import fill, suffices
from placement.graph.policies.policy import Nodes, Places
from placement.graph.policies.register import policy_named
from placement.graph.request import NoMatch, Part, PartNodes, Request, Selection
from placement.graph.topology import CLUSTER
from placement.graph.tree.fits import fitting
from placement.graph.tree.numa_nodes import MAX_LOOKS
from placement.graph.tree.tree import Graph
from placement.model.amounts.quantity import format_amount
from placement.state.nodes.node_filters import Bools
from placement.state.nodes.vectors import PODS_INDEX, Vector

Int64s = NDArray[np.int64]
# What each part gets: places in the order of the tree, and numbers.
_Found = list[tuple[Places, Int64s]]


def choose(
    graph: Graph,
    request: Request,
    feasible: Sequence[Bools | None],
    *,
    room: Int64s | None = None,
) -> Selection | NoMatch:
    """Return where the gang goes, or why it goes nowhere.

    `feasible` has the rows that each part may use, None for all. `room` stands for what is open by resource and row, if
    it is not what the columns have. An exclusive request gets rows that have only pods of the node itself.
    TopologyError names a level that is unknown, RequestError an unknown policy.
    """
    graph.sync()
    for level in (*request.within, *(level for part in request.parts for level in part.within)):
        graph.runs(level)
    search = _Search(graph, request, feasible, room)
    missing = search.missing()
    if missing:
        return NoMatch((missing,))
    reasons: list[str] = []
    for level in request.within:
        found = search.in_one(level)
        if found is not None:
            run, parts = found
            return search.selection(parts, level, graph.domain_name(level, run))
        reasons.append(search.shortage(level))
    if not (request.within and request.required):
        everywhere = search.in_few(request.within[0]) if request.within else search.attempt(search.everywhere)
        if everywhere is not None:
            return search.selection(everywhere, CLUSTER, CLUSTER)
        reasons.append(search.shortage(CLUSTER))
    return NoMatch(tuple(reasons))


class _Search:
    """One choice, with everything in the order of the tree."""

    def __init__(
        self,
        graph: Graph,
        request: Request,
        feasible: Sequence[Bools | None],
        room: Int64s | None,
    ) -> None:
        self._graph = graph
        self._request = request
        self._policy = policy_named(request.policy)
        self._exclusive = request.exclusive or self._policy.exclusive
        # Nodes and NUMA nodes that may still be looked at.
        self._looks = MAX_LOOKS
        self._rows = graph.order.rows
        self._room = room
        self.everywhere: Places = np.arange(len(self._rows))
        self._vectors = [graph.columns.axis.request(part.request) for part in request.parts]
        idle: Bools | None = None
        if self._exclusive:
            open_pods = (graph.columns.free if room is None else room)[PODS_INDEX]
            idle = open_pods + graph.columns.own_pods >= graph.columns.allocatable[PODS_INDEX]
        self._slots = [
            self._slots_of(part, vector, usable, idle)
            for part, vector, usable in zip(request.parts, self._vectors, feasible, strict=True)
        ]
        values = [suffices(part, slots) for part, slots in zip(request.parts, self._slots, strict=True)]
        self._needed = [needed for _values, needed in values]
        # Running totals: what lies between two places is a difference.
        self._totals = [np.concatenate(([0], np.cumsum(each))) for each, _needed in values]
        self._classes: Int64s = graph.classes()[self._rows] if request.policy == "variation" else np.zeros(0, np.int64)

    def _slots_of(self, part: Part, vector: Vector, feasible: Bools | None, idle: Bools | None) -> Int64s:
        if self._room is None:
            counts = self._graph.fits.counts(part.request, self._request.ignored)
        else:
            counts = fitting(self._room[: len(vector.asked)], vector)
        slots: Int64s = counts[self._rows]
        if feasible is not None:
            slots *= feasible[self._rows]
        if idle is not None:
            slots *= idle[self._rows]
        return np.minimum(slots, part.most, out=slots) if part.most else slots

    def _total_need(self) -> Int64s:
        need = np.zeros(len(self._graph.columns.axis), np.int64)
        for part, vector in zip(self._request.parts, self._vectors, strict=True):
            need += part.count * vector.dense
        return need

    def missing(self) -> str:
        """Return the resource that the whole cluster has too little of, or nothing."""
        for part, vector in zip(self._request.parts, self._vectors, strict=True):
            if vector.unknown:
                return f"{part.name or 'pods'}: no node has {vector.unknown[0]}"
        if self._room is None and self._graph.may_hold(CLUSTER, self._total_need())[0]:
            return ""
        room = self._graph.columns.free if self._room is None else self._room
        there = np.maximum(room[:, self._rows], 0).sum(axis=1)
        for name, need, has in zip(self._graph.columns.axis.names, self._total_need(), there, strict=True):
            if need > has:
                return (
                    f"cluster: {name}: {format_amount(name, int(need))} wanted, {format_amount(name, int(has))} there"
                )
        return ""

    def selection(self, found: _Found, level: str, domain: str) -> Selection:
        """Return what was found as rows."""
        parts = tuple(PartNodes(self._rows[places], numbers) for places, numbers in found)
        return Selection(parts, level, domain, self._exclusive)

    def in_one(self, level: str) -> tuple[int, _Found] | None:
        """Return the first domain of the level, by the policy, that holds all parts, and what each gets."""
        starts, ends = self._graph.runs(level)
        possible = np.ones(len(starts), np.bool_)
        if self._room is None:
            possible &= self._graph.may_hold(level, self._total_need())
        spare = np.full(len(starts), np.iinfo(np.int64).max)
        for totals, needed in zip(self._totals, self._needed, strict=True):
            left = totals[ends] - totals[starts] - needed
            possible &= left >= 0
            spare = np.minimum(spare, left)
        runs = np.flatnonzero(possible)
        for index in self._policy.domains(spare[runs]).tolist():
            run = int(runs[index])
            found = self.attempt(self.everywhere[starts[run] : ends[run]])
            if found is not None:
                return run, found
        return None

    def in_few(self, level: str) -> _Found | None:
        """Return a placement in as few domains of the level as a greedy choice finds, or in all nodes."""
        starts, ends = self._graph.runs(level)
        # The part that is hardest to place decides which domains are worth having.
        hardest = self._by_difficulty(self.everywhere)[0]
        totals, needed = self._totals[hardest], self._needed[hardest]
        sums = totals[ends] - totals[starts]
        order = np.argsort(-sums, kind="stable")
        number = int(np.searchsorted(np.cumsum(sums[order]), needed)) + 1
        if number <= len(order):
            # The last one only has to hold the rest: the tightest that does.
            rest = needed - int(sums[order[: number - 1]].sum())
            others = order[number - 1 :]
            last = others[sums[others] >= rest][-1]
            chosen = np.sort(np.append(order[: number - 1], last))
            found = self.attempt(np.concatenate([self.everywhere[starts[run] : ends[run]] for run in chosen.tolist()]))
            if found is not None:
                return found
        return self.attempt(self.everywhere)

    def attempt(self, places: Places) -> _Found | None:
        """Place all parts on these places, or none; the part that is hardest to place comes first."""
        found: dict[int, tuple[Places, Int64s]] = {}
        taken: dict[int, Int64s] = {}
        for index in self._by_difficulty(places):
            slots = self._slots[index][places]
            if taken:
                slots = self._less(index, places, slots, taken)
            share = self._place(self._request.parts[index], places, slots)
            if share is None:
                return None
            found[index] = share
            if len(self._request.parts) > 1:
                for place, number in zip(share[0].tolist(), share[1].tolist(), strict=True):
                    taken[place] = taken.get(place, 0) + number * self._vectors[index].dense
        return [found[index] for index in range(len(self._request.parts))]

    def _by_difficulty(self, places: Places) -> list[int]:
        if len(self._request.parts) == 1:
            return [0]
        ease = [
            int(slots[places].sum()) / part.count for slots, part in zip(self._slots, self._request.parts, strict=True)
        ]
        return sorted(range(len(ease)), key=lambda index: (ease[index], index))

    def _less(self, index: int, places: Places, slots: Int64s, taken: dict[int, Int64s]) -> Int64s:
        """Return the slots once other parts have what they have taken."""
        vector, part = self._vectors[index], self._request.parts[index]
        at = np.fromiter(taken, np.intp, len(taken))
        rows = self._rows[at]
        columns = self._graph.columns
        if self._room is None:
            room = columns.unpromised_for(len(columns.axis), self._request.ignored, rows)
        else:
            room = self._room[:, rows]
        counts = fitting(room - np.stack(list(taken.values()), axis=1), vector)
        if part.most:
            counts = np.minimum(counts, part.most)
        where = np.searchsorted(places, at)
        slots[where] = np.minimum(slots[where], counts)
        return slots

    def _place(self, part: Part, places: Places, slots: Int64s) -> tuple[Places, Int64s] | None:
        """Place one part, within one domain of its own levels if it asks for that."""
        for level in part.within:
            for start, end in self._within(part, level, places, slots):
                share = self._fill(part, places[start:end], slots[start:end])
                if share is not None:
                    return share
        if part.within and part.required:
            return None
        return self._fill(part, places, slots)

    def _within(self, part: Part, level: str, places: Places, slots: Int64s) -> Iterator[tuple[int, int]]:
        """Yield where the level's domains begin and end among these places, if their sums suffice."""
        starts, ends = (np.searchsorted(places, each) for each in self._graph.runs(level))
        values, needed = suffices(part, slots)
        totals = np.concatenate(([0], np.cumsum(values)))
        left = totals[ends] - totals[starts] - needed
        runs = np.flatnonzero((left >= 0) & (ends > starts))
        for index in self._policy.domains(left[runs]).tolist():
            yield int(starts[runs[index]]), int(ends[runs[index]])

    def _fill(self, part: Part, places: Places, slots: Int64s) -> tuple[Places, Int64s] | None:
        classes = self._classes[places] if len(self._classes) else np.zeros(len(slots), np.int64)
        found = self._filled(part, places, slots, classes)
        # NUMA nodes are looked at only where the part has its room.
        if found is None or self._request.policy != "numa":
            return found
        usable, fitting_zone = np.flatnonzero(slots), np.zeros(len(slots), np.int64)
        numbers, ranks, self._looks = self._graph.numa_nodes.rate(part.request, self._rows[places[usable]], self._looks)
        classes[usable], fitting_zone[usable] = ranks, np.minimum(slots[usable], numbers)
        found = self._filled(part, places, fitting_zone, classes)
        return found if found is not None else self._filled(part, places, slots, classes)

    def _filled(self, part: Part, places: Places, slots: Int64s, classes: Int64s) -> tuple[Places, Int64s] | None:
        preferred = self._policy.nodes(Nodes(places, slots, classes))
        numbers = fill(part, slots[preferred])
        if numbers is None:
            return None
        used = np.flatnonzero(numbers)
        return places[preferred[used]], numbers[used]

    def shortage(self, level: str) -> str:
        """Return what the level's best domain lacks, for the part that lacks most."""
        starts, ends = self._graph.runs(level)
        if not len(starts):
            return f"{level}: there is none"
        for part, slots in zip(self._request.parts, self._slots, strict=True):
            totals = np.concatenate(([0], np.cumsum(slots)))
            sums = totals[ends] - totals[starts]
            best = int(sums.argmax())
            if sums[best] < part.count:
                name = self._graph.domain_name(level, best)
                where = "" if level == CLUSTER else f", in {name}"
                return f"{level}: at most {int(sums[best])} of {part.count} {part.name or 'pods'} fit{where}"
        return self._shortage_of_nodes(level, starts, ends)

    def _shortage_of_nodes(self, level: str, starts: Places, ends: Places) -> str:
        """Return what the level's best domain lacks where there are enough slots, but not as they are asked for."""
        for part, totals, needed in zip(self._request.parts, self._totals, self._needed, strict=True):
            sums = totals[ends] - totals[starts]
            best = int(sums.argmax())
            if sums[best] < needed:
                each = part.per_node or part.count // part.nodes
                where = "" if level == CLUSTER else f", in {self._graph.domain_name(level, best)}"
                room = f"room for {each} {part.name or 'pods'}"
                return f"{level}: at most {int(sums[best])} of {needed} nodes have {room}{where}"
        best = int((ends - starts).argmax())
        where = "" if level == CLUSTER else f", not even in {self._graph.domain_name(level, best)}"
        return f"{level}: the pods fit by number, but not in the way that is asked for{where}"
