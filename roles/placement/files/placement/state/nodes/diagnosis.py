# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why nodes are out of question for a pod: each node under the first rule that refuses it, as kube-scheduler counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.state.nodes.node_columns import NodeColumns
from placement.state.nodes.node_filters import Bools

_EXAMPLES: Final = 3


@dataclass(frozen=True, slots=True)
class Refusing:
    """One reason, how many nodes have it, and some of them."""

    reason: str
    nodes: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reasons:
    """All reasons over all nodes, the most frequent first."""

    nodes: int
    refusing: tuple[Refusing, ...]

    def __str__(self) -> str:
        """kube-scheduler's sentence."""
        if not self.refusing:
            return f"0/{self.nodes} nodes are available"
        listed = ", ".join(f"{item.nodes} {item.reason}" for item in self.refusing)
        return f"0/{self.nodes} nodes are available: {listed}"

    @property
    def kinds(self) -> frozenset[str]:
        """The reasons without their numbers, to see whether something new is to be told."""
        return frozenset(item.reason for item in self.refusing)


class Tally:
    """Counts the nodes that are left under the reasons for which they are refused."""

    def __init__(self, columns: NodeColumns, present: Bools) -> None:
        self._columns = columns
        self._nodes = int(present.sum())
        # Rows that no reason has been found for.
        self.left = present
        self._found: dict[str, list[NDArray[np.intp]]] = {}

    def take(self, refused: Mapping[str, Bools]) -> None:
        """Count nodes that one rule refuses; a node for which it has several reasons counts under each of them."""
        gone = np.zeros_like(self.left)
        for reason, which in refused.items():
            rows = np.flatnonzero(self.left & which)
            if len(rows):
                self._found.setdefault(reason, []).append(rows)
                gone[rows] = True
        self.left &= ~gone

    def reasons(self) -> Reasons:
        """Return all reasons, the most frequent first."""
        found = (self._named(reason, np.concatenate(rows)) for reason, rows in self._found.items())
        return Reasons(self._nodes, tuple(sorted(found, key=_frequency)))

    def _named(self, reason: str, rows: NDArray[np.intp]) -> Refusing:
        nodes = (self._columns.nodes[row] for row in rows[:_EXAMPLES].tolist())
        return Refusing(reason, len(rows), tuple(node.name for node in nodes if node is not None))


def _frequency(item: Refusing) -> tuple[int, str]:
    return (-item.nodes, item.reason)
