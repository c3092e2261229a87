# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""reclaim over time: pods come one by one, leave late and are replaced, and every queue still gets what it deserves."""

import random
from dataclasses import replace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from placement.model.messages.action import Bind, Evict
from placement.model.objects.pod import Pod
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, gang, mine, node, queue
from placement_kit.simulated import Simulated

PLUGINS = "[{name: priority}, {name: gang}, {name: conformance}, {name: drf}, {name: predicates}, {name: proportion}]"
ORDERS = ("reclaim, allocate, backfill, preempt", "allocate, reclaim", "enqueue, allocate, preempt, reclaim")
CORES = 32000


class Crowd:
    """Queues whose controllers want more pods than fit, on nodes of a few pods each; repeatable by its seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        order = self.random.choice(ORDERS)
        self.simulated = Simulated(load(f'actions: "{order}"\ntiers:\n- plugins: {PLUGINS}', "test"))
        self.queues = [f"q{index}" for index in range(self.random.randint(2, 4))]
        self.simulated.see(*(queue(name, weight=self.random.randint(1, 4)) for name in self.queues))
        each = self.random.randint(1, 3)
        nodes = self.random.randint(1, 12)
        room = amounts(cpu=f"{32 * each}", memory="64Gi", pods="110")
        self.simulated.see(*(node(f"n{index}", allocatable=room) for index in range(nodes)))
        self.room = nodes * each
        # Whether the controllers make new pods for those that were evicted.
        self._replaces = self.random.random() < 0.7
        self._made = dict.fromkeys(self.queues, 0)
        self._kinds = {name: self._kind(name) for name in self.queues}
        # Evicted pods that take their time.
        self._leaving: list[Pod] = []
        self._binds: list[Bind] = []

    def _kind(self, name: str) -> dict[str, Any]:
        """How the pods of a queue are tied together: by a group, by their controller, or not at all."""
        kind = self.random.choice(("group", "owner", "alone"))
        if kind == "group":
            self.simulated.see(gang(f"g-{name}", 1, queue=name))
            return {"group": f"g-{name}"}
        return {"owner": name if kind == "owner" else "", "annotations": (("scheduling.converged.hpc/queue", name),)}

    def wanted(self, name: str) -> int:
        """How many pods the queue's controller has yet to make."""
        there = sum(1 for pod in self.simulated.pods.values() if pod.labels == (("queue", name),))
        return self.room + 2 - (there if self._replaces else self._made[name])

    def create(self, name: str, number: int) -> None:
        """The controller makes some of its pods."""
        for _unused in range(min(number, self.wanted(name))):
            self._made[name] += 1
            more = {"request": amounts(cpu="32", memory="1Gi"), "labels": (("queue", name),)}
            self.simulated.see(mine(f"{name}-{self._made[name]}", **more, **self._kinds[name]))

    def decide(self, hurry: float = 0.0) -> bool:
        """One slice; says whether anything came of it."""
        simulated = self.simulated
        simulated.now += 0.1
        decision = simulated.decide(lambda: self.random.random() < hurry)
        self._binds += [action for action in decision.actions if isinstance(action, Bind)]
        # One may have ended whose end waits for its turn to be taken in.
        asked = [simulated.pods.get(action.uid) for action in decision.actions if isinstance(action, Evict)]
        self._leaving += [pod for pod in asked if pod is not None]
        return decision.more or any(isinstance(action, Bind | Evict) for action in decision.actions)

    def answer(self, *, everything: bool = False) -> bool:
        """Some of what was asked for happens; says whether anything was left to happen."""
        done = bool(self._binds or self._leaving)
        for bind in self._drawn(self._binds, everything):
            self.simulated.carry_out(bind)
        for pod in self._drawn(self._leaving, everything):
            now = self.simulated.pods.get(pod.uid)
            if now is None:
                continue
            if now.terminating or everything:
                self.simulated.gone(now)
            else:
                self.simulated.see(replace(now, terminating=True))
                self._leaving.append(now)
        return done

    def _drawn(self, items: list[Any], everything: bool) -> list[Any]:
        drawn = [item for item in items if everything or self.random.random() < 0.5]
        items[:] = [item for item in items if item not in drawn]
        return drawn

    def finish(self) -> None:
        """A pod ends by itself."""
        running = [pod for pod in self.simulated.pods.values() if pod.node and pod not in self._leaving]
        if running:
            self.simulated.gone(self.random.choice(running))

    def step(self) -> None:
        """Something happens."""
        kind = self.random.choice(("create", "create", "decide", "decide", "decide", "answer", "answer", "finish"))
        if kind == "create":
            self.create(self.random.choice(self.queues), self.random.randint(1, self.room))
        elif kind == "decide":
            self.decide(self.random.choice((0.0, 0.3, 1.0)))
        elif kind == "answer":
            self.answer()
        elif self.random.random() < 0.3:
            self.finish()

    def settle(self) -> None:
        """Until nothing moves any more."""
        for _unused in range(500):
            for name in self.queues:
                self.create(name, 1)
            if not any((self.decide(), self.answer(everything=True), *(self.wanted(name) for name in self.queues))):
                return
        raise AssertionError("it does not come to rest")


