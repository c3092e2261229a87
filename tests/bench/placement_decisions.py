# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many placements a second the state can decide, without API, queues or policies.

`python -m bench.placement_decisions` prints for each case the rate by the wall's clock, by the process' own (everything
is one thread: on an idle machine both are the same), and the latter in the best twentieth of the case.
After every case all charges are added up from the pods and compared with the columns. It exits with 1 when a mark is
missed; marks are about the process' own clock.
"""

import random
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from bench import _figures
from placement.model.amounts.quantity import Amounts
from placement.model.messages.event import Upserted
from placement.model.objects.node import Node
from placement.model.objects.pod import Pod, PodSpec
from placement.model.objects.volume import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from placement.model.rules.affinity import PodAffinityTerm, PodMatcher, TopologySpread
from placement.model.rules.selector import (
    Effect,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    Toleration,
)
from placement.policy.framework.feasibility import Feasibility
from placement.policy.queues.reservations import Reservations
from placement.state.affinity.topology_rules import DomainRules
from placement.state.cluster import Cluster
from placement.state.nodes.score_table import ScoreTable
from placement_kit.scorers import least_allocated

GIB = 2**30
# Placements a second.
MARK_ONE_BY_ONE = 50_000
MARK_RUNS = 100_000
MARK_VOLUMES = 5_000
MARK_DISKS = 2_000
SMALL: Amounts = (("cpu", 64_000), ("memory", 256 * GIB), ("pods", 110))
LARGE: Amounts = (("cpu", 128_000), ("example.com/gpu", 8), ("memory", 1024 * GIB), ("pods", 110))
BATCH = Taint("batch", "", Effect.NO_SCHEDULE)
APP = LabelSelector((Requirement("app", Operator.IN, ("x",)),))
PEERS = PodMatcher(frozenset({"team"}), APP)


class Case:
    """A cluster of n nodes in 10 zones and 100 racks, and pods for it."""

    def __init__(self, nodes: int) -> None:
        self.cluster = Cluster()
        for index in range(nodes):
            labels = {"zone": f"z{index % 10}", "rack": f"r{index % 100}", "kubernetes.io/hostname": f"n{index}"}
            self.cluster.apply(
                Upserted(
                    Node(
                        uid=f"n{index}",
                        name=f"n{index}",
                        version=1,
                        labels=tuple(sorted(labels.items())),
                        taints=(BATCH,) if index % 7 == 0 else (),
                        allocatable=LARGE if index % 10 < 3 else SMALL,
                    )
                )
            )
        self.shapes = ScoreTable(
            self.cluster.columns,
            self.cluster.masks,
            Feasibility(self.cluster, Reservations(self.cluster.columns)),
            least_allocated,
            capacity=256,
        )
        self.rules = DomainRules(self.cluster.columns, self.cluster.masks, self.cluster.labelsets)
        self._number = 0

    def pods(self, spec: PodSpec, request: Amounts, number: int, **more: object) -> list[Pod]:
        """Pods that are known and wait."""
        first = self._number
        self._number += number
        like = Pod(uid="", namespace="team", name="", version=1, spec=spec, request=request, labels=(("app", "x"),))
        made = [replace(like, uid=f"u{index}", name=f"p{index}") for index in range(first, first + number)]
        for pod in made:
            self.cluster.apply(Upserted(pod))
        return made

    def place(self, pod: Pod) -> bool:
        """One pod, one by one."""
        shape = self.shapes.row(pod.spec, pod.request)
        allowed = self.rules.allowed(pod.spec, self.cluster.pods.by_uid[pod.uid].labelset)
        if pod.volume_claims:
            allowed = self.cluster.volumes.allowed(pod)
        row = self.shapes.best(shape, allowed)
        if row < 0:
            return False
        self._assume(pod, row)
        return True

    def place_run(self, pods: list[Pod]) -> int:
        """Equal pods in one call."""
        rows = self.shapes.targets(self.shapes.row(pods[0].spec, pods[0].request), len(pods))
        for pod, row in zip(pods, rows, strict=False):
            self._assume(pod, row)
        return len(rows)

    def _assume(self, pod: Pod, row: int) -> None:
        node = self.cluster.columns.nodes[row]
        assert node is not None
        volumes = self.cluster.volumes.choose(pod, node.name) if pod.volume_claims else ()
        self.cluster.pods.assume(pod.uid, node.name, volumes)

    def check(self) -> None:
        """Charges in the columns are the sum over the pods."""
        columns = self.cluster.columns
        used = np.zeros_like(columns.free)
        for entry in self.cluster.pods.by_uid.values():
            if entry.charged and entry.row >= 0:
                used[:, entry.row] += columns.axis.request(entry.pod.request).dense
        assert (columns.allocatable - used == columns.free).all()
        assert (columns.free >= 0).all()


def shapes_of(number: int) -> Iterator[tuple[PodSpec, Amounts]]:
    """Distinct shapes: sizes times selectors times tolerations."""
    generator = random.Random(1)
    for index in range(number):
        selector = NodeSelector((("zone", f"z{index % 10}"),)) if index % 2 else NodeSelector()
        tolerations = (Toleration(key="batch", operator="Exists"),) if index % 3 == 0 else ()
        request = (("cpu", generator.randrange(100, 4000, 50)), ("memory", generator.randrange(1, 16) * GIB + index))
        yield PodSpec(selector=selector, tolerations=tolerations), request


def measured(name: str, number: int, work: Iterator[int]) -> float:
    """Runs a case, which yields how many it placed in each step, and prints it; the answer is its rate.

    What was not placed is said.
    """
    slices: list[tuple[int, float]] = []
    placed, wall, begin = 0, time.perf_counter(), time.process_time()
    for count in work:
        placed += count
        if placed * 20 >= number:
            slices.append((placed, time.process_time() - begin))
            placed, begin = 0, time.process_time()
    wall = time.perf_counter() - wall
    total, cpu = sum(count for count, _ in slices) + placed, sum(seconds for _, seconds in slices)
    best = max(count / seconds for count, seconds in slices)
    missing = "" if total == number else f"  ({number - total} not placed)"
    print(f"{name:56}{total / wall:9,.0f} /s wall{total / cpu:9,.0f} /s cpu{best:9,.0f} /s best{missing}", flush=True)
    return total / cpu


def one_by_one(nodes: int, number: int) -> bool:
    """200 shapes in random order, and every second step one pod leaves; says whether they reach their mark."""
    case, generator = Case(nodes), random.Random(2)
    shapes = list(shapes_of(200))
    waiting = [pod for spec, request in shapes for pod in case.pods(spec, request, number // len(shapes))]
    generator.shuffle(waiting)
    for spec, request in shapes:
        case.shapes.row(spec, request)
    placed: list[Pod] = []

    def work() -> Iterator[int]:
        for step, pod in enumerate(waiting):
            fits = case.place(pod)
            if fits:
                placed.append(pod)
            if step % 2:
                case.cluster.pods.forget(placed[generator.randrange(len(placed))].uid)
            case.cluster.pods.settle()
            yield int(fits)

    rate = measured(f"{nodes} nodes, 200 shapes one by one, releases", len(waiting), work())
    case.check()
    return rate >= MARK_ONE_BY_ONE


def runs(nodes: int, number: int, size: int) -> bool:
    """Equal pods, so many at a time; says whether they reach their mark."""
    case = Case(nodes)
    spec, request = next(shapes_of(1))
    pods = case.pods(spec, request, number)
    case.shapes.row(spec, request)

    work = (case.place_run(pods[start : start + size]) for start in range(0, number, size))
    rate = measured(f"{nodes} nodes, one shape in runs of {size}", number, work)
    case.check()
    return rate >= MARK_RUNS


def about_other_pods(nodes: int, number: int) -> None:
    """One case per rule about other pods; all pods match each other."""
    term = PodAffinityTerm(PEERS, "zone")
    apart = PodAffinityTerm(PEERS, "kubernetes.io/hostname")
    even = TopologySpread(topology_key="zone", matcher=PEERS)
    cases = {
        "required pod affinity by zone": PodSpec(affinity=(term,)),
        "required anti-affinity by host": PodSpec(anti_affinity=(apart,)),
        "hard topology spread by zone": PodSpec(spread=(even,)),
    }
    for name, spec in cases.items():
        case = Case(nodes)
        pods = case.pods(spec, (("cpu", 100),), number)
        measured(f"{nodes} nodes, {name}", number, map(case.place, pods))
        case.check()


def with_volumes(nodes: int, number: int, others: int = 10_000) -> bool:
    """Pods with a volume each that a driver attaches, at most 39 to a node, while so many others are in use."""
    case = Case(nodes)
    for index in range(nodes):
        limits = (("csi.example.com", 39),)
        case.cluster.apply(Upserted(CSINode(uid=f"csi{index}", name=f"n{index}", version=1, limits=limits)))
    pods = _with_claims(case, others + number, others)
    for index in range(len(pods)):
        name = f"v{index}"
        volume = PersistentVolume(uid=name, name=name, version=1, driver="csi.example.com", handle=name)
        claim = PersistentVolumeClaim(uid=f"c{index}", namespace="team", name=f"c{index}", version=1, volume=name)
        case.cluster.apply(Upserted(volume))
        case.cluster.apply(Upserted(claim))
    rate = measured(f"{nodes} nodes, a volume each, {others} in use", number, map(case.place, pods[others:]))
    case.check()
    return rate >= MARK_VOLUMES


def with_disks(nodes: int, number: int, disks: int = 10_000) -> bool:
    """Pods that choose a disk each, of so many that are tied to their nodes."""
    case = Case(nodes)
    provisioner = "kubernetes.io/no-provisioner"
    case.cluster.apply(
        Upserted(StorageClass(uid="disks", name="disks", version=1, provisioner=provisioner, waits=True))
    )
    for index in range(disks):
        tie = (Requirement("kubernetes.io/hostname", Operator.IN, (f"n{index % nodes}",)),)
        name, terms = f"v{index}", (NodeSelectorTerm(tie),)
        disk = PersistentVolume(uid=name, name=name, version=1, node_terms=terms, storage_class="disks", available=True)
        case.cluster.apply(Upserted(disk))
    pods = _with_claims(case, number, 0)
    for index in range(number):
        name = f"c{index}"
        claim = PersistentVolumeClaim(uid=name, namespace="team", name=name, version=1, storage_class="disks")
        case.cluster.apply(Upserted(claim))
    rate = measured(f"{nodes} nodes, a disk each, {disks} there", number, map(case.place, pods))
    case.check()
    return rate >= MARK_DISKS


def _with_claims(case: Case, number: int, running: int) -> list[Pod]:
    """Pods with a claim each, of which the first run already."""
    pods = [
        replace(pod, version=2, volume_claims=(f"c{index}",), node=f"n{index % len(case.cluster.columns)}")
        for index, pod in enumerate(case.pods(PodSpec(), (("cpu", 100),), number))
    ]
    pods[running:] = [replace(pod, node="") for pod in pods[running:]]
    for pod in pods:
        case.cluster.apply(Upserted(pod))
    case.shapes.row(pods[0].spec, pods[0].request)
    return pods


def main() -> int:
    """The command line."""
    parser = _figures.parser_of(__doc__, "--nodes 5000 --pods 5000")
    parser.add_argument("--nodes", type=_figures.count, default=20_000)
    parser.add_argument("--pods", type=_figures.count, default=20_000)
    arguments = parser.parse_args()
    reached = [one_by_one(arguments.nodes, arguments.pods)]
    reached += [runs(arguments.nodes, arguments.pods, size) for size in (1000, 16)]
    reached += [with_volumes(5000, 2000), with_disks(5000, 2000)]
    about_other_pods(5000, 2000)
    about_other_pods(arguments.nodes, 2000)
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
