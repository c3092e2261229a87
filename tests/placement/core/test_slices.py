# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much happens between two looks at the clock, where nobody can cut a slice off."""

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np
import pytest
from placement.model.messages.action import Action, Bind, Evict
from placement.model.messages.event import Object
from placement.model.objects.pod import Phase
from placement.policy.cache.job_table import JobTable
from placement.policy.cache.quota.usage import Usage
from placement.policy.cache.scheduling_queue.scheduling_queue import SchedulingQueue
from placement.policy.framework.placers.host_selector import HostSelector
from placement.policy.jobs.job import Status
from placement.policy.plugins.configuration import load
from placement.policy.plugins.plugin_set import PluginSet
from placement.state.pods.pod_table import PodTable
from placement_kit.builders import amounts, gang, mine, near, node, pairs, priority_class, queue
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated

NODES = 200
MEMBERS = 40


class Looks:
    """Counts what happens between two looks at the clock, and never says that the time is over."""

    def __init__(self) -> None:
        self.longest = self.sum = self._since = 0

    def happened(self) -> None:
        self.sum += 1
        self._since += 1
        self.longest = max(self.longest, self._since)

    def __call__(self) -> bool:
        self._since = 0
        return False


def counted(monkeypatch: pytest.MonkeyPatch, where: type, method: str) -> Looks:
    """Counts calls of a method."""
    looks, original = Looks(), getattr(where, method)

    def call(*args: Any, **more: Any) -> Any:
        looks.happened()
        return original(*args, **more)

    monkeypatch.setattr(where, method, call)
    return looks


def decide(simulated: Simulated, looks: Callable[[], bool]) -> list[Action]:
    """All that is decided with an endless slice."""
    found: list[Action] = []
    while True:
        decision = simulated.decide(looks)
        found += decision.actions
        if not decision.more:
            return found


def test_many_small_searches_in_vain_are_no_more_than_a_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = Simulated(load(policy("allocate, reclaim"), "test"))
    # Of all that queue a has, one pod may be taken for another queue, and two are needed.
    simulated.see(queue("a", guarantee=amounts(cpu=str(4 * NODES - 4))), queue("b"))
    simulated.see(gang("a", 1, queue="a"), gang("b", 2, queue="b"))
    for index in range(NODES):
        simulated.see(node(f"n{index}"))
        running = {"node": f"n{index}", "phase": Phase.RUNNING, "request": amounts(cpu="4")}
        simulated.see(mine(f"a{index}", group="a", **running))
    simulated.run()
    looks = counted(monkeypatch, PodTable, "at_node")
    simulated.see(*(mine(f"b{index}", group="b", request=amounts(cpu="4")) for index in range(2)))
    assert not [action for action in decide(simulated, looks) if isinstance(action, Evict)]
    # Each node has been searched for each of the two.
    assert looks.sum > 2 * NODES
    assert looks.longest < NODES // 4


def test_hundreds_who_leave_the_same_queue_are_not_looked_at_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulated = Simulated(load(policy("allocate, preempt"), "test"))
    room = amounts(cpu=str(10 * NODES), memory="8Ti", pods="5000")
    simulated.see(queue("default", capability=amounts(cpu=str(5 * NODES))), node("n1", allocatable=room))
    simulated.see(*(mine(f"low{index}", node="n1", phase=Phase.RUNNING) for index in range(5 * NODES)))
    simulated.run()
    looks = counted(monkeypatch, PluginSet, "spares")
    simulated.see(gang("high", 4), *(mine(f"h{index}", group="high", priority=9) for index in range(4)))
    simulated.see(*(mine(f"high{index}", priority=9, request=amounts(cpu=str(2 * NODES))) for index in range(2)))
    assert len([action for action in decide(simulated, looks) if isinstance(action, Evict)]) == 4 * NODES + 4
    assert looks.sum > 5 * NODES
    assert looks.longest < 3 * NODES // 2


def members(number: int, **more: Any) -> list[Object]:
    """A gang of pods of which no two may be on one node."""
    rules = {"labels": pairs(app="x"), "anti_affinity": (near("kubernetes.io/hostname", app="x"),), **more}
    return [gang("apart", number), *(mine(f"p{index}", group="apart", **rules) for index in range(number))]


def spread_out(configuration: str = "allocate") -> Simulated:
    """Nodes with names in their labels."""
    simulated = Simulated(load(policy(configuration), "test"))
    names = [f"n{index}" for index in range(MEMBERS)]
    simulated.see(*(node(name, labels=(("kubernetes.io/hostname", name),)) for name in names))
    return simulated


