# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a graph says, in names, and the graph that a fresh list of everything gives."""

from collections.abc import Iterable
from typing import Any

from placement.graph.topology import Topology
from placement.graph.tree.tree import Graph
from placement.model.device_slices import DeviceSlice
from placement.model.messages.event import Deleted, Event, Relisted, Upserted
from placement.model.objects.node import Node
from placement.model.objects.pod import Pod
from placement.state.cluster import Cluster

from placement_kit.builders import amounts

BY_LABELS = Topology(levels=("zone", "rack"), labels=("zone", "rack"))
SHAPES = (amounts(cpu="1"), amounts(cpu="500m", gpu="1"), ())


def summary(graph: Graph) -> dict[str, Any]:
    """Return all that decides a choice, in names, so that two graphs can be compared whatever their rows."""
    graph.sync()
    order = [graph.columns.nodes[row] for row in graph.order.rows.tolist()]
    axis = graph.columns.axis.names
    kept = [index for index, name in enumerate(axis) if graph.columns.allocatable[index].any()]
    return {
        "order": [each.name for each in order if each is not None],
        "paths": [graph.levels.path(row) for row in graph.order.rows.tolist()],
        "use": [
            (use.level, use.domain, use.nodes, {axis[index]: (use.capacity[index], use.free[index]) for index in kept})
            for level in ("cluster", "zone", "rack", "node")
            for use in graph.use(level)
        ],
        "devices": {each.name: graph.devices.of(each.name) for each in order if each is not None},
        "fits": [graph.fits.counts(shape)[graph.order.rows].tolist() for shape in SHAPES],
    }


def survivors(events: Iterable[Event]) -> list[Relisted]:
    """Return what a list shows after these events."""
    there: dict[str, Node | Pod | DeviceSlice] = {}
    for event in events:
        if isinstance(event, Upserted) and isinstance(event.item, Node | Pod | DeviceSlice):
            there[event.item.uid] = event.item
        elif isinstance(event, Deleted):
            there.pop(event.uid, None)
    items = list(there.values())
    kinds = (Node, Pod, DeviceSlice)
    return [Relisted(kind, tuple(item for item in items if isinstance(item, kind)), 99) for kind in kinds]


def fresh(lists: Iterable[Relisted]) -> Graph:
    """Return the graph of a cluster that has seen these lists and nothing else."""
    cluster = Cluster()
    for relisted in lists:
        cluster.apply(relisted)
    return Graph(cluster.columns, BY_LABELS, devices=cluster.devices)
