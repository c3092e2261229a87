# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is below a node in the tree: its NUMA nodes, as far as an agent publishes them, for advice.

A kubelet chooses cores and devices itself and tells no scheduler beforehand. So nothing is charged to a NUMA node here.
The choice of one is a guess of what the kubelet will do: it takes the first that has room, as its topology manager
does. Whether a pod as a whole fits is looked at, though most kubelets align each container by itself.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.model.amounts.quantity import Amounts
from placement.model.node_zones import NodeZones
from placement.state.nodes.node_columns import NodeColumns

Int64s = NDArray[np.int64]
Rows = NDArray[np.intp]
Lookup = Callable[[str], NodeZones | None]
# Amounts that have been advised in one choice, by node and NUMA node.
Taken = dict[tuple[str, str], dict[str, int]]
# Nodes and NUMA nodes that are looked at in one choice, those that come first: more would hold the loop for too long.
MAX_LOOKS: Final = 2048
# Requests for which it is kept how well nodes fit.
_KEPT: Final = 16
# Answers of a request that are kept for each node there is, and beside that. Past it all go, as many nodes have gone.
_KEPT_PER_NODE: Final = 2
_KEPT_BESIDE: Final = 64
# How good a node is for pods of a request: the first are the best.
FITS_ALIGNED: Final = 0
FITS: Final = 1
UNKNOWN: Final = 2
FITS_NOT: Final = 3
REJECTS: Final = 4


class NumaNodes:
    """The NUMA nodes of all nodes of one graph."""

    def __init__(self, columns: NodeColumns, lookup: Lookup = lambda _name: None) -> None:
        self._columns = columns
        self._lookup = lookup
        # How many pods of a request fit and how good the node is, by its name, with what that was found from.
        self._kept: OrderedDict[Amounts, dict[str, tuple[NodeZones, int, int]]] = OrderedDict()

    def of(self, row: int) -> NodeZones | None:
        """Return what is known of the NUMA nodes of a row; None where nothing is published."""
        node = self._columns.nodes[row]
        found = self._lookup(node.name) if node is not None else None
        return found if found is not None and found.numa_nodes else None

    def rate(self, request: Amounts, rows: Rows, looks: int = MAX_LOOKS) -> tuple[Int64s, Int64s, int]:
        """Return for each row how many pods fit with one NUMA node each, how good the row is, and the looks left.

        A node costs a look, and each of its NUMA nodes another unless the answer is kept. Rows for which no looks are
        left count as unknown.
        """
        numbers, ranks = np.zeros(len(rows), np.int64), np.full(len(rows), UNKNOWN, np.int64)
        kept = self._kept.setdefault(request, {})
        self._kept.move_to_end(request)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        if len(kept) > _KEPT_PER_NODE * len(self._columns.rows) + _KEPT_BESIDE:
            kept.clear()
        for index, row in enumerate(rows[:MAX_LOOKS].tolist()):
            if looks <= 0:
                break
            looks -= 1
            known = self.of(row)
            if known is None:
                continue
            found = kept.get(known.name)
            if found is None or found[0] is not known:
                looks -= len(known.numa_nodes)
                found = kept[known.name] = (known, *_fit(known, request))
            _unused, numbers[index], ranks[index] = found
        return numbers, ranks, looks

    def __len__(self) -> int:
        """Count the answers that are kept."""
        return sum(map(len, self._kept.values()))

    def advise(self, row: int, request: Amounts, taken: Taken) -> str:
        """Return the NUMA node that the kubelet will take for a pod; empty where it takes none or none is known.

        What is advised is noted in `taken`, so that pods of one choice get others where there are some.
        """
        known = self.of(row)
        if known is None or not known.aligns:
            return ""
        asked = _published(known, request)
        for numa_node in known.numa_nodes:
            used = taken.setdefault((known.name, numa_node.name), {})
            if asked and _pods({name: amount - used.get(name, 0) for name, amount in numa_node.free}, asked):
                for name, amount in asked.items():
                    used[name] = used.get(name, 0) + amount
                return numa_node.name
        return ""


def _fit(known: NodeZones, request: Amounts) -> tuple[int, int]:
    """Return how many pods fit with one NUMA node each, and how good the node is."""
    asked = _published(known, request)
    if not asked:
        return 0, UNKNOWN
    number = sum(_pods(dict(numa_node.free), asked) for numa_node in known.numa_nodes)
    if number:
        return number, FITS_ALIGNED if known.aligns else FITS
    return 0, REJECTS if known.rejects else FITS_NOT


def _published(known: NodeZones, request: Amounts) -> dict[str, int]:
    """Return what of the request the node's NUMA nodes have: the number of pods, for one, belongs to the whole node."""
    names = {name for numa_node in known.numa_nodes for name, _amount in numa_node.has}
    return {name: amount for name, amount in request if name in names and amount}


def _pods(free: dict[str, int], asked: dict[str, int]) -> int:
    return min((max(0, free.get(name, 0)) // amount for name, amount in asked.items()), default=0)
