# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast the resource graph chooses, loads and follows: without API, queues or policies of the daemon.

`python -m bench.placement_graph` prints the median of all rounds for each case, by the process' own clock; everything
is one thread. The cases of Fluxion are those of its `resource-query` bench (4,096 and 8,192 jobs) and of issue 1171 of
flux-sched (16,384 nodes), the gangs are those of kube-scheduler's benchmark `podgroup/tas`. After each case the graph
is compared with one that is made anew. It exits with 1 when a mark is missed.
"""

import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from bench._figures import count, load_average, parser_of, table
from placement.graph.formats.jgf import read_jgf, write_jgf
from placement.graph.matching.match import choose
from placement.graph.matching.operations import allocate
from placement.graph.request import NoMatch, Part, Request, Selection
from placement.graph.topology import Topology
from placement.graph.tree.tree import Graph
from placement.model.amounts.quantity import Amounts
from placement.model.messages.event import Deleted, Upserted
from placement.model.objects.node import Node
from placement.model.objects.pod import Pod, PodSpec
from placement.model.rules.selector import NodeSelector
from placement.state.cluster import Cluster

GIB: Final = 2**30
GPU: Final = "nvidia.com/gpu"
CORE: Final[Amounts] = (("cpu", 1000),)
RACKS: Final = Topology(levels=("rack",), labels=("rack",))
MARK_MATCH: Final = 0.5e-3
MARK_LARGE: Final = 10e-3
MARK_LOAD: Final = 5.0
MARK_BYTES: Final = 500e6
MARK_PODS: Final = 5000.0
MARK_EVENT: Final = 20e-6


class Row:
    """One line of the table."""

    def __init__(self, case: str, figures: list[float], unit: str, mark: float | None, *, least: bool = False) -> None:
        median = statistics.median(figures)
        self.met = mark is None or (median >= mark if least else median < mark)
        spread = f"{_shown(min(figures), unit)} to {_shown(max(figures), unit)}"
        asked = "" if mark is None else f"{'≥' if least else '<'} {_shown(mark, unit)}"
        self.cells = [case, _shown(median, unit), spread, asked]


def _shown(figure: float, unit: str) -> str:
    scale = {"ms": 1e3, "µs": 1e6, "MB": 1e-6}.get(unit, 1.0)
    return f"{figure * scale:,.{0 if unit in ('MB', 'pods/s') else 2}f} {unit}"


def nodes(number: int, amounts: Amounts, racks: int) -> Iterator[Node]:
    """Yield equal nodes in racks; every second one has the property `fast`."""
    for index in range(number):
        labels = [("rack", f"r{index * racks // number}")]
        if index % 2:
            labels.insert(0, ("property", "fast"))
        yield Node(uid=f"n{index}", name=f"n{index}", version=1, labels=tuple(labels), allocatable=amounts)


def cluster_of(number: int, amounts: Amounts, racks: int) -> Cluster:
    """Return a cluster of such nodes."""
    cluster = Cluster()
    for node in nodes(number, amounts, racks):
        cluster.apply(Upserted(node))
    return cluster


def charging(cluster: Cluster, request: Request) -> Callable[[int, int, int], None]:
    """Return what charges the columns as a statement of the daemon does."""
    vectors = [cluster.columns.axis.request(part.request) for part in request.parts]

    def charge(part: int, row: int, number: int) -> None:
        for _pod in range(number):
            cluster.columns.charge(row, vectors[part], 1)

    return charge


def checked(graph: Graph) -> None:
    """Refuse figures of a graph that has drifted."""
    drift = graph.check()
    if drift:
        raise SystemExit(f"the graph has drifted: {drift[:3]}")


def one_core_jobs(jobs: int) -> float:
    """Return the seconds of a match, with its charge, on 256 nodes of 32 cores."""
    cluster = cluster_of(256, (("cpu", 32_000), ("memory", 128 * GIB), ("pods", 110)), 8)
    graph = Graph(cluster.columns, RACKS)
    request = Request(parts=(Part(count=1, request=CORE),))
    charge = charging(cluster, request)
    begun = time.process_time()
    for _job in range(jobs):
        if isinstance(allocate(graph, request, [None], charge), NoMatch):
            raise SystemExit("a job of one core found no room")
    spent = time.process_time() - begun
    checked(graph)
    return spent / jobs


LARGE: Final[Amounts] = (("cpu", 64_000), ("memory", 256 * GIB), (GPU, 4), ("pods", 110))


def with_property(jobs: int) -> tuple[float, float]:
    """Return the seconds of a match, mean and worst, of jobs that want whole nodes with a property, of 16,384."""
    cluster = cluster_of(16_384, LARGE, 128)
    graph = Graph(cluster.columns, RACKS)
    selector = NodeSelector((("property", "fast"),))
    request = Request(
        parts=(Part(count=16, request=(("cpu", 64_000), (GPU, 4)), per_node=1),), within=("rack",), policy="lonodex"
    )
    charge = charging(cluster, request)
    spent: list[float] = []
    for _job in range(jobs):
        begun = time.process_time()
        found = allocate(graph, request, [cluster.masks.selector(selector).allows], charge)
        spent.append(time.process_time() - begun)
        if isinstance(found, NoMatch):
            raise SystemExit(f"no room: {found}")
    checked(graph)
    return statistics.mean(spent), max(spent)


def _load(path: str) -> tuple[float, float, int]:
    begun = time.process_time()
    description = read_jgf(Path(path).read_bytes(), path)
    cluster = Cluster()
    for node in description.nodes():
        cluster.apply(Upserted(node))
    graph = Graph(cluster.columns, description.topology)
    spent = time.process_time() - begun
    return spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, len(graph.order.rows)


def load(*, pools: bool) -> tuple[float, float]:
    """Return the seconds from a JGF file of 16,384 nodes to a graph, and the most bytes of the process that does it."""
    graph = Graph(cluster_of(16_384, LARGE, 128).columns, RACKS)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.writelines(write_jgf(graph, pools=pools, gpu=GPU))
        file.flush()
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            seconds, most, rows = pool.apply(_load, (file.name,))
    if rows != 16_384:
        raise SystemExit(f"{rows} nodes were loaded")
    return seconds, most


def gangs(number: int, size: int) -> float:
    """Return the pods a second that are placed into one rack each, of 5,000 nodes in 50 racks."""
    cluster = cluster_of(5000, (("cpu", 32_000), ("memory", 128 * GIB), ("pods", 110)), 50)
    graph = Graph(cluster.columns, RACKS)
    request = Request(parts=(Part(count=size, request=CORE),), within=("rack",), required=True, policy="locality")
    spec = PodSpec()
    uids = [f"p{index}" for index in range(number * size)]
    for uid in uids:
        pod = Pod(uid=uid, namespace="team", name=uid, version=1, spec=spec, request=CORE)
        cluster.apply(Upserted(pod))
    waiting = iter(uids)
    begun = time.process_time()
    for _gang in range(number):
        found = choose(graph, request, [None])
        if not isinstance(found, Selection):
            raise SystemExit(f"a gang of {size} found no rack: {found}")
        for row in found.parts[0].each():
            node = cluster.columns.nodes[row]
            assert node is not None
            cluster.pods.assume(next(waiting), node.name)
    spent = time.process_time() - begun
    checked(graph)
    return number * size / spent


def events(number: int, at_once: int) -> float:
    """Return the seconds that the graph spends on an event, of which so many come between two looks at it.

    Pods come and go on 20,000 nodes, and every hundredth event is of a Node that moves to another rack.
    """
    amounts: Amounts = (("cpu", 64_000), ("memory", 256 * GIB), ("pods", 110))
    cluster = cluster_of(20_000, amounts, 200)
    graph = Graph(cluster.columns, RACKS)
    shapes: list[Amounts] = [(("cpu", 1000 * cores),) for cores in (1, 2, 4, 8)]
    for shape in shapes:
        graph.fits.counts(shape)
    spec = PodSpec()
    spent = 0.0
    for index in range(number):
        at, version = (index * 7919) % 20_000, index + 2
        if index % 100 == 99:
            labels = (("rack", f"r{index % 200}"),)
            node = Node(uid=f"n{at}", name=f"n{at}", version=version, labels=labels, allocatable=amounts)
            cluster.apply(Upserted(node))
        elif index % 2:
            name = f"p{index - 1}"
            cluster.apply(Deleted(Pod, name, version))
        else:
            name = f"p{index}"
            cluster.apply(
                Upserted(
                    Pod(uid=name, namespace="team", name=name, version=version, spec=spec, request=CORE, node=f"n{at}")
                )
            )
        if index % at_once == at_once - 1:
            begun = time.process_time()
            graph.sync()
            for shape in shapes:
                graph.fits.counts(shape)
            spent += time.process_time() - begun
    checked(graph)
    return spent / number


def main() -> int:
    """The command line."""
    parser = parser_of(__doc__, "--rounds 1")
    parser.add_argument("--rounds", type=count, default=5, help="rounds of each case (default: 5)")
    rounds = range(parser.parse_args().rounds)
    rows: list[Row] = []
    for jobs in (4096, 8192):
        figures = [one_core_jobs(jobs) for _round in rounds]
        rows.append(Row(f"{jobs} one-core jobs, 256 nodes x 32 cores: a match", figures, "ms", MARK_MATCH))
    both = [with_property(200) for _round in rounds]
    case = "16,384 nodes x (64 cores + 4 GPUs), 16 whole nodes with a property:"
    rows.append(Row(f"{case} a match, mean", [mean for mean, _worst in both], "ms", MARK_LARGE))
    rows.append(Row(f"{case} the slowest match", [worst for _mean, worst in both], "ms", MARK_LARGE))
    for pools in (True, False):
        loads = [load(pools=pools) for _round in rounds]
        kind = "one vertex for equal cores" if pools else "a vertex for each core and GPU"
        # The daemon never has a vertex for each core; Fluxion's own files do.
        marks = (MARK_LOAD, MARK_BYTES) if pools else (None, None)
        rows.append(Row(f"load of its JGF file, {kind}", [seconds for seconds, _most in loads], "s", marks[0]))
        rows.append(Row("memory of that", [most for _seconds, most in loads], "MB", marks[1]))
    for number, size in ((750, 4), (1500, 4), (2250, 4), (3, 1000), (6, 1000), (9, 1000)):
        figures = [gangs(number, size) for _round in rounds]
        rows.append(Row(f"{number} gangs of {size}, 5,000 nodes in 50 racks", figures, "pods/s", MARK_PODS, least=True))
    for at_once in (1, 10, 100):
        figures = [events(100_000, at_once) for _round in rounds]
        rows.append(
            Row(f"100,000 watch events on 20,000 nodes, {at_once} between looks: each", figures, "µs", MARK_EVENT)
        )
    print(f"{len(rounds)} rounds, {load_average()}\n")
    print(table(("case", "median", "range", "asked"), [row.cells for row in rows]))
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
