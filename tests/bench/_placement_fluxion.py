# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the resource graph chooses the nodes that Fluxion's own `resource-query` chooses, for drawn trees and jobs.

`python -m bench._placement_fluxion --binary PATH` draws a tree of racks, nodes and cores and a row of jobs from each
seed, and has both place them, one after the other on what is left. After a job that they place differently both lose
step, so the rest of that row is not compared. For `first` and `firstnodex` only whether the job fits is compared.
Exits with 1 when anything differs. It is no part of `make bench`, because resource-query is no part of any environment.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench._figures import count, table
from bench.placement_graph import RACKS, charging
from placement.graph.formats.jgf import write_jgf
from placement.graph.matching.operations import allocate
from placement.graph.request import NoMatch, Part, Request
from placement.graph.tree.tree import Graph
from placement.model.messages.event import Upserted
from placement.model.objects.node import Node
from placement.state.cluster import Cluster

POLICIES: Final = ("first", "firstnodex", "low", "high", "lonode", "hinode", "lonodex", "hinodex")
# Fluxion orders single cores by these, and so divides slots without nodes among all nodes. Kubelets choose cores here.
OF_CORES: Final = ("low", "high")
# Fluxion takes what its walk meets first, which is neither the lowest nor the highest name.
OF_WALKS: Final = ("first", "firstnodex")
_VERTEX: Final = re.compile(r"-+([a-z]+)([0-9]*)\[([0-9]+):")
_SECONDS: Final = 60
# Cores for each node and pods on it, by the name of the node; None where nothing fits.
Chosen = dict[str, int] | None


@dataclass(frozen=True, slots=True)
class Job:
    """So many nodes with so many slots of so many cores each, in one rack or anywhere; or slots on any nodes."""

    nodes: int
    slots: int
    cores: int
    rack: bool

    @property
    def shape(self) -> str:
        """Return what kind of job it is."""
        return f"{'in one rack: ' if self.rack else ''}{'slots on so many nodes' if self.nodes else 'slots anywhere'}"

    def request(self, policy: str) -> Request:
        """Return the job as the graph takes it."""
        count, per_node = self.slots * max(self.nodes, 1), self.slots if self.nodes else 0
        part = Part(count=count, request=(("cpu", 1000 * self.cores),), per_node=per_node)
        return Request(parts=(part,), within=("rack",) if self.rack else (), required=self.rack, policy=policy)

    def jobspec(self) -> str:
        """Return the job as Fluxion takes it, in YAML."""
        lines = ["version: 9999", "resources:"]
        indent = "  "
        rack = int(self.rack)
        for kind, number in (("rack", rack), ("node", self.nodes), ("slot", self.slots), ("core", self.cores)):
            if number:
                lines += [f"{indent}- type: {kind}", f"{indent}  count: {number}"]
                lines += [f"{indent}  label: pod"] * (kind == "slot")
                lines += [f"{indent}  with:"] * (kind != "core")
                indent += "    "
        lines += ["attributes:", "  system:", "    duration: 3600"]
        return "\n".join([*lines, "tasks:", "  - command: [app]", "    slot: pod", "    count: {per_slot: 1}", ""])


def drawn(seed: int) -> tuple[Cluster, list[Job]]:
    """Return a cluster without pods, and jobs for it."""
    draw = random.Random(seed)
    cluster, number = Cluster(), 0
    for rack in range(draw.randint(1, 4)):
        cores = draw.choice((2, 4, 8))
        for _node in range(draw.randint(1, 5)):
            amounts = (("cpu", 1000 * cores), ("pods", 110))
            labels = (("rack", f"rack{rack}"),)
            node = Node(uid=f"n{number}", name=f"node{number}", version=1, labels=labels, allocatable=amounts)
            cluster.apply(Upserted(node))
            number += 1
    jobs: list[Job] = []
    for _job in range(8):
        number = draw.choice((0, 1, 1, 2, 3))
        # Slots right below a rack are an error to resource-query.
        jobs.append(Job(number, draw.randint(1, 4), draw.randint(1, 3), bool(number) and draw.random() < 0.5))
    return cluster, jobs


