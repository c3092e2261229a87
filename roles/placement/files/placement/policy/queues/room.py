# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The room that queues share: what is free on nodes that ordinary pods of ours can use.

Nodes that are held, leased, cordoned, unreadable or for backed pods do not count. Nodes with a taint that no waiting or
placed pod of ours tolerates do not count either. A queue that was owed a part of them would never get it, and would
keep others from what there is. The sums are kept up from the ring of changed rows, so a cycle pays for what has changed
alone.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.model.rules.selector import Effect, Taint, Toleration
from placement.state.cluster import Cluster
from placement.state.nodes.node_columns import HELD, LEASED, PRESENT, UNREADABLE, UNSCHEDULABLE
from placement.state.nodes.node_filters import Bools, lets_in

Tolerations = tuple[Toleration, ...]
Int64s = NDArray[np.int64]

# Nodes with one of these flags do not count. RESTING and UNKNOWN are left out because they pass. All nodes may be
# UNKNOWN while the batch system does not answer, and what queues deserve must not jump to nothing then.
_UNCOUNTED: Final = HELD | LEASED | UNREADABLE | UNSCHEDULABLE


class UsableRoom:
    """The sums, by resource."""

    def __init__(self, cluster: Cluster, is_ours: Callable[[str], bool]) -> None:
        self._columns = cluster.columns
        self._pods = cluster.pods
        self._is_ours = is_ours
        # How many pods have each set of tolerations, and how many of these sets let a pod in through a set of taints.
        self._tolerations: dict[Tolerations, int] = {}
        self._tolerating: dict[tuple[Taint, ...], int] = {}
        # Whether some pod gets in, by the number of the set of taints, and the sets that were numbered so.
        self._open: Bools = np.zeros(0, np.bool_)
        self._numbered: dict[tuple[Taint, ...], int] = {}
        # What each row counts for, what all come to, and up to which change.
        self._counted: Int64s = np.zeros((0, 0), np.int64)
        self._sums: Int64s = np.zeros(0, np.int64)
        self._cursor = -1

    def enter(self, tolerations: Tolerations) -> None:
        """Note that a pod with these waits or is placed."""
        number = self._tolerations.get(tolerations, 0)
        self._tolerations[tolerations] = number + 1
        if not number:
            self._weigh(tolerations, 1)

    def leave(self, tolerations: Tolerations) -> None:
        """Note that such a pod has ended or is gone."""
        self._tolerations[tolerations] -= 1
        if not self._tolerations[tolerations]:
            del self._tolerations[tolerations]
            self._weigh(tolerations, -1)

    def _weigh(self, tolerations: Tolerations, number: int) -> None:
        for taints, before in self._tolerating.items():
            if lets_in(taints, tolerations):
                self._tolerating[taints] = before + number
                if not before or not before + number:
                    # Other nodes count from now on.
                    self._cursor = -1

    def free(self) -> dict[str, int]:
        """Return what is free in all on nodes that count, by resource."""
        columns = self._columns
        if columns.taint_sets is not self._numbered:
            self._numbered, self._open, self._cursor = columns.taint_sets, np.zeros(0, np.bool_), -1
            self._tolerating.clear()
        shape = columns.free.shape
        changed = columns.changed_since(self._cursor) if self._cursor >= 0 else None
        if changed is None or shape != self._counted.shape:
            self._reopen()
            rows = np.arange(shape[1])
            self._counted, self._sums = np.zeros(shape, np.int64), np.zeros(shape[0], np.int64)
        else:
            rows = np.unique(changed)
        self._cursor = columns.changes
        if len(rows):
            now = self._worth(rows)
            self._sums += (now - self._counted[:, rows]).sum(axis=1)
            self._counted[:, rows] = now
        return dict(zip(columns.axis.names, self._sums.tolist(), strict=True))

    def _worth(self, rows: NDArray[np.intp]) -> Int64s:
        """Return what these rows count for."""
        columns = self._columns
        if len(self._open) < len(columns.taint_sets):
            self._reopen()
        usable = np.equal(columns.flags[rows] & (_UNCOUNTED | PRESENT), PRESENT) & self._open[columns.taint_set[rows]]
        worth: Int64s = np.where(usable, columns.free[:, rows], 0)
        for place in np.flatnonzero((worth < 0).any(axis=0)).tolist():
            # Others may have put there more than the node has: that takes nothing from the other nodes.
            worth[:, place] = np.maximum(worth[:, place], -self._held_on(int(rows[place])))
        return worth

    def _held_on(self, row: int) -> Int64s:
        """Return what pods of ours hold on a row."""
        node = self._columns.nodes[row]
        held = np.zeros(len(self._columns.axis), np.int64)
        for entry in self._pods.at_node(node.name) if node is not None else ():
            if entry.charged and self._is_ours(entry.pod.uid):
                held += self._columns.charged(row, entry.pod.request).dense
        return held

    def _reopen(self) -> None:
        """Find out again through which sets of taints some pod gets in."""
        sets = self._columns.taint_sets
        for taints in sets:
            if taints not in self._tolerating:
                self._tolerating[taints] = sum(lets_in(taints, tolerations) for tolerations in self._tolerations)
        self._open = np.array([self._tolerating[taints] > 0 or not _is_hard(taints) for taints in sets], np.bool_)


def _is_hard(taints: tuple[Taint, ...]) -> bool:
    return any(taint.effect is not Effect.PREFER_NO_SCHEDULE for taint in taints)
