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


class Case:
    """A scheduler over equal nodes, and what it has decided."""

    def __init__(self, nodes: int) -> None:
        self.scheduler = Scheduler(load(policy(), "bench"), scheduler_name="placement")
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
        while True:
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
            if not decision.more and not decision.actions:
                return


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


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=6000)
    arguments = parser.parse_args()
    collector.begin()
    plain(arguments.nodes, arguments.pods)
    for size in (3, 100, 1000):
        gangs(arguments.nodes, arguments.pods, size)
    preemption(arguments.nodes, 500)
    reclaiming(arguments.nodes, 200)


if __name__ == "__main__":
    main()
