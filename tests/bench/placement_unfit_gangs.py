# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gangs that fit into no rack, by the hundred thousand, beside gangs that do.

`python -m bench.placement_unfit_gangs` lets so many gangs of two pods wait, each of which must be within one rack. Half
of them are too large for any node, the other half find at most one empty node in a rack. Then gangs of four come that
fit, are placed, and end, in rounds. It prints memory, rates by the process' own clock, and the longest slice. It exits
with 1 when a mark is missed.
"""

import gc
import sys
import time
from pathlib import Path
from typing import Any, Final

from bench._figures import count, load_average, parser_of, table
from bench.placement_cycles import MARK_SLICE, Case
from placement.app.process import gc_control
from placement.core.scheduler import Scheduler
from placement.graph.topology import Topology
from placement.graph.tree.fits import KEPT
from placement.model.messages.event import Deleted, Upserted
from placement.model.objects.pod import Pod
from placement.model.objects.workload import PodGroup
from placement.model.rules.topology import TopologyRequest
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, gang, mine, node, pod
from placement_kit.kube_batch import policy

RACKS: Final = 20
NODES: Final = 16
RACK: Final = TopologyRequest(required=("rack",), field="converged.hpc/required-topology")
# What gangs that fit keep of the rate that they have alone.
MARK_STREAM: Final = 0.8
# By how much the memory after the first round may grow until the last: a part of what the crowd takes.
MARK_GROWTH: Final = 0.02
GANGS: Final = 100
ROUNDS: Final = 5


class Racks(Case):
    """A scheduler over racks of nodes, of which each rack has one without a pod."""

    def __init__(self) -> None:
        super().__init__(0)
        self.scheduler = Scheduler(
            load(policy("allocate, backfill"), "bench"),
            scheduler_name="placement",
            topology=Topology(levels=("rack",), labels=("rack",)),
        )
        for index in range(RACKS * NODES):
            labels = (("rack", f"r{index // NODES}"),)
            room = amounts(cpu="32", memory="256Gi", pods="110")
            self.tell(Upserted(node(f"n{index}", labels=labels, allocatable=room)))
            if index % NODES:
                self.tell(Upserted(pod(f"f{index}", node=f"n{index}", request=amounts(cpu="1"))))
        self.settle()

    def wait(self, first: int, end: int) -> None:
        """Let gangs come that fit nowhere."""
        for index in range(first, end):
            asked = f"{33_000 + index % 1000}m" if index % 2 else "32"
            self.come(f"w{index}", 2, asked, "2026-01-01T00:00:00Z")
        self.settle()

    def come(self, name: str, size: int, cpu: str, created: str) -> list[Pod]:
        """Let one gang come; its pods are the answer."""
        pods = [mine(f"{name}-{index}", group=name, request=amounts(cpu=cpu), created=created) for index in range(size)]
        self.tell(Upserted(gang(name, size, topology=RACK)))
        self.see(pods)
        return pods

    def stream(self, number: int) -> float:
        """Return the pods a second of gangs that come together, until all are bound; they end behind it."""
        gc_control.collect()
        self.binds, self.longest, pods = 0, 0.0, list[Pod]()
        begun = time.process_time()
        for index in range(GANGS):
            pods += self.come(f"s{number}-{index}", 4, "1", "2026-01-02T00:00:00Z")
        while self.binds < len(pods):
            if not self.slice() and self.binds < len(pods):
                raise SystemExit(f"{self.binds} of {len(pods)} pods were placed")
        spent = time.process_time() - begun
        self.settle()
        for one in pods:
            self.tell(Deleted(Pod, one.uid, 1 << 40))
        for index in range(GANGS):
            self.tell(Deleted(PodGroup, gang(f"s{number}-{index}", 4).uid, 1 << 40))
        self.settle()
        return len(pods) / spent


def resident() -> int:
    """Return the bytes that the process has in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def main() -> int:
    """The command line."""
    parser = parser_of(__doc__, "--gangs 10000")
    parser.add_argument("--gangs", type=count, default=100_000, help="gangs that wait (default: 100000)")
    number = parser.parse_args().gangs
    gc_control.begin()
    case = Racks()
    alone = [case.stream(index) for index in range(ROUNDS)]
    at_first, memory = resident(), []
    slowest = 0.0
    for part in range(4):
        case.longest = 0.0
        case.wait(number * part // 4, number * (part + 1) // 4)
        slowest = max(slowest, case.longest)
        memory.append(resident() - at_first)
    crowded, after, longest = [], [], 0.0
    for index in range(ROUNDS):
        crowded.append(case.stream(ROUNDS + index))
        longest = max(longest, case.longest)
        after.append(resident() - at_first)
    graph = case.scheduler.graph.graph
    known = 0 if graph is None else len(graph.fits)
    share, growth = max(crowded) / max(alone), (after[-1] - after[0]) / memory[-1]
    rows: list[Any] = [
        ("gangs that fit, alone: best of the rounds", f"{max(alone):,.0f} pods/s", ""),
        ("the same beside the crowd", f"{max(crowded):,.0f} pods/s, {share:.0%}", f"≥ {MARK_STREAM:.0%}"),
        *((f"memory of {number * (part + 1) // 4:,} gangs", _mib(memory[part]), "") for part in range(4)),
        ("for each waiting pod", f"{memory[-1] / (2 * number):,.0f} bytes", ""),
        ("growth from the first round to the last", f"{_mib(after[-1] - after[0])}", f"≤ {MARK_GROWTH:.0%}"),
        ("fit counts that the graph keeps", f"{known}", f"≤ {KEPT}"),
        ("longest slice while the crowd comes", f"{slowest * 1000:.1f} ms", ""),
        ("longest slice in the rounds", f"{longest * 1000:.1f} ms", f"≤ {MARK_SLICE * 1000:.0f} ms"),
    ]
    print(f"{number} gangs of 2 that fit nowhere, {ROUNDS} rounds of {GANGS} gangs of 4, {load_average()}\n")
    print(table(("what", "figure", "asked"), rows))
    met = share >= MARK_STREAM and growth <= MARK_GROWTH and known <= KEPT and longest <= MARK_SLICE
    return 0 if met else 1


def _mib(amount: int) -> str:
    return f"{amount / 2**20:,.1f} MiB"


if __name__ == "__main__":
    sys.exit(main())
