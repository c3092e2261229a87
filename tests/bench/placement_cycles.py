# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many pods a second the whole policy decides, without an API: queues, gangs, shares, preemption and reclaim.

`python -m bench.placement_cycles` prints rates by the process' own clock (everything is one thread) and the longest
slice. What is decided comes back as events, as it would from the API.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from placement.app import collector
from placement.core.scheduler import Scheduler
from placement.model.action import Bind, Evict
from placement.model.event import Gone, Seen
from placement.model.pod import Phase, Pod
from placement.policy.configuration import load
from placement_kit.builders import amounts, gang, mine, node, queue
from placement_kit.kube_batch import policy

SLICE = 0.008
# Seconds between two pods that end while a crowd waits.
ENDING = 0.3


class Case:
    """A scheduler over equal nodes, and what it has decided."""

    def __init__(self, nodes: int, configuration: str = "") -> None:
        self.scheduler = Scheduler(load(configuration or policy(), "bench"), scheduler_name="placement")
        room = amounts(cpu="32", memory="256Gi", pods="110")
        for index in range(nodes):
            self.scheduler.apply(Seen(node(f"n{index}", allocatable=room)))
        self.scheduler.decide(0.0, lambda: False)
        self.binds = 0
        self.evictions = 0
        self.longest = 0.0
        self._version = 10

    def pods(self, name: str, number: int, *, cpu: str = "100m", **more: Any) -> list[Pod]:
        """Equal pods."""
        like = mine(name, request=amounts(cpu=cpu, memory="1Gi"), **more)
        return [replace(like, uid=f"{name}-{index}", name=f"{name}-{index}") for index in range(number)]

    def see(self, pods: list[Pod]) -> None:
        """Pods are created."""
        for pod in pods:
            self.scheduler.apply(Seen(pod))

    def settle(self) -> None:
        """Slices until there is nothing more to decide."""
        while self.slice():
            pass

    def slice(self) -> bool:
        """One slice, carried out; says whether there is more to decide."""
        begun = time.process_time()
        decision = self.scheduler.decide(begun, _until(begun + SLICE))
        self.longest = max(self.longest, time.process_time() - begun)
        for action in decision.actions:
            self._version += 1
            if isinstance(action, Bind):
                self.binds += 1
                pod = self.scheduler.cluster.pods.by_uid[action.uid].pod
                placed = replace(pod, node=action.node, phase=Phase.RUNNING, version=self._version)
                self.scheduler.apply(Seen(placed))
            elif isinstance(action, Evict):
                self.evictions += 1
                self.scheduler.apply(Gone(Pod, action.uid, self._version))
        return decision.more or bool(decision.actions)


def _until(end: float) -> Callable[[], bool]:
    return lambda: time.process_time() > end


def measured(name: str, case: Case, number: int, work: Iterator[None]) -> None:
    """Runs a case and prints it."""
    case.binds, case.evictions, case.longest = 0, 0, 0.0
    # As the daemon does at rest.
    collector.collect()
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


