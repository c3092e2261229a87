# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What queues share: the room that ordinary pods of ours can use."""

from dataclasses import replace
from typing import Any

import pytest
from placement.model.objects.node import Node
from placement.model.objects.pod import Phase, Pod
from placement.model.rules.selector import Effect, Taint, Toleration
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, mine, node, pod, queue
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated

QUEUE = "scheduling.converged.hpc/queue"
CONTROL_PLANE = Taint("node-role.kubernetes.io/control-plane", "", Effect.NO_SCHEDULE)
BACKED = Taint("converged.hpc/backed", "", Effect.NO_SCHEDULE)
EVERYTHING = (Toleration(operator="Exists"),)


def acting(actions: str = "reclaim, allocate, backfill") -> Simulated:
    return Simulated(load(policy(actions), "test"))


def of(name: str, index: int, **more: Any) -> Pod:
    """A pod of one core in a queue."""
    return mine(f"{name}{index}", annotations=((QUEUE, name),), **more)


def cores(simulated: Simulated) -> int:
    """What queues share."""
    return int(simulated.scheduler.cache.total["cpu"] // 1000)


UNUSABLE = {
    "for backed pods": {"taints": (BACKED,)},
    "cordoned": {"unschedulable": True},
    "held by batch jobs": {"held_by": "slurm:7"},
    "with a taint that no pod of ours tolerates": {"taints": (CONTROL_PLANE,)},
}


@pytest.mark.parametrize("other", UNUSABLE.values(), ids=UNUSABLE)
def test_two_queues_share_a_node_whatever_idle_nodes_they_cannot_use(other: dict[str, Any]) -> None:
    simulated = acting()
    simulated.see(node("n1"), *(node(f"other{index}", **other) for index in range(10)))
    simulated.see(queue("a"), queue("b"))
    simulated.see(*(of("a", index) for index in range(4)))
    simulated.run()
    assert cores(simulated) == 4
    simulated.see(*(of("b", index) for index in range(4)))
    simulated.run()
    placed = sorted(name[0] for name in simulated.placements())
    assert placed == ["a", "a", "b", "b"]


def test_a_node_counts_as_soon_as_it_can_be_used_and_no_longer() -> None:
    simulated = acting()
    for extra, shared in (({}, 8), ({"taints": (BACKED,)}, 4), ({}, 8), ({"unschedulable": True}, 4), ({}, 8)):
        simulated.see(node("n1"), node("n2", **extra))
        simulated.run()
        assert cores(simulated) == shared
    simulated.gone(node("n2"))
    simulated.run()
    assert cores(simulated) == 4


def test_a_tainted_node_counts_as_long_as_a_pod_of_ours_tolerates_it() -> None:
    simulated = acting()
    simulated.see(node("n1"), node("control", taints=(CONTROL_PLANE,)), node("backed", taints=(BACKED,)))
    simulated.see(mine("p", request=amounts(cpu="100")))
    simulated.run()
    assert cores(simulated) == 4
    # It waits, then it runs, then it has ended.
    simulated.see(
        mine("daring", tolerations=EVERYTHING, request=amounts(cpu="4")), mine("big", request=amounts(cpu="4"))
    )
    simulated.run()
    assert len(simulated.placements()) == 2
    assert cores(simulated) == 8
    simulated.finish("daring")
    simulated.run()
    assert cores(simulated) == 4


def test_a_pod_that_tolerates_more_while_it_waits_makes_its_nodes_count() -> None:
    simulated = acting()
    simulated.see(node("control", taints=(CONTROL_PLANE,)), mine("p"))
    simulated.run()
    assert cores(simulated) == 0
    known = simulated.named("p")
    simulated.see(replace(known, spec=replace(known.spec, tolerations=EVERYTHING)))
    simulated.run()
    assert (cores(simulated), simulated.placements()) == (4, {"p": "control"})


def test_what_pods_of_ours_hold_on_a_cordoned_node_is_still_shared() -> None:
    simulated = acting()
    simulated.see(node("n1"), node("n2", unschedulable=True), mine("p", node="n2", phase=Phase.RUNNING))
    simulated.run()
    assert cores(simulated) == 5


def test_pods_of_others_that_fill_a_node_beyond_its_size_take_nothing_from_other_nodes() -> None:
    simulated = acting()
    simulated.see(node("n1"), node("n2"))
    simulated.see(*(pod(f"theirs{index}", node="n1", request=amounts(cpu="3")) for index in range(3)))
    simulated.run()
    assert cores(simulated) == 4
    # Of what pods of ours hold there no more than the node has can be shared again.
    simulated.see(mine("ours", node="n1", request=amounts(cpu="2")))
    simulated.run()
    assert cores(simulated) == 4


def test_what_a_backed_queue_holds_and_wants_leaves_the_shares_of_others_alone() -> None:
    simulated = acting()
    simulated.see(node("n1"), node("b1", taints=(BACKED,), allocatable=amounts(cpu="40", memory="80Gi", pods="100")))
    simulated.see(queue("a"), queue("b"), queue("batch", placed_by="pbs"))
    simulated.see(
        *(of("batch", index, node="b1", phase=Phase.RUNNING, request=amounts(cpu="10")) for index in range(3))
    )
    simulated.see(*(of("a", index) for index in range(4)))
    simulated.run()
    simulated.see(*(of("b", index) for index in range(4)))
    simulated.run()
    assert cores(simulated) == 4
    placed = sorted(name[0] for name in simulated.placements() if not name.startswith("batch"))
    assert placed == ["a", "a", "b", "b"]
    reports = {report.name: dict(report.deserved).get("cpu") for report in simulated.scheduler.queues()}
    assert (reports["a"], reports["b"], reports["batch"]) == (2000, 2000, 30000)


def test_the_sums_are_those_of_a_fresh_look_whatever_happens() -> None:
    """Every node and pod comes, changes and goes, and after each step a new scheduler shares the same."""
    simulated = acting()
    steps: list[Any] = []
    shapes: tuple[dict[str, Any], ...] = (
        {},
        {"taints": (CONTROL_PLANE,)},
        {"unschedulable": True},
        {"taints": (BACKED,)},
    )
    for number in range(70):
        shape = shapes[number % len(shapes)]
        steps.append(node(f"n{number % 68}", **shape))
        if number % 3 == 0:
            tolerations = EVERYTHING if number % 2 else ()
            steps.append(mine(f"p{number}", tolerations=tolerations, node=f"n{number % 5}", phase=Phase.RUNNING))
    for step in steps:
        simulated.see(step)
        simulated.run()
        assert simulated.scheduler.cache.total == fresh(simulated)
    for name in [name for name in simulated.placements() if name.startswith("p")]:
        simulated.gone(simulated.named(name))
        simulated.run()
        assert simulated.scheduler.cache.total == fresh(simulated)


def fresh(simulated: Simulated) -> dict[str, int]:
    """What a scheduler shares that sees everything at once."""
    other = acting()
    other.see(*simulated.scheduler.cluster.objects.get(Node, {}).values(), *simulated.pods.values())
    other.run()
    return other.scheduler.cache.total
