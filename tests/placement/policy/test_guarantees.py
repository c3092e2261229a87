# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is guaranteed to a queue is not taken by way of evictions either."""

from typing import Any

import pytest
from placement.model.messages.action import Evict
from placement.model.objects.pod import Phase, Pod
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, gang, mine, node, priority_class, queue
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated


def half_taken(action: str, *, victims: str, guarantee: int = 5) -> Simulated:
    """Ten nodes of one core: five have pods of one queue, and so many are guaranteed to the queue b, which is empty."""
    simulated = Simulated(load(policy(f"allocate, {action}"), "test"))
    simulated.see(*(node(f"n{index}", allocatable=amounts(cpu="1", pods="10")) for index in range(10)))
    simulated.see(
        queue("a", weight=2), queue("b", guarantee=amounts(cpu=str(guarantee))), queue("c"), priority_class("high", 10)
    )
    simulated.see(gang("low", 1, queue=victims))
    simulated.see(*(mine(f"low{index}", group="low", node=f"n{index}", phase=Phase.RUNNING) for index in range(5)))
    simulated.run()
    return simulated


def evicted_for(simulated: Simulated, members: int) -> int:
    """How many leave for a gang of so many in the queue a."""
    simulated.see(gang("high", members, queue="a", priority_class="high"))
    simulated.see(*(mine(f"high{index}", group="high", priority=10) for index in range(members)))
    return sum(isinstance(action, Evict) for action in simulated.run())


@pytest.mark.parametrize(("action", "victims"), [("preempt", "a"), ("reclaim", "c")])
def test_no_gang_takes_what_is_guaranteed_to_others_by_evicting_one(action: str, victims: str) -> None:
    simulated = half_taken(action, victims=victims)
    assert evicted_for(simulated, 6) == 0
    assert len(simulated.placements()) == 5


@pytest.mark.parametrize(("action", "victims"), [("preempt", "a"), ("reclaim", "c")])
def test_the_same_gang_takes_what_is_guaranteed_to_nobody(action: str, victims: str) -> None:
    simulated = half_taken(action, victims=victims, guarantee=0)
    assert evicted_for(simulated, 6) == 1


def test_pods_change_places_in_a_queue_that_has_got_more_than_others_leave_it() -> None:
    simulated = half_taken("preempt", victims="a")
    simulated.see(*(node(f"n{index}", unschedulable=True) for index in range(5, 10)))
    assert evicted_for(simulated, 2) == 2


def below_a_parent(action: str, **child: Any) -> Simulated:
    """Ten cores, the queue `other` wants all of them, and `child` is below a parent that has no bounds of its own."""
    simulated = Simulated(load(policy(action), "test"))
    simulated.see(node("n1", allocatable=amounts(cpu="10", pods="110")))
    simulated.see(queue("other", weight=9), queue("parent", weight=9), queue("child", parent="parent", **child))
    simulated.see(*pods_in("other", 12))
    return simulated


def pods_in(name: str, number: int) -> list[Pod]:
    """Pods by themselves."""
    annotations = (("scheduling.converged.hpc/queue", name),)
    return [mine(f"{name}{index}", annotations=annotations) for index in range(number)]


def children(simulated: Simulated) -> int:
    return sum(name.startswith("child") for name in simulated.placements())


def test_what_no_queue_below_a_parent_may_have_goes_to_others() -> None:
    simulated = below_a_parent("reclaim, allocate", capability=amounts(cpu="2"))
    simulated.see(*pods_in("child", 10))
    simulated.run()
    assert (children(simulated), len(simulated.placements())) == (2, 10)


def test_nobody_leaves_for_more_than_a_queue_below_a_parent_may_have() -> None:
    simulated = below_a_parent("allocate, reclaim", capability=amounts(cpu="2"))
    simulated.run()
    simulated.see(*pods_in("child", 10))
    decided = simulated.run()
    assert sum(isinstance(action, Evict) for action in decided) == 2
    assert (children(simulated), len(simulated.placements())) == (2, 10)


def test_what_is_guaranteed_below_a_parent_is_taken_back_from_others() -> None:
    simulated = below_a_parent("allocate, reclaim", weight=1)
    simulated.run()
    simulated.see(queue("parent"), queue("child", parent="parent", guarantee=amounts(cpu="5")))
    simulated.see(*pods_in("child", 7))
    simulated.run()
    assert (children(simulated), len(simulated.placements())) == (5, 10)