def ours(cluster: Cluster, jobs: list[Job], policy: str) -> list[Chosen]:
    """Return what the graph chooses for each job, on what those before it have left."""
    graph = Graph(cluster.columns, RACKS)
    found: list[Chosen] = []
    for job in jobs:
        request = job.request(policy)
        selection = allocate(graph, request, [None], charging(cluster, request))
        if isinstance(selection, NoMatch):
            found.append(None)
            continue
        share = selection.parts[0]
        pods: dict[str, int] = {}
        for row, number in zip(share.rows.tolist(), share.numbers.tolist(), strict=True):
            node = cluster.columns.nodes[row]
            assert node is not None
            pods[node.name] = number * job.cores
        found.append(pods)
    return found


def theirs(binary: Path, folder: Path, graph: Graph, jobs: list[Job], policy: str) -> list[Chosen]:
    """Return what resource-query chooses for each job."""
    tree = folder / "tree.json"
    tree.write_text("".join(write_jgf(graph, pools=False)))
    commands = []
    for number, job in enumerate(jobs):
        (folder / f"{number}.yaml").write_text(job.jobspec())
        commands.append(f"match allocate {folder}/{number}.yaml\n")
    words = [str(binary), "-L", str(tree), "-f", "jgf", "-S", "CA", "-P", policy, "-F", "pretty_simple"]
    told = subprocess.run(
        words, input="".join([*commands, "quit\n"]), capture_output=True, text=True, timeout=_SECONDS, check=True
    ).stdout
    found: list[Chosen] = []
    chosen: Counter[str] = Counter()
    node = ""
    for line in told.splitlines():
        vertex = _VERTEX.search(line)
        if vertex and vertex[1] == "node":
            node = vertex[0].lstrip("-").partition("[")[0]
        elif vertex and vertex[1] == "core":
            chosen[node] += int(vertex[3])
        elif "JOBID=" in line:
            found.append(dict(sorted(chosen.items())) or None)
            chosen = Counter()
    if len(found) != len(jobs):
        raise SystemExit(f"{binary} answered {len(found)} of {len(jobs)} jobs: {told[-500:]}")
    return found


def _agree(policy: str, fluxion: Chosen, graph: Chosen) -> bool:
    if fluxion is None or graph is None or policy in OF_WALKS:
        return (fluxion is None) == (graph is None)
    # With a whole node Fluxion gives all of its cores.
    return fluxion.keys() == graph.keys() if policy.endswith("x") else fluxion == graph


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True, help="resource-query of flux-sched")
    parser.add_argument("--seeds", type=count, default=100, help="drawn trees for each policy (default: 100)")
    parser.add_argument("--show", type=int, default=3, help="differences that are shown")
    options = parser.parse_args()
    same: Counter[tuple[str, str]] = Counter()
    different: Counter[tuple[str, str]] = Counter()
    shown = 0
    with tempfile.TemporaryDirectory() as folder:
        for policy in POLICIES:
            for seed in range(options.seeds):
                cluster, jobs = drawn(seed)
                graph = Graph(cluster.columns, RACKS)
                expected = theirs(options.binary, Path(folder), graph, jobs, policy)
                for job, fluxion, graph_ in zip(jobs, expected, ours(cluster, jobs, policy), strict=True):
                    if policy in OF_CORES and not job.nodes:
                        break
                    if _agree(policy, fluxion, graph_):
                        same[policy, job.shape] += 1
                    else:
                        different[policy, job.shape] += 1
                        if shown < options.show:
                            shown += 1
                            print(f"{policy}, seed {seed}: {job}: resource-query {fluxion}, the graph {graph_}")
                    if fluxion != graph_ and not (policy.endswith("x") and _agree("lonodex", fluxion, graph_)):
                        break
    rows = [
        [policy, shape, str(same[policy, shape]), str(different[policy, shape])]
        for policy, shape in sorted({*same, *different})
    ]
    print(table(("policy", "jobs", "same", "different"), rows))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
