# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fluxion's match operations: allocate, allocate or else reserve, satisfiability, and matching without allocating."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placement.graph.match import choose
from placement.graph.request import Refused, Request, Selection
from placement.graph.tree import Graph
from placement.state.node_filters import Bools

Feasible = Sequence[Bools | None]
# What takes the room: the index of the part, the row, and the number of pods.
Charge = Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True)
class Ending:
    """Room that will be free: when, in seconds, on which row, and how much by the resource axis."""

    at: float
    row: int
    amounts: NDArray[np.int64]


def without_allocating(
    graph: Graph, request: Request, feasible: Feasible, *, idle: Bools | None = None
) -> Selection | Refused:
    """Return where the gang would go now."""
    return choose(graph, request, feasible, idle=idle)


def allocate(
    graph: Graph, request: Request, feasible: Feasible, charge: Charge, *, idle: Bools | None = None
) -> Selection | Refused:
    """Place the gang now: `charge` is called for each part and row before this returns."""
    found = choose(graph, request, feasible, idle=idle)
    if isinstance(found, Selection):
        for index, share in enumerate(found.shares):
            for row, number in zip(share.rows.tolist(), share.numbers.tolist(), strict=True):
                charge(index, row, number)
    return found


def allocate_or_reserve(
    graph: Graph,
    request: Request,
    feasible: Feasible,
    charge: Charge,
    endings: Sequence[Ending],
    *,
    idle: Bools | None = None,
) -> Selection | Refused:
    """Place the gang now, or say when and where it can start once what runs has ended.

    A reservation charges nothing: its `at` is the end that it waits for, and it is made again when anything changes.
    """
    now = allocate(graph, request, feasible, charge, idle=idle)
    if isinstance(now, Selection) or not endings:
        return now
    ordered = sorted(endings, key=lambda ending: ending.at)
    columns = graph.columns

    def after(number: int) -> Selection | Refused:
        """Choose with the room that the first endings leave; only then, `idle` no longer says what is empty."""
        room = columns.opened(len(columns.axis), request.ignored).copy()
        for ending in ordered[:number]:
            room[: len(ending.amounts), ending.row] += ending.amounts
        return choose(graph, request, feasible, room=room)

    # With more endings there is never less room, so the first number that suffices is found by halving.
    last = after(len(ordered))
    if isinstance(last, Refused):
        return last
    low, high, best = 1, len(ordered), last
    while low < high:
        middle = (low + high) // 2
        found = after(middle)
        if isinstance(found, Selection):
            high, best = middle, found
        else:
            low = middle + 1
    return best._replace(at=ordered[high - 1].at)


def satisfiability(graph: Graph, request: Request, feasible: Feasible) -> Refused | None:
    """Return why the gang could not start even if all its nodes were empty; None where it could."""
    found = choose(graph, request, feasible, room=graph.columns.alloc)
    return found if isinstance(found, Refused) else None
