# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the pods of one part are divided among nodes.

Each function gets the slots of the nodes, the preferred node first. A slot is room for one pod. The answer is a number
for each node, or None where the nodes do not suffice.
"""

import numpy as np
from numpy.typing import NDArray

from placement.graph.request import Part

Int64s = NDArray[np.int64]


def fill(part: Part, slots: Int64s) -> Int64s | None:
    """Divide the part's pods as the part wishes."""
    if part.nodes:
        return over_nodes(part.count, part.nodes, slots)
    if part.per_node:
        return per_node(part.count, part.per_node, slots)
    if part.even:
        return evenly(part.count, slots)
    return packed(part.count, slots)


def suffices(part: Part, slots: Int64s) -> tuple[Int64s, int]:
    """Return a value for each node, and the sum of values below which a domain cannot hold the part.

    The condition is necessary, not sufficient: it is summed for all domains at once, and `fill` decides.
    """
    if part.nodes:
        return (slots >= part.count // part.nodes).astype(np.int64), part.nodes
    if part.per_node and part.count >= part.per_node:
        return (slots >= part.per_node).astype(np.int64), part.count // part.per_node
    return slots, part.count


def packed(count: int, slots: Int64s) -> Int64s | None:
    """Fill each node before the next."""
    ends = np.cumsum(slots)
    if not len(ends) or ends[-1] < count:
        return None
    numbers: Int64s = np.clip(count - ends + slots, 0, slots)
    return numbers


def per_node(count: int, each: int, slots: Int64s) -> Int64s | None:
    """Give the same number to each node; what remains goes to one more node."""
    whole, rest = divmod(count, each)
    chosen = np.flatnonzero(slots >= each)[:whole]
    if len(chosen) < whole:
        return None
    numbers = np.zeros(len(slots), np.int64)
    numbers[chosen] = each
    if rest:
        others = np.flatnonzero((slots >= rest) & (numbers == 0))
        if not len(others):
            return None
        numbers[others[0]] = rest
    return numbers


def over_nodes(count: int, nodes: int, slots: Int64s) -> Int64s | None:
    """Use exactly so many nodes, with numbers that differ by at most one."""
    least, larger = divmod(count, nodes)
    more = np.flatnonzero(slots > least)[:larger]
    if len(more) < larger:
        return None
    numbers = np.zeros(len(slots), np.int64)
    numbers[more] = least + 1
    others = np.flatnonzero((slots >= least) & (numbers == 0))[: nodes - larger]
    if len(others) < nodes - larger:
        return None
    numbers[others] = least
    return numbers


def evenly(count: int, slots: Int64s) -> Int64s | None:
    """Use all nodes, so that the largest number is as small as possible."""
    if int(slots.sum()) < count:
        return None
    low, high = 1, int(slots.max())
    while low < high:
        middle = (low + high) // 2
        if int(np.minimum(slots, middle).sum()) >= count:
            high = middle
        else:
            low = middle + 1
    numbers = np.minimum(slots, low)
    surplus = int(numbers.sum()) - count
    if surplus:
        # The last of the fullest nodes get one less.
        fullest = np.flatnonzero(numbers == low)
        numbers[fullest[len(fullest) - surplus :]] -= 1
    return numbers
