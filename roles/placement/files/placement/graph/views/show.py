# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree as text: one line for each domain, with its nodes and what of each resource is in use."""

from collections.abc import Iterable, Iterator

from placement.graph.topology import CLUSTER, NODE
from placement.graph.tree.device_sites import match_devices
from placement.graph.tree.tree import Graph, Use
from placement.model.amounts.quantity import CPU, EPHEMERAL_STORAGE, MEMORY, format_amount
from placement.model.device_slices import DevicesOfPool
from placement.model.node_zones import NodeZones

_INDENT = "  "
_GIB = 2**30


def show(graph: Graph, *, nodes: bool = False) -> Iterator[str]:
    """Yield the lines, each domain below the one that it is in; with `nodes` every node has a line, too.

    What is in use is everything that is charged: pods of all schedulers and placeholders of batch jobs. Of NUMA nodes,
    which have a line where an agent publishes them, it is what their agent has seen. Of devices it is not known.
    """
    names = graph.columns.axis.names
    for depth, use in walk(graph, nodes=nodes):
        name = use.domain.rpartition("/")[2]
        title = CLUSTER if use.level == CLUSTER else f"{use.level} {name}"
        amounts = [
            amount_used(resource, has - free, has)
            for resource, has, free in zip(names, use.capacity, use.free, strict=True)
            if has
        ]
        count = "" if use.level == NODE else f"  {use.nodes} node{'s' if use.nodes != 1 else ''}"
        yield _INDENT * depth + "  ".join([title + count, *amounts])
        # A node may have gone since the last line was taken.
        if use.level == NODE and use.domain in graph.columns.rows:
            known = graph.numa_nodes.of(graph.columns.rows[use.domain])
            for line in _below(known, graph.devices.of(use.domain)):
                yield _INDENT * (depth + 1) + line


def _below(known: NodeZones | None, pools: Iterable[DevicesOfPool]) -> Iterator[str]:
    """Yield a line for each NUMA node and each device of a node."""
    for name, numa_node, held in match_devices(known, pools):
        if name:
            free = dict(numa_node.free if numa_node is not None else ())
            amounts = [
                amount_used(resource, has - free.get(resource, 0) if known and known.counted else None, has)
                for resource, has in (numa_node.has if numa_node is not None else ())
            ]
            yield "  ".join([f"numa {name}", *amounts])
        yield from (_INDENT * bool(name) + each.title() for each in held)


def walk(graph: Graph, *, nodes: bool = False) -> Iterator[tuple[int, Use]]:
    """Yield the depth and the use of each domain, and with `nodes` of each node, in the order of the tree."""
    graph.sync()
    levels = [CLUSTER, *graph.topology.levels, *([NODE] if nodes else [])]
    begins: list[tuple[int, int, Use]] = []
    for depth, level in enumerate(levels):
        starts, _ends = graph.runs(level)
        begins += [(start, depth, use) for start, use in zip(starts.tolist(), graph.use(level), strict=True)]
    rows = graph.order.rows.tolist()
    for start, depth, use in sorted(begins, key=lambda each: each[:2]):
        if use.level == NODE:
            # A node that is in no domain of a level stands beside those domains.
            depth = 1 + sum(name is not None for name in graph.levels.path(rows[start]) or ())
        yield depth, use


def amount_used(resource: str, used: int | None, has: int) -> str:
    """Return how much of how much is in use, in the resource's own unit; a question mark where it is not known."""
    unit = " GiB" if resource in (MEMORY, EPHEMERAL_STORAGE) else ""
    return f"{resource} {'?' if used is None else _in_unit(resource, used)}/{_in_unit(resource, has)}{unit}"


def _in_unit(resource: str, amount: int) -> str:
    if resource in (MEMORY, EPHEMERAL_STORAGE):
        return f"{amount / _GIB:.0f}"
    return f"{amount / 1000:g}" if resource == CPU else format_amount(resource, amount)
