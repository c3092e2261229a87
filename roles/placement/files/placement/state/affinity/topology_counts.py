# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts by domain: how many pods of a kind there are for each value of a node label.

A tally is added up from the counts by node when it is first asked for, and kept by addition while pods come and go. It
is void once any Node changes, because then domains can have changed.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.state.nodes.node_columns import LabelColumn, NodeColumns

_MOST: Final = 64


class Tally:
    """Sums by domain; the last is that of nodes without the label, whose domain is -1."""

    __slots__ = ("_columns", "_generation", "column", "eligible", "exists", "sums")

    def __init__(
        self, columns: NodeColumns, key: str, counts: Mapping[int, int], eligible: NDArray[np.bool_] | None = None
    ) -> None:
        self._columns = columns
        self._generation = columns.generation
        self.column: LabelColumn = columns.label_column(key)
        # Rows that count; None means all. Domains without any do not exist.
        self.eligible = eligible
        of_row, size = self.column.of_row, len(self.column.ids)
        self.sums: NDArray[np.int64] = np.zeros(size + 1, np.int64)
        # Few rows have pods of one kind: adding those up is much less than adding up all.
        rows, numbers = np.fromiter(counts, np.intp, len(counts)), np.fromiter(counts.values(), np.int64, len(counts))
        if eligible is not None:
            counted = eligible[rows]
            rows, numbers = rows[counted], numbers[counted]
        np.add.at(self.sums, of_row[rows], numbers)
        # Without a rule about rows every domain counts.
        self.exists: NDArray[np.bool_] | None = None
        if eligible is not None:
            self.exists = np.bincount(of_row[eligible & (of_row >= 0)], minlength=size) > 0

    @property
    def current(self) -> bool:
        """Whether the nodes are still those it was made from."""
        return self._generation == self._columns.generation

    def add(self, row: int, number: int) -> None:
        """Count pods on a node in (1) or out (-1)."""
        if self._generation == self._columns.generation and (self.eligible is None or self.eligible[row]):
            self.sums[self.column.of_row[row]] += number


class Tallies(dict[Hashable, Tally]):
    """The tallies of one kind of pod, by label and by what tells rules apart."""

    def obtain(
        self,
        columns: NodeColumns,
        key: str,
        counts: Mapping[int, int],
        *,
        eligible: Callable[[], NDArray[np.bool_]] | None = None,
        mark: Hashable = None,
    ) -> Tally:
        """Return the tally for a label as things stand; `mark` tells rules apart by which rows are eligible."""
        tally = self.get((key, mark))
        if tally is None or not tally.current:
            if len(self) >= _MOST:
                self.clear()
            tally = self[key, mark] = Tally(columns, key, counts, eligible() if eligible else None)
        return tally

    def add(self, row: int, number: int) -> None:
        """Count pods on a node in (1) or out (-1)."""
        for tally in self.values():
            tally.add(row, number)
