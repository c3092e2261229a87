# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many pods a second the whole policy decides, without an API: queues, gangs, shares, preemption and reclaim.

`python -m bench.placement_cycles` prints rates by the process' own clock (everything is one thread) and the longest
slice. What is decided comes back as events, as it would from the API. It exits with 1 when a mark is missed.
"""

import math
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from bench._figures import count, parser_of
from placement.app.process import gc_control
from placement.core.scheduler import Scheduler
from placement.model.messages.action import Bind, Evict
from placement.model.messages.event import Deleted, Event, Upserted
from placement.model.objects.pod import Phase, Pod
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, gang, mine, node, priority_class, queue
from placement_kit.kube_batch import ACTIONS, policy

SLICE = 0.008
# Seconds between two pods that end while a crowd waits.
ENDING = 0.3
# Pods a second in gangs.
MARK_GANGS = 5_000
# Seconds in all where others have to leave.
MARK_MAKING_ROOM = 5.0
# Seconds of the longest slice.
MARK_SLICE = 0.010
# Seconds that a pod waits behind a crowd of gangs, and that the crowd itself takes, for each thousand of them.
MARK_CROWD = 0.1
MARK_COMING = 1.0


class Case:
    """A scheduler over equal nodes, and what it has decided."""

    def __init__(self, nodes: int, configuration: str = "") -> None:
        self.scheduler = Scheduler(load(configuration or policy(), "bench"), scheduler_name="placement")
        room = amounts(cpu="32", memory="256Gi", pods="110")
        for index in range(nodes):
            self.scheduler.apply(Upserted(node(f"n{index}", allocatable=room)))
        self.scheduler.decide(0.0, lambda: False)
        self.binds = 0
        self.evictions = 0
        self.longest = 0.0
        self._version = 10
        self._waiting: deque[Event] = deque()

    def pods(self, name: str, number: int, *, cpu: str = "100m", **more: Any) -> list[Pod]:
        """Equal pods."""
        like = mine(name, request=amounts(cpu=cpu, memory="1Gi"), **more)
        return [replace(like, uid=f"{name}-{index}", name=f"{name}-{index}") for index in range(number)]

    def see(self, pods: list[Pod]) -> None:
        """Pods are created."""
        for pod in pods:
            self.tell(Upserted(pod))

    def tell(self, event: Event) -> None:
        """Something has happened; while something is under way it has to wait, as in the loop's inbox."""
        self._waiting.append(event)
        self._take_in()

    def _take_in(self) -> None:
        while self._waiting and not self.scheduler.under_way:
            self.scheduler.apply(self._waiting.popleft())

    def settle(self) -> None:
        """Slices until there is nothing more to decide."""
        while self.slice():
            pass

    def slice(self) -> bool:
        """One slice, carried out; says whether there is more to decide."""
        self._take_in()
        begun = time.process_time()
        decision = self.scheduler.decide(begun, _until(begun + SLICE), hurry=bool(self._waiting))
        self.longest = max(self.longest, time.process_time() - begun)
        for action in decision.actions:
            self._version += 1
            if isinstance(action, Bind):
                self.binds += 1
                pod = self.scheduler.cluster.pods.by_uid[action.uid].pod
                placed = replace(pod, node=action.node, phase=Phase.RUNNING, version=self._version)
                self.tell(Upserted(placed))
            elif isinstance(action, Evict):
                self.evictions += 1
                self.tell(Deleted(Pod, action.uid, self._version))
        return decision.more or bool(decision.actions or self._waiting)


def _until(end: float) -> Callable[[], bool]:
    return lambda: time.process_time() > end


def measured(
    name: str,
    case: Case,
    number: int,
    work: Iterator[None],
    *,
    rate: float = 0.0,
    seconds: float = math.inf,
) -> bool:
    """Runs a case and prints it; says whether it reaches its marks."""
    case.binds, case.evictions, case.longest = 0, 0, 0.0
    # As the daemon does at rest.
    gc_control.collect()
    begun = time.process_time()
    for _unused in work:
        case.settle()
    spent = time.process_time() - begun
    evicted = f", {case.evictions} evicted" if case.evictions else ""
    print(
        f"{name:44}{case.binds:6} of {number:6} pods{number / spent:9,.0f} /s{spent:7.2f} s, "
        f"longest slice {case.longest * 1000:5.1f} ms{evicted}",
        flush=True,
    )
    return number / spent >= rate and spent <= seconds and case.longest <= MARK_SLICE


