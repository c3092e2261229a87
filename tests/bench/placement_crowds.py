# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What real clusters have in crowds: labels that number pods, rules of each Deployment, budgets, queues, waiting jobs.

`python -m bench.placement_crowds` prints, for each case, a rate or a time by the process' own clock and the longest
slice. It exits with 1 when a mark is missed. `--only` takes the names of cases.
"""

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from bench._figures import count, parser_of
from bench.placement_cycles import MARK_SLICE, SLICE, Case
from placement.app.process import gc_control
from placement.kube.decode.decoder import Decoder
from placement.model.messages.action import Evict
from placement.model.messages.event import Deleted, EvictRefused, Relisted, Upserted
from placement.model.objects.pod import Phase, Pod, PodSpec
from placement.model.rules.selector import (
    Effect,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    Toleration,
)
from placement_kit.builders import amounts, budget, gang, mine, near, node, pairs, pod, queue, spread
from placement_kit.kube_batch import policy

HOST: Final = "kubernetes.io/hostname"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
PLAIN: Final = policy("allocate, backfill")
# Pods a second.
MARK_INDEXED: Final = 5_000
MARK_APART: Final = 3_000
# Seconds.
MARK_PREEMPTOR: Final = 0.2
MARK_TAINTS: Final = 1.0
# Bytes for each pod more.
MARK_BYTES: Final = 1_000
# What a stream of pods keeps of its rate beside a crowd that cannot be placed.
MARK_STREAM: Final = 0.8
# Runs of which the best counts, where two rates are compared.
ROUNDS: Final = 5


class Cluster(Case):
    """A scheduler over nodes of a case's own."""

    def __init__(self, nodes: int, configuration: str = "", **more: Any) -> None:
        super().__init__(0, configuration)
        for index in range(nodes):
            self.tell(Upserted(node(f"n{index}", labels=((HOST, f"n{index}"), ("zone", f"z{index % 4}")), **more)))
        self.settle()
        self.longest = 0.0

    def all(self, *items: Any) -> None:
        """Objects are created."""
        for item in items:
            self.tell(Upserted(item))

    def timed(self) -> float:
        """Seconds until there is nothing more to decide."""
        self.longest = 0.0
        gc_control.collect()
        begun = time.process_time()
        self.settle()
        return time.process_time() - begun


def report(name: str, result: str, case: Case | None, *, reached: bool) -> bool:
    """Prints one case; says whether its own mark and that of slices are reached."""
    slices = "" if case is None else f", longest slice {case.longest * 1000:5.1f} ms"
    late = case is not None and case.longest > MARK_SLICE
    print(f"{name:72}{result:>24}{slices}{'' if reached and not late else '  missed'}", flush=True)
    return reached and not late


def indexed() -> bool:
    """Gangs whose members have an index each, beside anti-affinity terms of others."""
    reached = True
    for terms in (0, 2000):
        for label in (False, True):
            case = Cluster(500, allocatable=amounts(cpu="640", memory="256Gi", pods="1100"))
            for index in range(terms):
                app = f"a{index}"
                rules: Any = {"labels": pairs(app=app), "anti_affinity": (near(HOST, app=app),)}
                case.all(pod(f"d{index}", request=amounts(cpu="10m"), node=f"n{index % 500}", **rules))
            case.settle()
            for index in range(20):
                case.all(gang(f"g{index}", 100), *_members(f"g{index}", 100, label=label))
            rate = 2000 / case.timed()
            name = f"20 gangs of 100{', an index each' * label}, {terms} anti-affinity terms"
            reached &= report(name, f"{rate:,.0f} pods/s", case, reached=rate >= MARK_INDEXED)
    for label in (False, True):
        case = Cluster(100, allocatable=amounts(cpu="4", memory="256Gi", pods="1100"))
        case.all(*(pod(f"f{index}", node=f"n{index}", request=amounts(cpu="3")) for index in range(100)))
        case.all(pod("tiny", node="n0", request=amounts(cpu="1m")))
        for index in range(200):
            case.all(gang(f"g{index}", 120), *_members(f"g{index}", 120, label=label, cpu="1"))
        case.settle()
        case.tell(Deleted(Pod, "uid-tiny", 1 << 40))
        spent = case.timed()
        name = f"200 gangs of 120 that do not fit{', an index each' * label}, tried again"
        reached &= report(name, f"{spent:.2f} s", case, reached=spent <= 0.5)
    return reached


