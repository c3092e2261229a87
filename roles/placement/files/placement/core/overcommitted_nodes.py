# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes whose pods request more than they offer: nothing that we decide makes one, but we are not alone.

A leader that was stopped may have had a binding on its way when another took over, other schedulers place pods too,
and a node can shrink. Nothing more goes to such a node by itself, because there is no room, and a kubelet rejects what
comes to it beyond what it has. What runs already is not ours to end: people are told.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.model.amounts.quantity import format_amount
from placement.model.messages.action import NodeOverfull
from placement.model.objects.node import Node
from placement.state.cluster import Cluster
from placement.state.nodes.node_columns import UNREADABLE

_LOOK_SECONDS: Final = 1.0
# A pod of ours that others have forestalled is charged until the API has refused its binding.
LASTING_SECONDS: Final = 5.0


class OvercommittedNodes:
    """Looks once a second, and tells of each node once for as long as it lasts."""

    def __init__(self, cluster: Cluster) -> None:
        self._columns = cluster.columns
        self._pods = cluster.pods
        self._next = float("-inf")
        # By name, when it was first seen so.
        self._since: dict[str, float] = {}
        # Those that have been told of; read by other threads, so it is never changed but replaced.
        self.nodes: tuple[str, ...] = ()

    def look(self, now: float, coming: Iterable[str]) -> tuple[NodeOverfull, ...]:
        """Return what is to be told now; pods that are `coming` are charged to their nodes but not yet sent there."""
        if now < self._next:
            return ()
        self._next = now + _LOOK_SECONDS
        columns = self._columns
        left = self._left(coming)
        rows = np.flatnonzero((left < 0).any(axis=0) & np.equal(columns.flags & UNREADABLE, 0))
        found = {node.name: node for row in rows.tolist() if (node := columns.nodes[row]) is not None}
        self._since = {name: self._since.get(name, now) for name in found}
        before = self.nodes
        self.nodes = tuple(name for name, since in self._since.items() if now - since >= LASTING_SECONDS)
        return tuple(self._told(found[name], left) for name in self.nodes if name not in before)

    def _left(self, coming: Iterable[str]) -> NDArray[np.int64]:
        """Return what the present pods leave free; pods that are about to go do not count."""
        columns = self._columns
        left: NDArray[np.int64] = columns.free + columns.releasing
        for uid in coming:
            entry = self._pods.by_uid.get(uid)
            if entry is not None and entry.charged and entry.row >= 0 and not (entry.pod.node or entry.leaving):
                left[:, entry.row] += columns.charged(entry.row, entry.pod.request).dense
        return left

    def _told(self, node: Node, left: NDArray[np.int64]) -> NodeOverfull:
        columns = self._columns
        row = columns.rows[node.name]
        offered = columns.allocatable[:, row]
        asked = offered - left[:, row]
        said = (
            f"{format_amount(resource, much)} of {format_amount(resource, most)} {resource}"
            for resource, much, most in zip(columns.axis.names, asked.tolist(), offered.tolist(), strict=True)
            if much > most
        )
        return NodeOverfull(uid=node.uid, name=node.name, message=f"Its pods request {', '.join(said)}")
