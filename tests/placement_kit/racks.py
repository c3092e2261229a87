# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated site whose nodes stand in racks."""

from collections import Counter
from typing import Any

from placement.graph.topology import Topology
from placement.graph.tree.audit import audit
from placement.model.objects.pod import Pod
from placement.model.rules.topology import TopologyRequest

from placement_kit.builders import amounts, gang, mine, node, pod, queue
from placement_kit.simulated import Simulated

ZONES = Topology(levels=("zone", "rack"), labels=("zone", "example.com/rack"))
RACK = TopologyRequest(required=("rack",), field="converged.hpc/required-topology")


class Site(Simulated):
    """Racks of nodes with four cores: r0 and r1 in zone a, r2 in zone b, with so many nodes each."""

    def __init__(self, *sizes: int, **more: Any) -> None:
        super().__init__(topology=ZONES, **more)
        self.racks: dict[str, str] = {}
        self.see(queue("default"))
        for index, size in enumerate(sizes):
            for number in range(size):
                self.add(f"r{index}n{number}", index)

    def add(self, name: str, rack: int) -> None:
        labels = tuple(sorted({"zone": "ab"[rack // 2], "example.com/rack": f"r{rack}"}.items()))
        self.racks[name] = f"r{rack}"
        self.see(node(name, labels=labels))

    def fill(self, *names: str, cores: int = 4) -> None:
        """Pods of another scheduler take so much of these nodes."""
        for name in names:
            self.see(pod(f"foreign-{name}", node=name, request=amounts(cpu=str(cores))))

    def ask(self, name: str, number: int, topology: TopologyRequest | None, *, cores: int = 4, **more: Any) -> None:
        """Make a gang of so many pods, each of which takes a whole node unless cores says otherwise."""
        self.see(gang(name, number, topology=topology, **more))
        self.members(name, range(number), cores=cores)

    def members(self, name: str, numbers: range, *, cores: int = 4, **more: Any) -> None:
        for index in numbers:
            self.see(mine(f"{name}-{index}", group=name, request=amounts(cpu=str(cores)), **more))

    def where(self, name: str) -> Counter[str]:
        """Return how many pods of the group are in each rack."""
        return Counter(self.racks[item.node] for item in self.of(name) if item.node)

    def of(self, name: str) -> list[Pod]:
        return [item for item in self.pods.values() if item.name.startswith(f"{name}-")]

    def drift(self) -> list[object]:
        graph = self.scheduler.graph.graph
        assert graph is not None
        return list(audit(graph, self.scheduler.cluster))

    def limit(self, name: str) -> str:
        found = self.explain("team", name)
        assert found is not None
        return found.limit