def _members(group: str, number: int, *, label: bool, cpu: str = "10m") -> Iterator[Pod]:
    for index in range(number):
        labels = {"job": group, **({INDEX: str(index)} if label else {})}
        more: Any = {"group": group, "labels": tuple(sorted(labels.items()))}
        yield mine(f"{group}r{index}", request=amounts(cpu=cpu), **more)


def apart() -> bool:
    """Deployments whose pods must not share a node."""
    rates = []
    for rules in (False, True):
        case = Cluster(200, allocatable=amounts(cpu="640", memory="256Gi", pods="1100"))
        for index in range(2000):
            app = f"a{index}"
            term = (near(HOST, app=app),) if rules else ()
            like: Any = {"owner": f"o{index}", "labels": pairs(app=app), "anti_affinity": term}
            case.all(*(mine(f"d{index}r{which}", request=amounts(cpu="10m"), **like) for which in range(2)))
        rates.append(4000 / case.timed())
    result = f"{rates[1]:,.0f} pods/s ({rates[0]:,.0f})"
    return report("2,000 Deployments anti-affine to themselves", result, case, reached=rates[1] >= MARK_APART)


def preemptors() -> bool:
    """Preemptors that come one by one, where hundreds of budgets count the pods of full nodes."""
    reached = True
    for budgets in (0, 200):
        case = Cluster(1000, policy("allocate, preempt"), allocatable=amounts(cpu="30", memory="256Gi", pods="300"))
        case.all(*(budget(f"b{index}", allowed=5, app=f"a{index}") for index in range(budgets)))
        for index in range(1000):
            for which in range(30):
                labels = pairs(app=f"a{(index * 30 + which) % max(1, budgets)}")
                more: Any = {"labels": labels, "node": f"n{index}", "phase": Phase.RUNNING}
                case.all(mine(f"l{index}-{which}", request=amounts(cpu="1"), **more))
        case.settle()
        times = []
        for index in range(3):
            case.all(mine(f"h{index}", request=amounts(cpu="2"), priority=100))
            times.append(case.timed())
        name = f"one preemptor, 1,000 nodes x 30 pods, {budgets} budgets; the second, the third"
        shown = ", ".join(f"{spent:.3f}" for spent in times)
        reached &= report(name, f"{shown} s", case, reached=max(times) <= MARK_PREEMPTOR)
    return reached


def taints(nodes: int = 20_000) -> bool:
    """Every node is tainted, then cordoned, at once, while hundreds of selectors are in use."""
    case = Cluster(nodes, allocatable=amounts(cpu="64", memory="256Gi", pods="110"))
    shapes, known = case.scheduler.session.host_selector.shapes, list(case.scheduler.cluster.columns.nodes)
    for index in range(300):
        term = NodeSelectorTerm((Requirement("zone", Operator.IN, ("z3",)),))
        selector = NodeSelector((("team", f"t{index}"),), (term,))
        tolerations = (Toleration(key=f"k{index}", operator="Exists"),)
        shapes.row(PodSpec(scheduler_name="placement", selector=selector, tolerations=tolerations), amounts(cpu="1"))
    reached = True
    changes: dict[str, Any] = {
        "taints": {"taints": (Taint("a", "b", Effect.NO_SCHEDULE),)},
        "cordons": {"unschedulable": True},
    }
    for version, (name, change) in enumerate(changes.items(), 2):
        changed = [replace(one, version=version, **change) for one in known if one is not None]
        case.longest = 0.0
        gc_control.collect()
        begun = time.process_time()
        for one in changed:
            since = time.process_time()
            case.tell(Upserted(one))
            case.longest = max(case.longest, time.process_time() - since)
        case.settle()
        spent = time.process_time() - begun
        reached &= report(f"{nodes} {name}, 300 selectors", f"{spent:.2f} s", case, reached=spent <= MARK_TAINTS)
    return reached


