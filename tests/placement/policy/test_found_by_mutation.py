# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the list of faults (tests/mutations) showed to be missing: each test here fails with a fault of that list."""

from dataclasses import replace

from placement.model.messages.action import Bind, Evict
from placement.model.objects.pod import Phase, Pod
from placement.policy.plugins.configuration import Configuration, load
from placement_kit.builders import amounts, budget, gang, mine, node, pairs, queue
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated

PATIENCE = 120.0


def acting(actions: str) -> Configuration:
    return load(policy(actions), "test")


def evicted(actions: list[object]) -> list[str]:
    return [action.name for action in actions if isinstance(action, Evict)]


def test_a_gang_whose_last_binding_is_under_way_when_its_time_is_over_is_left_alone() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), node("n2"), gang("g", 2))
    simulated.see(*(mine(f"g{index}", group="g") for index in range(2)))
    first, _second = (action for action in simulated.run_once() if isinstance(action, Bind))
    simulated.carry_out(first)
    assert not evicted(simulated.run_once())
    simulated.now += 2 * PATIENCE
    assert not evicted(simulated.run_once()), "the second binding has not been answered yet"


def test_pods_that_were_asked_to_leave_count_in_their_budget_before_the_api_says_so() -> None:
    simulated = Simulated(acting("allocate, preempt"))
    simulated.see(budget("keep", allowed=1, app="kept"))
    for name in ("n1", "n2"):
        simulated.see(node(name, allocatable=amounts(cpu="1", memory="8Gi", pods="10")))
        simulated.see(mine(f"kept-{name}", node=name, phase=Phase.RUNNING, labels=pairs(app="kept")))
    simulated.see(node("n3", allocatable=amounts(cpu="1", memory="8Gi", pods="10")))
    simulated.see(mine("free", node="n3", phase=Phase.RUNNING, priority=5))
    simulated.see(mine("first", priority=10))
    (gone,) = evicted(simulated.run_once())
    assert gone.startswith("kept"), "of the lowest priority, and the budget allows it"
    # Nothing says yet that it leaves. Another comes, and the budget as the API shows it has not changed.
    simulated.see(mine("second", priority=10))
    assert evicted(simulated.run_once()) == ["free"]


def test_room_elsewhere_is_not_taken_before_the_queue_has_been_left_its_room() -> None:
    simulated = Simulated(acting("allocate, preempt"))
    simulated.see(queue("default", capability=amounts(cpu="2")), node("n1"), node("n2"))
    simulated.see(*(mine(f"low{index}", node="n1", phase=Phase.RUNNING) for index in range(2)))
    simulated.see(mine("high", priority=10))
    (gone,) = evicted(simulated.run_once())
    simulated.see(replace(simulated.named(gone), terminating=True))
    assert not [action for action in simulated.run() if isinstance(action, Bind)], "it is leaving, and holds its part"
    simulated.gone(simulated.named(gone))
    simulated.run()
    assert "high" in simulated.placements()


def test_a_queue_takes_nothing_from_others_where_the_one_above_it_has_all_that_it_deserves() -> None:
    """Nine cores for three queues that want more: three for each. `mine` is empty, and its parent has three."""
    simulated = Simulated(acting("allocate, reclaim"))
    simulated.see(node("n1", allocatable=amounts(cpu="9", memory="64Gi", pods="50")))
    simulated.see(*(queue(name) for name in ("parent", "greedy", "poor")))
    simulated.see(*(queue(name, parent="parent") for name in ("mine", "sister")))
    for name, number in (("sister", 3), ("greedy", 6)):
        simulated.see(*(of(name, f"{name}{index}", node="n1", phase=Phase.RUNNING) for index in range(number)))
    simulated.see(*(of("poor", f"poor{index}") for index in range(3)))
    simulated.run()
    names = [name.rstrip("0123456789") for name in simulated.placements()]
    assert {name: names.count(name) for name in set(names)} == {"sister": 3, "greedy": 3, "poor": 3}
    simulated.see(*(of("greedy", f"more{index}") for index in range(3)))
    simulated.see(of("mine", "mine0"))
    assert evicted(simulated.run()) == []


def of(name: str, pod: str, **more: object) -> Pod:
    return mine(pod, annotations=(("scheduling.converged.hpc/queue", name),), **more)
