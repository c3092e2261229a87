# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one graph of a cluster, made when it is first asked for, in steps."""

from typing import Final

from placement.graph.topology import Topology
from placement.graph.tree.numa_nodes import Lookup
from placement.graph.tree.tree import Graph
from placement.model.slicing import Steps
from placement.state.device_table import DeviceTable
from placement.state.nodes.node_columns import NodeColumns

# The label with a node's performance class, from 0 to 9999; Fluxion has it as the property `perf_class` of a vertex.
PERF_CLASS: Final = "converged.hpc/perf-class"
# Nodes that are put into the tree in one step.
_ROWS: Final = 256


class GraphSource:
    """Make the graph once, for all that ask for it."""

    def __init__(
        self,
        columns: NodeColumns,
        topology: Topology,
        numa_nodes: Lookup = lambda _name: None,
        devices: DeviceTable | None = None,
    ) -> None:
        """Note where nodes are and what says which NUMA nodes and devices a node has, by its name."""
        self._numa_nodes, self._devices = numa_nodes, devices
        self.columns = columns
        self.topology = topology
        # None until it has been asked for.
        self.graph: Graph | None = None

    def obtain(self) -> Steps[Graph]:
        """Return the graph; events may be applied between two steps."""
        if self.graph is None:
            graph = Graph(
                self.columns,
                self.topology,
                class_label=PERF_CLASS,
                numa_nodes=self._numa_nodes,
                devices=self._devices,
                at_once=False,
            )
            yield from graph.load(_ROWS)
            if self.graph is None:
                self.graph = graph
        return self.graph
