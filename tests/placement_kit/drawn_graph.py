# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters drawn in a line for tests of the graph: racks of nodes, and what is free there."""

from collections.abc import Mapping, Sequence

from placement.graph.request import NoMatch, Selection
from placement.graph.topology import Topology
from placement.graph.tree.tree import Graph
from placement.model.amounts.quantity import Amounts
from placement.model.messages.event import Upserted
from placement.state.cluster import Cluster

from placement_kit.builders import amounts, node, pod

CORE: Amounts = amounts(cpu="1")
ZONES = Topology(levels=("zone", "rack"), labels=("zone", "rack"))


class Drawn:
    """A cluster and its graph; nodes have 4 cores, and `free` of them are open."""

    def __init__(self, free: Mapping[str, Sequence[int]], *, labels: Mapping[str, Mapping[str, str]] | None = None):
        self.cluster = Cluster()
        for place, cores in free.items():
            zone, rack = place.split("/")
            for index, left in enumerate(cores, start=1):
                name = f"{rack}n{index}"
                more = dict((labels or {}).get(name, {}))
                self.cluster.apply(
                    Upserted(node(name, labels=tuple(sorted({"zone": zone, "rack": rack, **more}.items()))))
                )
                if left < 4:
                    self.cluster.apply(Upserted(pod(f"on-{name}", node=name, request=amounts(cpu=str(4 - left)))))
        self.graph = Graph(self.cluster.columns, ZONES, class_label="class")

    def names(self, found: Selection | NoMatch, part: int = 0) -> dict[str, int]:
        """Return the nodes of a part in the order of their choice, and their numbers of pods."""
        assert isinstance(found, Selection), str(found)
        rows, numbers = found.parts[part]
        return {self.name(row): number for row, number in zip(rows.tolist(), numbers.tolist(), strict=True)}

    def name(self, row: int) -> str:
        """Return the name of the node in this row."""
        there = self.cluster.columns.nodes[row]
        assert there is not None
        return there.name