def shares(crowd: Crowd) -> list[tuple[str, int, int]]:
    """By queue what is allocated and what is deserved."""
    reports = [report for report in crowd.simulated.scheduler.queues() if report.name in crowd.queues]
    return [(report.name, dict(report.allocated).get("cpu", 0), dict(report.deserved)["cpu"]) for report in reports]


# Nodes that leaving pods were about to free were kept for a head at once, and a queue below its share got none of them.
@example(3242036, 53)
@example(1871, 31)
@example(3479, 39)
@given(st.integers(0, 2**32), st.integers(0, 80))
def test_every_queue_gets_what_it_deserves(seed: int, steps: int) -> None:
    crowd = Crowd(seed)
    for _unused in range(steps):
        crowd.step()
    crowd.settle()
    found = shares(crowd)
    running = sum(held for _unused, held, _part in found) // CORES
    assert running == min(crowd.room, len(crowd.simulated.pods)), found
    # A pod is not divided, so others may keep up to one pod more than they deserve: with two queues that is all that
    # can be missing.
    poor = [name for name, held, deserved in found if held < deserved]
    rich = [name for name, held, deserved in found if held - CORES >= deserved]
    assert not (poor and rich), found


def two_queues() -> Simulated:
    """Twenty nodes for one pod each, and two queues whose weights are three to one."""
    simulated = Simulated(load(f'actions: "{ORDERS[0]}"\ntiers:\n- plugins: {PLUGINS}', "test"))
    room = amounts(cpu="32", memory="64Gi", pods="110")
    simulated.see(*(node(f"n{index}", allocatable=room) for index in range(20)))
    simulated.see(queue("three", weight=3), gang("three", 1, queue="three"))
    simulated.see(queue("one", weight=1), gang("one", 1, queue="one"))
    return simulated


def pods_of(name: str, *numbers: int) -> list[Pod]:
    return [mine(f"{name}-{number}", group=name, request=amounts(cpu="32")) for number in numbers]


def placed(simulated: Simulated) -> tuple[int, int]:
    """How many pods of each queue run."""
    names = list(simulated.placements())
    return sum(name.startswith("three") for name in names), sum(name.startswith("one") for name in names)


def test_pods_that_come_after_the_first_room_was_made_get_the_rest_of_their_share() -> None:
    simulated = two_queues()
    simulated.see(*pods_of("three", *range(40)))
    simulated.run()
    simulated.see(*pods_of("one", 0, 1, 2))
    for _unused in range(500):
        # Slices as short as can be: pods have left before the action has come to its end.
        for action in simulated.run_once(lambda: True):
            simulated.carry_out(action)
    assert placed(simulated) == (17, 3)
    simulated.see(*pods_of("one", *range(3, 20)))
    simulated.run()
    assert placed(simulated) == (15, 5)


def test_pods_whose_binding_was_under_way_leave_once_it_is_confirmed() -> None:
    simulated = two_queues()
    simulated.see(*pods_of("three", *range(40)))
    under_way = simulated.run_once()
    simulated.see(*pods_of("one", *range(20)))
    assert not any(isinstance(action, Evict) for action in simulated.run_once())
    for action in under_way:
        simulated.carry_out(action)
    simulated.run()
    assert placed(simulated) == (15, 5)