def gangs(nodes: int, number: int, size: int) -> None:
    """Gangs of one size."""
    case = Case(nodes)

    def work() -> Iterator[None]:
        for index in range(number // size):
            case.scheduler.apply(Seen(gang(f"g{index}", size)))
            case.see(case.pods(f"g{index}", size, group=f"g{index}"))
        yield

    measured(f"{nodes} nodes, gangs of {size}", case, number // size * size, work())


def plain(nodes: int, number: int) -> None:
    """Pods by themselves, and pods of one controller."""
    for name, more in (("pods by themselves", {}), ("pods of one controller", {"owner": "set"})):
        case = Case(nodes)
        pods = case.pods("p", number, **more)
        case.see(pods)
        measured(f"{nodes} nodes, {name}", case, number, iter([None]))


def preemption(nodes: int, number: int) -> None:
    """Full nodes, and pods of higher priority one after the other."""
    case = Case(nodes)
    for index in range(nodes):
        full = case.pods(f"low{index}", 4, cpu="8", node=f"n{index}", phase=Phase.RUNNING)
        case.see(full)
    case.settle()
    case.see(case.pods("high", number, cpu="8", priority=9))
    measured(f"{nodes} full nodes, preemption", case, number, iter([None]))


def reclaiming(nodes: int, queues: int) -> None:
    """One queue has everything, and all others want their part."""
    case = Case(nodes)
    for index in range(queues):
        case.scheduler.apply(Seen(queue(f"q{index}")))
        case.scheduler.apply(Seen(gang(f"g{index}", 1, queue=f"q{index}")))
    for index in range(nodes):
        case.see(case.pods(f"first{index}", 4, cpu="8", group="g0", node=f"n{index}", phase=Phase.RUNNING))
    case.settle()

    def work() -> Iterator[None]:
        for index in range(1, queues):
            case.see(case.pods(f"p{index}", 2, cpu="8", group=f"g{index}"))
        yield

    measured(f"{nodes} full nodes, reclaim over {queues} queues", case, 2 * (queues - 1), work())


def crowd(number: int) -> None:
    """Gangs that fit nowhere, and after all of them a pod that does, while pods end all the time."""
    case = Case(20, policy("allocate, backfill"))
    for index in range(20):
        case.see(
            [replace(pod, node=f"n{index}") for pod in case.pods(f"full{index}", 1, cpu="31", phase=Phase.RUNNING)]
        )
        case.see(case.pods(f"end{index}", 50, cpu="0", node=f"n{index}", phase=Phase.RUNNING))
    for index in range(number):
        case.scheduler.apply(Seen(gang(f"g{index}", 2)))
        case.see(case.pods(f"g{index}", 2, cpu="2", group=f"g{index}"))
    case.settle()
    collector.collect()
    case.longest = 0.0
    ending = (f"end{index}-{which}" for index in range(20) for which in range(50))
    # All are tried again, and in the middle of that it comes.
    case.scheduler.apply(Gone(Pod, next(ending), 1 << 40))
    case.slice()
    case.see(case.pods("small", 1, cpu="500m"))
    begun = last = time.process_time()
    while case.scheduler.cluster.pods.by_uid["small-0"].pod.node == "":
        if time.process_time() - last > ENDING:
            last = time.process_time()
            case.scheduler.apply(Gone(Pod, next(ending), 1 << 40))
        case.slice()
    spent = time.process_time() - begun
    print(
        f"{number} gangs that fit nowhere, a pod that does{spent:17.2f} s, longest slice {case.longest * 1000:5.1f} ms",
        flush=True,
    )


def passing(nodes: int, number: int) -> None:
    """Pods that are deleted as soon as they are there."""
    case = Case(nodes)

    def work() -> Iterator[None]:
        for part in range(0, number, 100):
            pods = case.pods(f"p{part}", 100)
            case.see(pods)
            yield
            for pod in pods:
                case.scheduler.apply(Gone(Pod, pod.uid, 1 << 40))
        yield

    measured(f"{nodes} nodes, pods created and deleted", case, number, work())
    left = len(case.scheduler.cluster.pods.by_uid) + len(case.scheduler.book.tasks) + len(case.scheduler.book.jobs)
    print(f"{'':44}{left} left in memory", flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=6000)
    parser.add_argument("--gangs", type=int, default=10_000, help="how many wait that fit nowhere")
    arguments = parser.parse_args()
    collector.begin()
    plain(arguments.nodes, arguments.pods)
    for size in (3, 100, 1000):
        gangs(arguments.nodes, arguments.pods, size)
    preemption(arguments.nodes, 500)
    reclaiming(arguments.nodes, 200)
    crowd(arguments.gangs)
    passing(arguments.nodes, 10_000)


if __name__ == "__main__":
    main()
