# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many pods of each shape fit each node, by row: kept for the shapes that were asked for last.

A count is made for all rows at once, and then only for rows that the state has touched since.
"""

from collections import OrderedDict
from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.model.amounts.quantity import Amounts
from placement.state.nodes.node_columns import NodeColumns
from placement.state.nodes.vectors import MAX_PODS, Vector

Counts = NDArray[np.int64]
# Shapes that are kept. Each costs eight bytes a row, so ever-new shapes take a bounded memory.
KEPT: Final = 128
# So many rows are counted one by one.
_ONE_BY_ONE: Final = 3


class _Fit:
    __slots__ = ("asked", "counts", "cursor", "vector")

    def __init__(self) -> None:
        self.counts: Counts = np.zeros(0, np.int64)
        self.cursor = -1
        self.vector: Vector | None = None
        # The lines of the axis that the request asks for, and how much.
        self.asked: list[tuple[int, int]] = []


class FitTable:
    """Counts over one set of columns."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._fits: OrderedDict[tuple[Amounts, int | None], _Fit] = OrderedDict()
        # The last question to the columns' ring, from one count to another, and its answer.
        self._asked = (-1, -1)
        self._changed: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self._fits)

    def counts(self, request: Amounts, ignored: int | None = None) -> Counts:
        """Return how many such pods fit each row; not to be changed. Promises up to the ignored rank do not count."""
        fit = self._fits.get((request, ignored))
        if fit is None:
            fit = self._fits[request, ignored] = _Fit()
            if len(self._fits) > KEPT:
                self._fits.popitem(last=False)
        else:
            self._fits.move_to_end((request, ignored))
        self._catch_up(fit, request, ignored)
        return fit.counts

    def _catch_up(self, fit: _Fit, request: Amounts, ignored: int | None) -> None:
        columns = self._columns
        changes = columns.changes
        if fit.cursor == changes:
            return
        vector = columns.axis.request(request)
        rows = self._rows_since(fit.cursor) if fit.cursor >= 0 else None
        lines = len(vector.asked)
        if rows is None or vector is not fit.vector or len(fit.counts) != columns.capacity:
            fit.counts = fitting(columns.unpromised_for(lines, ignored), vector)
            fit.asked = [(line, amount) for line, amount in enumerate(vector.asked[:, 0].tolist()) if amount]
        elif len(rows) <= _ONE_BY_ONE and ignored is None and not vector.unknown:
            # Plain numbers are several times as fast as arrays of one.
            for row in rows.tolist():
                each = MAX_PODS
                for line, amount in fit.asked:
                    each = min(each, columns.unpromised.item(line, row) // amount)
                fit.counts[row] = max(each, 0)
        else:
            fit.counts[rows] = fitting(columns.unpromised_for(lines, ignored, rows), vector)
        fit.cursor, fit.vector = changes, vector

    def _rows_since(self, cursor: int) -> NDArray[np.intp] | None:
        """Return the rows that have changed since; shapes that are asked for in turn have the same cursor."""
        now = (cursor, self._columns.changes)
        if now != self._asked:
            self._asked, self._changed = now, self._columns.changed_since(cursor)
        return self._changed

    def recount(self, rows: NDArray[np.intp]) -> list[tuple[Amounts, NDArray[np.intp]]]:
        """Count these rows again; return the shapes, and the rows whose counts were wrong."""
        wrong: list[tuple[Amounts, NDArray[np.intp]]] = []
        for (request, ignored), fit in self._fits.items():
            self._catch_up(fit, request, ignored)
            vector = self._columns.axis.request(request)
            truth = fitting(self._columns.unpromised_for(len(vector.asked), ignored, rows), vector)
            different = rows[fit.counts[rows] != truth]
            fit.counts[rows] = truth
            if len(different):
                wrong.append((request, different))
        return wrong


def fitting(room: NDArray[np.int64], vector: Vector) -> Counts:
    """Return how many pods of this request fit into each column of the room, at most `MAX_PODS`.

    The room may have more lines than the request asks for, but not fewer.
    """
    if vector.unknown:
        return np.zeros(room.shape[1], np.int64)
    found: Counts | None = None
    for line in np.flatnonzero(vector.asked[:, 0] > 0).tolist():
        amount = int(vector.asked[line, 0])
        each = room[line] // amount if amount > 1 else room[line]
        found = each.copy() if found is None else np.minimum(found, each, out=found)
    assert found is not None, "every pod takes one of the node's pods"
    clipped: Counts = np.clip(found, 0, MAX_PODS, out=found)
    return clipped
