# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fluxion's match operations: allocate, allocate or else reserve, satisfiability, and matching without allocating."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from placement.graph.matching.match import choose
from placement.graph.request import NoMatch, Request, Selection
from placement.graph.tree.tree import Graph
from placement.state.nodes.node_filters import Bools

Feasible = Sequence[Bools | None]
# What takes the room: the index of the part, the row, and the number of pods.
Charge = Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True)
class Ending:
    """Room that will be free: when, in seconds, on which row, and how much by the resource axis."""

    at: float
    row: int
    amounts: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Window:
    """A row that is promised to others, a batch job or a reservation: from when until when, in seconds from now."""

    row: int
    begins: float
    ends: float = inf

    def meets(self, at: float, lasts: float) -> bool:
        """Return whether a gang that starts then and lasts so long would run into it."""
        return self.begins < at + lasts and self.ends > at


def without_allocating(graph: Graph, request: Request, feasible: Feasible) -> Selection | NoMatch:
    """Return where the gang would go now."""
    return choose(graph, request, feasible)


def allocate(graph: Graph, request: Request, feasible: Feasible, charge: Charge) -> Selection | NoMatch:
    """Place the gang now: `charge` is called for each part and row before this returns."""
    found = choose(graph, request, feasible)
    if isinstance(found, Selection):
        for index, part in enumerate(found.parts):
            for row, number in zip(part.rows.tolist(), part.numbers.tolist(), strict=True):
                charge(index, row, number)
    return found


def allocate_or_reserve(
    graph: Graph,
    request: Request,
    feasible: Feasible,
    charge: Charge,
    endings: Sequence[Ending],
    *,
    windows: Sequence[Window] = (),
    lasts: float = inf,
) -> Selection | NoMatch:
    """Place the gang now, or say when and where it can start once what runs has ended.

    A gang that lasts so many seconds, without end by default, is on no row in one of its windows. A reservation charges
    nothing: its `at` is the end that it waits for, and it is made again when anything changes.
    """
    now = allocate(graph, request, _outside(windows, 0.0, lasts, feasible, graph), charge)
    times = sorted({ending.at for ending in endings} | {window.ends for window in windows if 0 < window.ends < inf})
    if isinstance(now, Selection) or not times:
        return now
    columns = graph.columns

    def at(time: float, around: Sequence[Window]) -> Selection | NoMatch:
        """Choose with the room that is left then."""
        room = columns.unpromised_for(len(columns.axis), request.ignored).copy()
        for ending in endings:
            if ending.at <= time:
                room[: len(ending.amounts), ending.row] += ending.amounts
        return choose(graph, request, _outside(around, time, lasts, feasible, graph), room=room)

    # But for windows there is never less room at a later time, so the first time that suffices is found by halving.
    last = at(times[-1], ())
    if isinstance(last, NoMatch):
        return last
    low, high, best = 0, len(times) - 1, last
    while low < high:
        middle = (low + high) // 2
        found = at(times[middle], ())
        if isinstance(found, Selection):
            high, best = middle, found
        else:
            low = middle + 1
    if not windows:
        return best._replace(at=times[high])
    # Windows only take rows away, so no time before that does; of those after it each may.
    for time in times[high:]:
        found = at(time, windows)
        if isinstance(found, Selection):
            return found._replace(at=time)
    return found


def _outside(windows: Sequence[Window], at: float, lasts: float, feasible: Feasible, graph: Graph) -> Feasible:
    """Return the feasible rows of each part without those whose windows the gang would run into."""
    rows = [window.row for window in windows if window.meets(at, lasts)]
    if not rows:
        return feasible
    outside = np.ones(graph.columns.capacity, np.bool_)
    outside[rows] = False
    return [outside if part is None else part & outside for part in feasible]


def satisfiability(graph: Graph, request: Request, feasible: Feasible) -> NoMatch | None:
    """Return why the gang could not start even if all its nodes were empty; None where it could."""
    found = choose(graph, request, feasible, room=graph.columns.allocatable)
    return found if isinstance(found, NoMatch) else None
