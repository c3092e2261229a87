# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree as data for a picture: domains, nodes, what holds room on each node, and which nodes are closed and why."""

from typing import Any, Final

from placement.graph.topology import NODE
from placement.graph.tree.tree import Graph
from placement.graph.views.show import walk
from placement.model.objects.node import Node
from placement.model.objects.pod import Pod
from placement.model.rules.selector import UNSCHEDULABLE_TAINT, Effect
from placement.model.slicing import Steps, pauses
from placement.state.cluster import Cluster
from placement.state.nodes.node_columns import BATCH_FLAGS
from placement.state.nodes.node_filters import CLOSED

Json = dict[str, Any]
# What may hold room, in the order in which it is drawn.
OURS: Final = "ours"
OTHERS: Final = "others"
SYSTEM: Final = "system"
BATCH: Final = "batch"
HOLDERS: Final = (OURS, OTHERS, SYSTEM, BATCH)
# The kinds of marks that a node may bear beside BATCH.
LOST: Final = "lost"
CORDONED: Final = "cordoned"
TAINTED: Final = "tainted"
CLOSED_NODE: Final = "closed"
_LOST_TAINTS: Final = {
    "node.kubernetes.io/not-ready": "not ready",
    "node.kubernetes.io/unreachable": "unreachable",
}
_STEP: Final = 256


def picture(graph: Graph, cluster: Cluster, scheduler: str) -> Steps[Json]:
    """Return the tree with what holds room, in steps; `scheduler` is the name by which pods ask for this scheduler.

    Events may be applied between two steps: each node is shown as it is when its turn comes.
    """
    items: list[Json] = []
    pacing = pauses(_STEP)
    for depth, use in list(walk(graph, nodes=True)):
        name = use.domain.rpartition("/")[2]
        if use.level != NODE:
            items.append({"depth": depth, "level": use.level, "name": name})
            continue
        row = graph.columns.rows.get(name)
        node = graph.columns.nodes[row] if row is not None else None
        if row is None or node is None:
            # It has gone since the last step.
            continue
        items.append(
            {
                "depth": depth,
                "level": NODE,
                "name": name,
                "has": graph.columns.allocatable[:, row].tolist(),
                "held": _held(cluster, row, name, scheduler),
                "marks": marks(node, int(graph.columns.flags[row])),
            }
        )
        if next(pacing):
            yield
    resources = list(graph.columns.axis.names)
    for item in items:
        # A resource may have come with a node between two steps.
        for amounts in (item.get("has", []), *item.get("held", {}).values()):
            amounts += [0] * (len(resources) - len(amounts))
    return {"resources": resources, "items": items}


def _held(cluster: Cluster, row: int, name: str, scheduler: str) -> dict[str, list[int]]:
    held: dict[str, Any] = {}
    for entry in cluster.pods.at_node(name):
        if entry.charged:
            kind = holder(entry.pod, scheduler)
            charge = cluster.columns.charged(row, entry.pod.request).dense
            held[kind] = held[kind] + charge if kind in held else charge
    return {kind: held[kind].tolist() for kind in HOLDERS if kind in held}


def holder(pod: Pod, scheduler: str) -> str:
    """Return which kind of holder the pod is: a placeholder is the batch job that it stands for."""
    if pod.lease:
        return BATCH
    if pod.mirror or pod.daemon:
        return SYSTEM
    return OURS if pod.spec.scheduler_name == scheduler else OTHERS


def marks(node: Node, flags: int) -> list[tuple[str, str]]:
    """Return the kind and the words of each reason for which new pods stay away from the node."""
    found = [(LOST, _LOST_TAINTS[taint.key]) for taint in node.taints if taint.key in _LOST_TAINTS]
    if node.unschedulable:
        found.append((CORDONED, "cordoned"))
    found += [(BATCH if flag & BATCH_FLAGS else CLOSED_NODE, words) for flag, words in CLOSED.items() if flags & flag]
    found += [
        (TAINTED, f"taint {taint.key}")
        for taint in node.taints
        if taint.effect is not Effect.PREFER_NO_SCHEDULE and taint.key not in {*_LOST_TAINTS, UNSCHEDULABLE_TAINT}
    ]
    return list(dict.fromkeys(found))