@pytest.mark.parametrize("members", [1, 500])
def test_jobs_get_their_places_by_other_plugins_between_looks_at_the_clock(
    members: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated = Simulated(load(policy("allocate"), "test"))
    simulated.see(node("n1", allocatable=amounts(cpu="2", pods="10")))
    small = ((f"p{index}", f"o{index // members}") for index in range(2000))
    simulated.see(*(mine(name, owner=owner, request=amounts(cpu="3")) for name, owner in small))
    whole = {"request": amounts(cpu="2")}
    simulated.see(mine("busy", priority=99, **whole))
    simulated.run()
    simulated.see(mine("old", created="2020-01-01T00:00:00Z", **whole))
    simulated.see(mine("high", created="2020-01-02T00:00:00Z", priority=9, **whole))
    simulated.run()
    assert simulated.placements() == {"busy": "n1"}
    by_age = load(policy("allocate").replace("  - name: priority\n", ""), "test")
    orders, keys = counted(monkeypatch, PluginSet, "job_order"), counted(monkeypatch, PluginSet, "task_order")
    simulated.scheduler.configure(by_age, partial_gang_seconds=120, reserve_after=300)
    assert (orders.sum, keys.sum) == (0, 0)

    def looks() -> bool:
        keys()
        return orders()

    decide(simulated, looks)
    assert orders.sum >= 2000 // members
    assert keys.sum >= 2000
    assert max(orders.longest, keys.longest) <= 512
    # The oldest comes first now, whatever its priority.
    simulated.finish("busy")
    simulated.run()
    assert simulated.placements() == {"old": "n1"}


@pytest.mark.parametrize("resting", [False, True])
def test_a_new_tree_of_queues_takes_its_jobs_over_between_looks_at_the_clock(
    *, resting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated = Simulated(load(policy("allocate"), "test"))
    simulated.see(node("n1", allocatable=amounts(cpu="64", pods="5000")), *([queue("a")] if resting else []))
    where: Any = {"node": "n1", "phase": Phase.RUNNING} if resting else {}
    where["annotations"] = (("scheduling.converged.hpc/queue", "a"),)
    simulated.see(
        *(mine(f"p{index}", request=amounts(cpu="1m" if resting else "100"), **where) for index in range(2000))
    )
    simulated.run()
    # Pods at rest get their jobs back, and jobs of a queue that there was not before are counted in it.
    looks = counted(monkeypatch, JobTable if resting else Usage, "restore" if resting else "count_in_queue")
    simulated.see(queue("top"), queue("a", parent="top"))
    decide(simulated, looks)
    assert looks.sum >= 2000
    assert looks.longest <= 1100
    report = {item.name: item for item in simulated.scheduler.queues()}
    assert report["a"].parent == "top"
    assert (report["top"].pending_pods, report["top"].running_groups) == ((0, 2000) if resting else (2000, 0))


def test_parked_jobs_get_their_places_back_between_looks_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = Simulated(load(policy("allocate"), "test"))
    busy = mine("busy", node="n1", phase=Phase.RUNNING, request=amounts(cpu="2"))
    simulated.see(node("n1", allocatable=amounts(cpu="2", pods="10")), busy)
    # Without any free room no queue deserves anything, and none is visited.
    simulated.see(node("spare", allocatable=amounts(cpu="1", pods="10")))
    simulated.see(*(mine(f"p{index}", request=amounts(cpu=f"{1500 + index % 9}m")) for index in range(2000)))
    simulated.run()
    looks = counted(monkeypatch, SchedulingQueue, "push")
    simulated.gone(busy)
    decide(simulated, looks)
    assert looks.sum >= 2000
    assert looks.longest <= 200


def test_members_that_are_placed_one_by_one_are_so_between_looks_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = spread_out()
    simulated.run()
    looks = counted(monkeypatch, HostSelector, "best")
    simulated.see(*members(MEMBERS))
    assert len([action for action in decide(simulated, looks) if isinstance(action, Bind)]) == MEMBERS
    assert (looks.sum, looks.longest) == (MEMBERS, 1)


def test_nobody_sees_a_part_of_a_gang_that_is_placed_one_by_one() -> None:
    simulated = spread_out()
    simulated.see(*members(MEMBERS))
    book, halves = simulated.scheduler.cache, 0
    for _unused in range(10 * MEMBERS):
        binds = [action for action in simulated.run_once(lambda: True) if isinstance(action, Bind)]
        begun = sum(task.status is Status.ALLOCATED for task in book.jobs.tasks.values())
        assert len(binds) in (0, MEMBERS)
        assert book.in_transaction or begun in (0, MEMBERS)
        halves += 0 < begun < MEMBERS
    assert halves >= MEMBERS - 1
    # Whoever begins to follow takes it back.
    other = spread_out()
    other.see(*members(MEMBERS))
    while not any(task.status is Status.ALLOCATED for task in other.scheduler.cache.jobs.tasks.values()):
        other.run_once(lambda: True)
    other.follow()
    assert {task.status for task in other.scheduler.cache.jobs.tasks.values()} == {Status.PENDING}
    assert len([action for action in other.run() if isinstance(action, Bind)]) == MEMBERS


def test_members_that_room_is_kept_for_get_it_one_by_one_and_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = spread_out("allocate, preempt")
    running = {"phase": Phase.RUNNING, "request": amounts(cpu="4")}
    simulated.see(
        *(mine(f"low{index}", node=f"n{index}", **running) for index in range(MEMBERS)), priority_class("high", 9)
    )
    simulated.run()
    group, *pods = members(MEMBERS, priority=9, request=amounts(cpu="2"))
    simulated.see(replace(group, priority_class="high"), *pods)
    assert len([action for action in simulated.run_once() if isinstance(action, Evict)]) == MEMBERS
    book = simulated.scheduler.cache
    simulated.gone(*(simulated.named(f"low{index}") for index in range(MEMBERS)))
    promised = {task.uid for task in book.jobs.tasks.values() if task.status is Status.PIPELINED}
    assert len(promised) == MEMBERS
    while not book.in_transaction or {book.jobs.tasks[uid].status for uid in promised} == {Status.PIPELINED}:
        assert not simulated.run_once(lambda: True)
    # It is taken back as a whole, too.
    simulated.follow()
    assert {book.jobs.tasks[uid].status for uid in promised} == {Status.PIPELINED}
    looks = counted(monkeypatch, HostSelector, "best")
    assert len([action for action in decide(simulated, looks) if isinstance(action, Bind)]) == MEMBERS
    assert (looks.sum, looks.longest) == (MEMBERS, 1)


# More than three steps of every end of a statement.
LARGE = 400


def large_gang(cores: int, size: int = LARGE) -> Simulated:
    """A gang of so many members of one core each, and nodes that have so many cores together."""
    simulated = Simulated(load(policy("allocate"), "test"))
    for index, part in enumerate((cores // 2, cores - cores // 2)):
        simulated.see(node(f"n{index}", allocatable=amounts(cpu=str(part), pods=str(size))))
    simulated.see(gang("g", size), *(mine(f"g{index}", group="g", request=amounts(cpu="1")) for index in range(size)))
    return simulated


@pytest.mark.parametrize("missing", [0, 1])
def test_a_large_gang_is_bound_or_taken_back_between_looks_at_the_clock(missing: int) -> None:
    number = 2_000
    simulated, looks = large_gang(number - missing, number), Looks()
    # It imports more of numpy when it is called first.
    np.unique(np.zeros(1))

    def call(_frame: FrameType, event: str, _argument: object) -> None:
        if event in ("call", "c_call"):
            looks.happened()

    sys.setprofile(call)
    binds, more = 0, True
    while more:
        looks()
        sys.setprofile(call)
        decision = simulated.decide(looks)
        sys.setprofile(None)
        binds, more = binds + sum(isinstance(action, Bind) for action in decision.actions), decision.more
    assert binds == (0 if missing else number)
    # Together they take more than sixty thousand calls to bind, and twice as many to take back.
    assert looks.longest < 20_000


@pytest.mark.parametrize("missing", [0, 1])
def test_nobody_sees_a_part_of_a_gang_whose_statement_ends(missing: int) -> None:
    ends = 0
    for slices in range(1, 100):
        simulated = large_gang(LARGE - missing)
        binds: list[Action] = []
        for _unused in range(slices):
            binds += [action for action in simulated.run_once(lambda: True) if isinstance(action, Bind)]
        cache = simulated.scheduler.cache
        if binds or (cache.jobs.by_key and not cache.in_transaction and ends):
            # It has come to its end.
            break
        begun = [task.status for task in cache.jobs.tasks.values()].count(Status.ALLOCATED)
        assert cache.in_transaction or not begun
        assert simulated.scheduler.under_way or not begun
        ends += begun == LARGE - missing
        # Another daemon decides from now on: of what has been decided, nothing is sent and nothing is left.
        simulated.follow()
        assert {task.status for task in cache.jobs.tasks.values()} <= {Status.PENDING}
        assert not any(queue.allocated.get("cpu") for queue in cache.tree.by_name.values())
        assert not (simulated.scheduler.cluster.columns.free != simulated.scheduler.cluster.columns.allocatable).any()
        simulated.run()
        assert len(simulated.placements()) == (0 if missing else LARGE)
    assert ends >= 3
    assert len(binds) == (0 if missing else LARGE)
