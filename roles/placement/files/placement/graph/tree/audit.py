# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The slow check: what the graph and the columns hold against the pods themselves, some rows at a time.

`Graph.check` compares the graph with the columns and heals it. This adds the comparison of the columns with the pods,
which reads every pod of the rows asked for. A difference there is a fault of the state: it is reported, not healed.
"""

import numpy as np

from placement.graph.tree.tree import Drift, Graph
from placement.state.cluster import Cluster


def audit(graph: Graph, cluster: Cluster, part: int = 0, parts: int = 1) -> list[Drift]:
    """Return what differs in every `parts`-th row, beginning with row `part`; the graph is healed.

    Asked with each part in turn, it has compared all rows after `parts` calls.
    """
    rows = range(part, len(cluster.columns.nodes), parts)
    found = [drift for row in rows for drift in _charge_drifts(cluster, row)]
    return found + graph.check(rows)


def _charge_drifts(cluster: Cluster, row: int) -> list[Drift]:
    """Return what the columns hold of a row that differs from what its pods come to."""
    columns = cluster.columns
    node = columns.nodes[row]
    free, releasing, nominated = (np.zeros(len(columns.axis), np.int64) for _array in range(3))
    own = np.zeros(1, np.int64)
    if node is not None:
        free += columns.allocatable[:, row]
        for entry in cluster.pods.at_node(node.name):
            vector = columns.axis.request(entry.pod.request)
            if vector.extended:
                vector = columns.charged(row, entry.pod.request)
            if not entry.charged:
                nominated += vector.dense
                continue
            free -= vector.dense
            own += entry.pod.of_node
            if entry.leaving:
                releasing += vector.dense
    where = node.name if node is not None else f"row {row}, which has no node"
    truth = {"free": free, "releasing": releasing, "nominated": nominated, "own_pods": own}
    return [
        Drift(where, f"columns: {name}", str(held.tolist()), str(true.tolist()))
        for (name, true), held in zip(
            truth.items(),
            (columns.free[:, row], columns.releasing[:, row], columns.nominated[:, row], columns.own_pods[[row]]),
            strict=True,
        )
        if (held != true).any()
    ]