def gangs(nodes: int, number: int, size: int) -> bool:
    """Gangs of one size."""
    case = Case(nodes)

    def work() -> Iterator[None]:
        for index in range(number // size):
            case.tell(Upserted(gang(f"g{index}", size)))
            case.see(case.pods(f"g{index}", size, group=f"g{index}"))
        yield

    number = number // size * size
    return measured(f"{nodes} nodes, gangs of {size}", case, number, work(), rate=MARK_GANGS)


def plain(nodes: int, number: int) -> bool:
    """Pods by themselves, and pods of one controller."""
    reached = True
    for name, more in (("pods by themselves", {}), ("pods of one controller", {"owner": "set"})):
        case = Case(nodes)
        pods = case.pods("p", number, **more)
        case.see(pods)
        reached &= measured(f"{nodes} nodes, {name}", case, number, iter([None]))
    return reached


def preemption(nodes: int, number: int) -> bool:
    """Full nodes, and pods of higher priority one after the other."""
    case = Case(nodes)
    for index in range(nodes):
        full = case.pods(f"low{index}", 4, cpu="8", node=f"n{index}", phase=Phase.RUNNING)
        case.see(full)
    case.settle()
    case.see(case.pods("high", number, cpu="8", priority=9))
    name = f"{nodes} full nodes, preemption"
    return measured(name, case, number, iter([None]), seconds=MARK_MAKING_ROOM)


def full_queue(nodes: int, number: int) -> bool:
    """Nodes that are half empty, a queue that has all it may, and pods of higher priority one after the other."""
    case = Case(nodes)
    case.tell(Upserted(queue("default", capability=amounts(cpu=str(16 * nodes)))))
    for index in range(nodes):
        case.see(case.pods(f"low{index}", 2, cpu="8", node=f"n{index}", phase=Phase.RUNNING))
    case.settle()
    case.see(case.pods("high", number, cpu="8", priority=9))
    name = f"{nodes} nodes, preemption in a full queue"
    return measured(name, case, number, iter([None]), seconds=MARK_MAKING_ROOM)


def gang_in_full_queue(nodes: int, size: int) -> bool:
    """A queue that has all it may, in pods of many sizes, and a gang for which some of them have to leave."""
    case, chosen, held = Case(nodes), random.Random(1), 0
    for index in range(nodes):
        for which in range(8):
            cpu = chosen.randint(1_000, 3_000)
            held += cpu
            more = {"node": f"n{index}", "phase": Phase.RUNNING, "priority": chosen.randint(0, 5)}
            case.see(case.pods(f"low{index}-{which}", 1, cpu=f"{cpu}m", **more))
    case.tell(Upserted(queue("default", capability=amounts(cpu=f"{held}m"))))
    case.settle()
    case.tell(Upserted(priority_class("high", 9)))
    case.tell(Upserted(gang("high", size, priority_class="high")))
    case.see(case.pods("high", size, cpu="5", priority=9, group="high"))
    name = f"{nodes} nodes, a gang of {size} in a full queue"
    return measured(name, case, size, iter([None]), seconds=MARK_MAKING_ROOM)


def reclaiming_in_vain(nodes: int) -> bool:
    """Nodes with dozens of pods of different sizes, whose queue cannot give as much of any as another asks for."""
    case, chosen = Case(nodes), random.Random(1)
    for name in "ab":
        case.tell(Upserted(queue(name)))
        case.tell(Upserted(gang(name, 1, queue=name)))
    for index in range(nodes):
        for which in range(40):
            cpu = f"{chosen.randint(600, 800)}m"
            case.see(case.pods(f"a{index}-{which}", 1, cpu=cpu, group="a", node=f"n{index}", phase=Phase.RUNNING))
    case.settle()
    case.see(case.pods("b", 1, cpu="24", group="b"))
    return measured(f"{nodes} nodes, reclaim in vain among 40 pods", case, 1, iter([None]))


def changing(nodes: int, number: int) -> bool:
    """Queues and priority classes that change while many run and wait."""
    case = Case(nodes)
    case.tell(Upserted(queue("default")))
    for index in range(nodes):
        case.see(case.pods(f"low{index}", 10, node=f"n{index}", phase=Phase.RUNNING))
    for index in range(number):
        case.tell(Upserted(gang(f"g{index}", 1, priority_class="low")))
        case.see(case.pods(f"g{index}", 1, cpu="32", group=f"g{index}"))
    case.settle()

    def work() -> Iterator[None]:
        for item in (priority_class("low", -1), replace(queue("default", weight=2), version=2), queue("b")):
            case.tell(Upserted(item))
            yield

    return measured(f"{nodes} nodes, {number} wait, queues change", case, number, work())


def reclaiming(nodes: int, queues: int) -> bool:
    """One queue has everything, and all others want their part."""
    case = Case(nodes)
    for index in range(queues):
        case.tell(Upserted(queue(f"q{index}")))
        case.tell(Upserted(gang(f"g{index}", 1, queue=f"q{index}")))
    for index in range(nodes):
        case.see(case.pods(f"first{index}", 4, cpu="8", group="g0", node=f"n{index}", phase=Phase.RUNNING))
    case.settle()

    def work() -> Iterator[None]:
        for index in range(1, queues):
            case.see(case.pods(f"p{index}", 2, cpu="8", group=f"g{index}"))
        yield

    name = f"{nodes} full nodes, reclaim over {queues} queues"
    return measured(name, case, 2 * (queues - 1), work(), seconds=MARK_MAKING_ROOM)


def crowd(number: int, actions: str) -> bool:
    """Gangs that fit nowhere, and after all of them a pod that does, while pods end all the time."""
    case = Case(20, policy(actions))
    for index in range(20):
        case.see(
            [replace(pod, node=f"n{index}") for pod in case.pods(f"full{index}", 1, cpu="31", phase=Phase.RUNNING)]
        )
        case.see(case.pods(f"end{index}", 50, cpu="0", node=f"n{index}", phase=Phase.RUNNING))
    begun = time.process_time()
    for index in range(number):
        case.tell(Upserted(gang(f"g{index}", 2)))
        case.see(case.pods(f"g{index}", 2, cpu="2", group=f"g{index}"))
    case.settle()
    coming = time.process_time() - begun
    gc_control.collect()
    case.longest = 0.0
    ending = (f"end{index}-{which}" for index in range(20) for which in range(50))
    # All are tried again, and in the middle of that it comes.
    case.tell(Deleted(Pod, next(ending), 1 << 40))
    case.slice()
    case.see(case.pods("small", 1, cpu="500m"))
    begun = last = time.process_time()
    while case.scheduler.cluster.pods.by_uid["small-0"].pod.node == "":
        if time.process_time() - last > ENDING:
            last = time.process_time()
            case.tell(Deleted(Pod, next(ending), 1 << 40))
        case.slice()
    spent = time.process_time() - begun
    print(
        f"{number} gangs that fit nowhere, a pod that does{spent:17.2f} s, "
        f"longest slice {case.longest * 1000:5.1f} ms; the gangs themselves {coming:.2f} s, with {actions}",
        flush=True,
    )
    return spent <= MARK_CROWD * number / 1000 and coming <= MARK_COMING * number / 1000


def passing(nodes: int, number: int) -> bool:
    """Pods that are deleted as soon as they are there."""
    case = Case(nodes)

    def work() -> Iterator[None]:
        for part in range(0, number, 100):
            pods = case.pods(f"p{part}", 100)
            case.see(pods)
            yield
            for pod in pods:
                case.tell(Deleted(Pod, pod.uid, 1 << 40))
        yield

    measured(f"{nodes} nodes, pods created and deleted", case, number, work())
    left = (
        len(case.scheduler.cluster.pods.by_uid)
        + len(case.scheduler.cache.jobs.tasks)
        + len(case.scheduler.cache.jobs.by_key)
    )
    print(f"{'':44}{left} left in memory", flush=True)
    return not left


def main() -> int:
    """The command line."""
    parser = parser_of(__doc__, "--nodes 1000 --pods 1000")
    parser.add_argument("--nodes", type=count, default=5000)
    parser.add_argument("--gang-nodes", type=count, default=20_000)
    parser.add_argument("--pods", type=count, default=6000)
    parser.add_argument("--gangs", type=count, default=100_000, help="how many wait that fit nowhere")
    arguments = parser.parse_args()
    gc_control.begin()
    reached = [plain(arguments.nodes, arguments.pods)]
    reached += [gangs(arguments.gang_nodes, arguments.pods, size) for size in (3, 100, 1000)]
    reached.append(preemption(arguments.nodes, 500))
    reached.append(full_queue(arguments.nodes, 500))
    reached.append(gang_in_full_queue(100, 100))
    reached.append(reclaiming(arguments.nodes, 200))
    reached.append(reclaiming_in_vain(3))
    reached.append(changing(arguments.nodes, arguments.nodes))
    reached.append(crowd(arguments.gangs, "allocate, backfill"))
    reached.append(crowd(arguments.gangs // 10, ACTIONS))
    reached.append(passing(arguments.nodes, 10_000))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
