# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How well pods are placed, beside kube-scheduler: how even the load is, and how much of what is left can be used.

Both place the same pods of many sizes in the same order on the same empty nodes, to a part of their CPU. Balance is the
standard deviation of the nodes' loads, and skew how far CPU and memory of one node are apart. What is left is usable as
far as large pods still fit into it: as many as fit node by node, against as many as there would be in one piece.
"""

import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from bench._figures import load_average, parser_of, part, table
from bench._placement_cases import CASES
from bench._placement_cluster import PODS, Cluster, Field, field, keep, options
from bench._placement_contestants import Contestant

NAMES: Final = ("placement", "kube-scheduler")
NODE_CPU: Final = 32
NODE_MEMORY: Final = 128
# Cores and GiB: from a helper to half a node, lean and fat.
SIZES: Final = ((1, 1), (1, 8), (2, 4), (2, 16), (4, 8), (4, 32), (8, 16), (8, 64), (16, 32))
SMALL_TO_LARGE: Final = (12, 8, 10, 6, 8, 4, 4, 2, 1)
LARGE: Final = (8, 32)
REST_SECONDS: Final = 10.0
HEAD: Final = (
    "load",
    "contestant",
    "placed",
    "CPU",
    "memory",
    "skew",
    f"{LARGE[0]} cores and {LARGE[1]} GiB still fit",
)

Size = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Result:
    """One run; deviations are parts of a node."""

    part: float
    contestant: str
    offered: int
    placed: int
    cpu_deviation: float
    memory_deviation: float
    skew: float
    fit: int
    would_fit: int


def sizes(total: float) -> Iterator[Size]:
    """The same random sizes each time, until their CPU comes to the total."""
    chosen = random.Random(1)
    while total > 0:
        size = chosen.choices(SIZES, SMALL_TO_LARGE)[0]
        total -= size[0]
        yield size


def pods_of(wanted: Sequence[Size], scheduler: str) -> list[dict[str, Any]]:
    """Pods of these sizes."""
    found = []
    for index, (cpu, memory) in enumerate(wanted):
        pod = CASES["plain"](1.0).pod(index, scheduler)
        requests = {"cpu": str(cpu), "memory": f"{memory}Gi"}
        container = {**pod["spec"]["containers"][0], "resources": {"requests": requests}}
        found.append({**pod, "spec": {**pod["spec"], "containers": [container]}})
    return found


def run(ground: Field, contestant: Contestant, part: float) -> Result:
    """One run: the pods wait, the contestant places what it can."""
    wanted = [*sizes(part * NODE_CPU * len(ground.nodes))]
    ground.cluster.create_all(pods_of(wanted, contestant.scheduler_name))
    follower = ground.cluster.follow()
    with contestant.running():
        heard = time.monotonic()
        while len(follower.binds) < len(wanted) and time.monotonic() - heard < REST_SECONDS:
            time.sleep(0.2)
            if follower.read():
                heard = time.monotonic()
    used = usage(ground.cluster, ground.nodes, wanted)
    ground.cluster.clear()
    return judged(part, contestant.name, len(wanted), len(follower.binds), used)


def usage(cluster: Cluster, nodes: Sequence[str], wanted: Sequence[Size]) -> list[Size]:
    """Cores and GiB in use on each node."""
    used = dict.fromkeys(nodes, (0, 0))
    for pod in cluster.api.items(PODS):
        node = pod["spec"].get("nodeName")
        if node:
            cpu, memory = wanted[int(pod["metadata"]["name"].rpartition("-")[2])]
            used[node] = (used[node][0] + cpu, used[node][1] + memory)
    return list(used.values())


def judged(part: float, contestant: str, offered: int, placed: int, used: Sequence[Size]) -> Result:
    """The figures of one run."""
    loads = [(cpu / NODE_CPU, memory / NODE_MEMORY) for cpu, memory in used]
    left = [(NODE_CPU - cpu, NODE_MEMORY - memory) for cpu, memory in used]
    return Result(
        part,
        contestant,
        offered,
        placed,
        statistics.pstdev(cpu for cpu, _unused in loads),
        statistics.pstdev(memory for _unused, memory in loads),
        statistics.fmean(abs(cpu - memory) for cpu, memory in loads),
        sum(fitting(size) for size in left),
        fitting((sum(cpu for cpu, _unused in left), sum(memory for _unused, memory in left))),
    )


def fitting(size: Size) -> int:
    """How many large pods fit."""
    return min(size[0] // LARGE[0], size[1] // LARGE[1])


def main() -> int:
    """The command line."""
    parser = parser_of(__doc__, "--nodes 50 --part 0.8")
    options(parser, NAMES)
    parser.set_defaults(nodes=100)
    parser.add_argument("--part", type=part, nargs="+", default=[0.5, 0.8, 1.0], help="of all CPU (default: .5 .8 1)")
    given = parser.parse_args()
    with field(given, NAMES) as ground:
        results = [run(ground, one, part) for part in given.part for one in ground.contestants]
        nodes = len(ground.nodes)
    keep(given, [asdict(result) for result in results])
    print(f"{nodes} nodes of {NODE_CPU} cores and {NODE_MEMORY} GiB, {load_average()}\n")
    rows = []
    for one in results:
        deviations = [f"{100 * figure:.1f} %" for figure in (one.cpu_deviation, one.memory_deviation, one.skew)]
        placed, fit = f"{one.placed} of {one.offered}", f"{one.fit} of {one.would_fit}"
        rows.append((f"{one.part:.0%}", one.contestant, placed, *deviations, fit))
    print(table(HEAD, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