def memory(number: int = 20_000) -> bool:
    """Pods that run, with an index each or without; each kind in a process of its own."""
    reached = True
    for label in (False, True):
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            each = process.submit(_bytes_each, number, label).result()
        name = f"for each of {number} pods of Jobs{', an index each' * label}"
        reached &= report(name, f"{each:,.0f} bytes", None, reached=each <= MARK_BYTES)
    return reached


def _bytes_each(number: int, label: bool) -> float:
    decoder, case = Decoder(), Cluster(200, allocatable=amounts(cpu="640", memory="2560Gi", pods="1100"))
    gc.collect()
    before = _resident()
    for index in range(number):
        event = decoder.decode_watch_event(Pod, _running(index, label=label))
        if isinstance(event, Upserted):
            case.scheduler.apply(event)
        if index % 1000 == 0:
            case.settle()
    case.settle()
    gc.collect()
    return (_resident() - before) / number


def _running(index: int, *, label: bool) -> bytes:
    job = index // 100
    labels = {"job-name": f"j{job}", "controller-uid": f"0000-{job}", "app": "x"}
    if label:
        labels[INDEX] = str(index % 100)
    requests = {"cpu": "100m", "memory": "64Mi"}
    item = {
        "metadata": {
            "uid": f"{index:036d}",
            "name": f"j{job}-{index % 100}-abcde",
            "namespace": "team",
            "resourceVersion": str(10_000 + index),
            "labels": labels,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"kind": "Job", "uid": f"0000-{job}", "controller": True}],
        },
        "spec": {
            "schedulerName": "placement",
            "nodeName": f"n{index % 200}",
            "containers": [{"name": "c", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running"},
    }
    return json.dumps({"type": "ADDED", "object": item}).encode()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


class Refusing(Cluster):
    """An API that lets no pod be evicted."""

    def tell(self, event: Any) -> None:
        """What would have been evicted stays."""
        if isinstance(event, Deleted) and event.kind is Pod:
            event = EvictRefused(event.uid, "disruption budget")
        super().tell(event)


APPS: Final = {"app": "waits"}
CROWDS: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "nothing else": ({},),
    "soft spread": ({"spread": (spread("zone", labels=APPS, hard=False),)},),
    "hard spread": ({"spread": (spread("zone", labels=APPS),)},),
    "affinity": ({"affinity": (near("zone", app="waits"),)},),
    "affinity to what comes": ({"affinity": (near("zone", app="small"),)},),
    "hard spread over what comes": ({"spread": (spread("zone", labels={"app": "small"}),)},),
    "anti-affinity": ({"anti_affinity": (near("zone", app="waits"),)},),
    "volumes": ({"volume_claims": ("none",)},),
    "budgets": ({"priority": 9},),
}


def stream(waiting: int, kind: str, number: int = 1_000, *, passing: bool = False) -> tuple[float, float]:
    """Small pods that come while jobs wait that fit nowhere; pods a second, and the longest slice.

    Passing pods come ten at a time, and each is gone when a hundred others have come.
    """
    actions = "allocate, backfill, preempt" if kind == "budgets" else "allocate, backfill"
    case = Refusing(200, policy(actions), allocatable=amounts(cpu="4", memory="64Gi", pods="110"))
    filling: Any = {"request": amounts(cpu="2"), "phase": Phase.RUNNING}
    if kind == "budgets":
        case.all(*(budget(f"b{index}", allowed=0, app=f"a{index}") for index in range(200)))
        low = (mine(f"f{index}", node=f"n{index}", labels=pairs(app=f"a{index}"), **filling) for index in range(200))
        case.all(*low)
    else:
        case.all(*(pod(f"f{index}", node=f"n{index}", **filling) for index in range(200)))
    case.settle()
    for index in range(waiting):
        created = f"2026-01-01T00:{index // 60 % 60:02d}:{index % 60:02d}Z"
        like: Any = {"labels": pairs(app="waits"), "owner": f"rs{index}", "created": created, **CROWDS[kind][0]}
        case.all(mine(f"w{index}", request=amounts(cpu="3"), **like))
    case.settle()
    return _streamed(case, number, 10 if passing else number, ending=passing)


def _streamed(case: Refusing, number: int, together: int, *, ending: bool) -> tuple[float, float]:
    """Create small pods, so many together; return pods a second, and the longest slice."""
    small = mine("s", request=amounts(cpu="100m"), labels=pairs(app="small"), created="2026-01-02T00:00:00Z")
    pods = [replace(small, uid=f"s{index}", name=f"s{index}", owner=f"o{index}") for index in range(number)]
    gc_control.collect()
    case.binds, case.longest = 0, 0.0
    begun = time.process_time()
    for first in range(0, number, together):
        for one in pods[first : first + together]:
            case.tell(Upserted(one))
        while case.binds < first + together:
            case.slice()
        for one in pods[max(0, first - 100) : max(0, first - 100 + together)] if ending else ():
            Cluster.tell(case, Deleted(Pod, one.uid, 1 << 40))
    spent = time.process_time() - begun
    # What this makes of the crowd itself is not part of the rate, but it must come to its end.
    case.settle()
    return number / spent, case.longest


def beside(waiting: int, *, passing: bool = False) -> bool:
    """The stream beside each kind of crowd, against the same stream alone, in turn."""
    reached = True
    for kind in list(CROWDS)[1:]:
        alone, crowded, longest = [], [], 0.0
        for _unused in range(ROUNDS):
            alone.append(stream(0, kind, passing=passing)[0])
            rate, slowest = stream(waiting, kind, passing=passing)
            crowded.append(rate)
            longest = max(longest, slowest)
        name = f"1,000 small pods{' that end' * passing} beside {waiting} jobs that wait: {kind}"
        reached &= _kept(name, alone, crowded, longest)
    return reached


def _kept(name: str, alone: list[float], crowded: list[float], longest: float) -> bool:
    """Print what the stream keeps of its rate; return whether that reaches its mark."""
    # Others on the machine only ever slow a run down, so the best of each says most.
    share = max(crowded) / max(alone)
    result = f"{max(crowded):,.0f} of {max(alone):,.0f}/s, {share:.0%}"
    slices = f", longest slice {longest * 1000:5.1f} ms"
    print(f"{name:72}{result:>24}{slices}{'' if share >= MARK_STREAM else '  missed'}", flush=True)
    return share >= MARK_STREAM


def one_job(number: int = 3_000) -> bool:
    """The stream in tens while the pods of one Job are tried, which all lack a claim of their own each."""
    alone, crowded, longest = [], [], 0.0
    for _unused in range(ROUNDS):
        alone.append(_streamed(_one_job(0), 1_000, 10, ending=False)[0])
        rate, slowest = _streamed(_one_job(number), 1_000, 10, ending=False)
        crowded.append(rate)
        longest = max(longest, slowest)
    return _kept(f"1,000 small pods while a Job's {number} with a claim each are tried", alone, crowded, longest)


def _one_job(number: int) -> Refusing:
    """Nodes, and a Job of which no pod can be placed; it is taken in, and not all of its pods have been tried."""
    case = Refusing(200, PLAIN, allocatable=amounts(cpu="4", memory="64Gi", pods="110"))
    case.all(*(pod(f"f{index}", node=f"n{index}", request=amounts(cpu="2")) for index in range(200)))
    case.settle()
    like = mine("w", request=amounts(cpu="3"), owner="job", created="2026-01-01T00:00:00Z")
    case.all(
        *(replace(like, uid=f"w{index}", name=f"w{index}", volume_claims=(f"c{index}",)) for index in range(number))
    )
    while len(case.scheduler.cache.jobs.tasks) < number:
        case.slice()
    return case


class Slow(Case):
    """Victims take their time to leave."""

    def slice(self) -> bool:
        """Run one slice; evicted pods terminate, and stay."""
        self._take_in()
        begun = time.process_time()
        decision = self.scheduler.decide(begun, lambda: time.process_time() > begun + SLICE, hurry=bool(self._waiting))
        self.longest = max(self.longest, time.process_time() - begun)
        pods = self.scheduler.cluster.pods.by_uid
        for action in decision.actions:
            if isinstance(action, Evict):
                self._version += 1
                self.tell(Upserted(replace(pods[action.uid].pod, terminating=True, version=self._version)))
        return decision.more or bool(self._waiting)


def promises(number: int = 800) -> bool:
    """A small pod comes while so many wait for room that their victims leave."""
    case = Slow(0, policy("allocate, preempt"))
    for index in range(number):
        case.tell(Upserted(node(f"n{index}", allocatable=amounts(cpu="4", memory="64Gi", pods="110"))))
        running: Any = {"node": f"n{index}", "phase": Phase.RUNNING}
        case.tell(Upserted(mine(f"low{index}", request=amounts(cpu="4"), **running)))
    case.settle()
    for index in range(number):
        case.tell(Upserted(mine(f"h{index}", request=amounts(cpu="4"), priority=100)))
    case.settle()
    case.tell(Upserted(node("spare", allocatable=amounts(cpu="1", memory="4Gi", pods="110"))))
    case.settle()
    promised, times = len(case.scheduler.cache.queue.pipelined), []
    for index in range(5):
        case.tell(Upserted(mine(f"small{index}", request=amounts(cpu="100m"))))
        case.longest = 0.0
        begun = time.process_time()
        case.settle()
        times.append(time.process_time() - begun)
    spent = statistics.median(times)
    name = f"a small pod beside {promised} that wait for their victims"
    return report(name, f"{spent * 1000:.1f} ms", case, reached=spent <= 0.02)


def lists(number: int = 30_000) -> bool:
    """List all pods twice; then ask for the queues."""
    case = Cluster(2000, allocatable=amounts(cpu="64", memory="256Gi", pods="110"))
    like = mine("p", request=amounts(cpu="100m"), phase=Phase.RUNNING)
    pods = [
        replace(like, uid=f"u{index}", name=f"p{index}", node=f"n{index % 2000}", version=5000 + index)
        for index in range(number)
    ]
    reached = True
    for again in (0, 1):
        case.longest = 0.0
        gc_control.collect()
        begun = time.process_time()
        case.tell(Relisted(Pod, tuple(pods), 5000 + number + again))
        case.longest = time.process_time() - begun
        case.settle()
        spent = time.process_time() - begun
        name = f"{number} pods listed{' again' * again}"
        reached &= report(name, f"{spent:.2f} s", case, reached=True)
    begun = time.process_time()
    case.scheduler.queues()
    case.longest = time.process_time() - begun
    return report(f"queues() over {number} pods", "", case, reached=True) and reached


def big_job(number: int = 30_000) -> bool:
    """One controller with so many pods that wait; one ends, and another takes its place."""
    case = Cluster(20, PLAIN, allocatable=amounts(cpu="4", memory="256Gi", pods="300"))
    like = mine("b", request=amounts(cpu="1"), owner="set")
    case.all(*(replace(like, uid=f"u{index}", name=f"p{index}") for index in range(number)))
    case.settle()
    times, slowest = [], 0.0
    for _unused in range(5):
        running = next(uid for uid, entry in case.scheduler.cluster.pods.by_uid.items() if entry.pod.node)
        case.tell(Deleted(Pod, running, 1 << 40))
        times.append(case.timed())
        slowest = max(slowest, case.longest)
    case.longest = slowest
    spent = statistics.median(times)
    name = f"one pod of a controller with {number} ends, and the next is bound"
    return report(name, f"{spent * 1000:.1f} ms", case, reached=spent <= 0.01)


def many_queues(number: int = 1_000) -> bool:
    """A pod comes in one of so many queues."""
    room = amounts(cpu="64", memory="256Gi", ephemeral_storage="100Gi", gpu="8", pods="110")
    case = Cluster(50, PLAIN, allocatable=room)
    case.all(*(queue(f"q{index}") for index in range(number)))
    request = amounts(cpu="100m", memory="1Gi")

    def create(name: str, index: int) -> None:
        annotations = (("scheduling.converged.hpc/queue", f"q{index}"),)
        case.all(replace(mine(name, request=request), annotations=annotations))

    for index in range(number):
        create(f"p{index}", index)
    case.settle()
    times, slowest = [], 0.0
    for index in range(20):
        create(f"x{index}", index)
        times.append(case.timed())
        slowest = max(slowest, case.longest)
    case.longest = slowest
    return report(
        f"a pod comes in one of {number} queues", f"{statistics.median(times) * 1000:.1f} ms", case, reached=True
    )


def foreign(number: int = 2_000) -> bool:
    """Another scheduler's pods come and go beside jobs that have half of their pods."""
    case = Cluster(500, PLAIN, allocatable=amounts(cpu=str(number // 500 + 1), memory="64Gi", pods="300"))
    for index in range(number):
        running: Any = {"owner": f"j{index}", "node": f"n{index % 500}", "phase": Phase.RUNNING}
        case.all(mine(f"r{index}", request=amounts(cpu="1"), **running))
    case.all(*(pod(f"fill{index}", node=f"n{index}", request=amounts(cpu="990m")) for index in range(500)))
    case.settle()
    case.all(*(mine(f"p{index}", owner=f"j{index}", request=amounts(cpu="1")) for index in range(number)))
    case.settle()
    come, gone, slowest = [], [], 0.0
    for index in range(5):
        case.all(pod(f"tiny{index}", node="n0", request=amounts(cpu="1m")))
        come.append(case.timed())
        slowest = max(slowest, case.longest)
        case.tell(Deleted(Pod, f"uid-tiny{index}", 1 << 40))
        gone.append(case.timed())
        slowest = max(slowest, case.longest)
    case.longest = slowest
    result = f"{statistics.median(come) * 1000:.1f}, {statistics.median(gone) * 1000:.1f} ms"
    reached = statistics.median(come) <= 0.01
    return report(f"a foreign pod comes, and goes, beside {number} half-placed jobs", result, case, reached=reached)


CASES: Final[dict[str, Callable[[], bool]]] = {
    "indexed": indexed,
    "apart": apart,
    "preemptors": preemptors,
    "taints": taints,
    "memory": memory,
    "beside-1000": lambda: beside(1_000),
    "beside-10000": lambda: beside(10_000),
    "passing-1000": lambda: beside(1_000, passing=True),
    "passing-10000": lambda: beside(10_000, passing=True),
    "one-job": one_job,
    "promises": promises,
    "lists": lists,
    "big-job": big_job,
    "queues": many_queues,
    "foreign": foreign,
}


def main() -> int:
    """The command line."""
    parser = parser_of(__doc__, "--only indexed apart")
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE")
    parser.add_argument("--rounds", type=count, default=1, help="how often all of them run (default: 1)")
    arguments = parser.parse_args()
    gc_control.begin()
    reached = [CASES[name]() for _unused in range(arguments.rounds) for name in arguments.only]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
