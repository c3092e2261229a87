# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room made for pods of which rules say more than how much they need: it is made where it can be used, or given up."""

from typing import Any

import pytest
from placement.model.messages.action import Evict, PodCondition
from placement.model.objects.pod import HostPort, Phase
from placement.model.objects.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from placement.model.rules.selector import NodeSelector, NodeSelectorTerm, Operator, Requirement
from placement.policy.jobs.job import Status
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, gang, mine, near, node, pairs, pod, priority_class, spread
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated

APART: tuple[dict[str, Any], ...] = (
    {"anti_affinity": (near("host", app="g"),)},
    {"spread": (spread("host", labels={"app": "g"}, max_skew=1),)},
    {"host_ports": (HostPort("0.0.0.0", "TCP", 80),)},
)


def full(nodes: int) -> Simulated:
    """Nodes of four cores, each full with pods that are to leave for a gang of two."""
    simulated = Simulated(load(policy("allocate, preempt"), "test"))
    simulated.see(priority_class("high", 10), gang("pair", 2, priority_class="high"))
    for index in range(1, nodes + 1):
        name = f"n{index}"
        simulated.see(node(name, labels=pairs(host=name)))
        simulated.see(*(mine(f"{name}-{letter}", node=name, phase=Phase.RUNNING) for letter in "abcd"))
    simulated.run()
    return simulated


def claimants(simulated: Simulated, *, group: str = "pair", **more: Any) -> list[str]:
    """Two pods of two cores come; the answer is whose nodes others had to leave for them, a node for each that left."""
    for name in ("one", "two"):
        given = {key: value(name) if callable(value) else value for key, value in more.items()}
        given = {"request": amounts(cpu="2"), "labels": pairs(app="g"), **given}
        simulated.see(mine(name, group=group, priority=10, **given))
    return left(simulated)


def left(simulated: Simulated) -> list[str]:
    decided = simulated.run()
    return sorted(action.name.partition("-")[0] for action in decided if isinstance(action, Evict))


def promised(simulated: Simulated) -> list[str]:
    return [task.pod.name for task in simulated.scheduler.cache.jobs.tasks.values() if task.status is Status.PIPELINED]


@pytest.mark.parametrize("rule", APART, ids=lambda rule: next(iter(rule)))
def test_members_that_must_not_be_together_get_room_on_different_nodes(rule: dict[str, Any]) -> None:
    simulated = full(3)
    assert claimants(simulated, **rule) == ["n1", "n1", "n2", "n2"]
    placements = simulated.placements()
    assert (placements["one"], placements["two"]) == ("n1", "n2")
    simulated.check()


@pytest.mark.parametrize("rule", APART, ids=lambda rule: next(iter(rule)))
def test_nobody_leaves_for_members_that_the_only_node_may_not_have_together(rule: dict[str, Any]) -> None:
    simulated = full(1)
    simulated.see(node("other", labels=pairs(host="other"), unschedulable=True))
    assert claimants(simulated, **rule) == []


@pytest.mark.parametrize("hosts", [("n1",), ("n1", "n2"), ("n1", "n1")])
def test_members_get_room_where_there_are_volumes_for_all_of_them(hosts: tuple[str, ...]) -> None:
    simulated = full(2)
    provisioner = "kubernetes.io/no-provisioner"
    simulated.see(StorageClass(uid="class", name="disks", version=1, provisioner=provisioner, waits=True))
    given: dict[str, Any] = {"version": 1, "storage_class": "disks", "modes": ("ReadWriteOnce",), "size": 10}
    for index, host in enumerate(hosts):
        terms = (NodeSelectorTerm((Requirement("host", Operator.IN, (host,)),)),)
        name = f"v{index}"
        simulated.see(PersistentVolume(uid=name, name=name, available=True, node_terms=terms, **given))
    for name in ("one", "two"):
        simulated.see(PersistentVolumeClaim(uid=f"claim-{name}", namespace="team", name=name, **given))
    wanted = [host for host in hosts for _unused in range(2)] if len(hosts) == 2 else []
    assert claimants(simulated, volume_claims=lambda name: (name,)) == wanted
    assert promised(simulated) == []


@pytest.mark.parametrize("rule", APART, ids=lambda rule: next(iter(rule)))
def test_pods_by_themselves_that_must_not_be_together_get_room_after_each_other(rule: dict[str, Any]) -> None:
    simulated = full(2)
    claimants(simulated, group="", **rule)
    placements = simulated.placements()
    assert (placements["one"], placements["two"]) == ("n1", "n2")


@pytest.mark.parametrize(
    ("rule", "foreign"),
    [
        ({"anti_affinity": (near("host", app="x"),)}, {"labels": pairs(app="x")}),
        ({"host_ports": (HostPort("0.0.0.0", "TCP", 80),)}, {"host_ports": (HostPort("0.0.0.0", "TCP", 80),)}),
    ],
    ids=["anti-affinity", "port"],
)
def test_a_promise_is_given_up_when_a_foreign_pod_has_come_that_forbids_it(
    rule: dict[str, Any], foreign: dict[str, Any]
) -> None:
    simulated = full(2)
    simulated.see(mine("high", priority=10, request=amounts(cpu="2"), **rule))
    evictions = [action for action in simulated.run_once() if isinstance(action, Evict)]
    assert {simulated.named(action.name).node for action in evictions} == {"n1"}
    simulated.see(pod("x", node="n1", phase=Phase.RUNNING, scheduler_name="other", request=(), **foreign))
    for action in evictions:
        simulated.carry_out(action)
    assert left(simulated) == ["n2", "n2"]
    assert simulated.placements()["high"] == "n2"


def test_a_promise_lasts_while_somebody_has_yet_to_leave_although_a_rule_forbids_it() -> None:
    simulated = full(1)
    simulated.see(mine("high", priority=10, request=amounts(cpu="2"), anti_affinity=(near("host", app="x"),)))
    first, second = (action for action in simulated.run_once() if isinstance(action, Evict))
    simulated.see(pod("x", node="n1", phase=Phase.RUNNING, scheduler_name="other", request=(), labels=pairs(app="x")))
    simulated.carry_out(first)
    simulated.run()
    assert promised(simulated) == ["high"]
    simulated.gone(simulated.named("x"))
    simulated.carry_out(second)
    simulated.run()
    assert simulated.placements()["high"] == "n1"


def test_members_go_where_they_were_promised_room_when_the_best_node_of_one_is_the_only_one_of_another() -> None:
    simulated = full(2)
    # The first is promised n2, because less has to leave there, and would rather have n1.
    simulated.finish("n2-a", "n2-b")
    there = {"one": (), "two": pairs(host="n1")}
    assert claimants(simulated, request=amounts(cpu="4"), selector=lambda name: NodeSelector(there[name])) == [
        "n1",
        "n1",
        "n1",
        "n1",
        "n2",
        "n2",
    ]
    placements = simulated.placements()
    assert (placements["one"], placements["two"]) == ("n2", "n1")


@pytest.mark.parametrize(("theirs", "placed"), [(-10, True), (999, True), (1000, False), (1001, False)])
def test_room_that_another_scheduler_nominated_is_closed_to_pods_of_no_higher_priority(
    theirs: int, placed: bool
) -> None:
    simulated = Simulated()
    simulated.see(node("n1"), pod("theirs", priority=theirs, nominated_node="n1", request=amounts(cpu="4")))
    simulated.see(mine("p", priority=1000))
    simulated.run()
    assert simulated.placements() == ({"p": "n1"} if placed else {})
    if not placed:
        assert simulated.conditions()["p"] == "0/1 nodes are available: 1 Insufficient cpu"


def test_several_nominations_on_a_node_count_each_by_its_priority() -> None:
    simulated = Simulated()
    simulated.see(node("n1"))
    for priority in (0, 10, 20, 30):
        simulated.see(pod(f"theirs{priority}", priority=priority, nominated_node="n1"))
    # One core each: of priority 15 and above two are kept.
    simulated.see(*(mine(f"p{index}", priority=15) for index in range(3)))
    simulated.run()
    assert len(simulated.placements()) == 2
    simulated.gone(simulated.named("theirs30"))
    simulated.run()
    assert len(simulated.placements()) == 3
    simulated.see(mine("least", priority=-1))
    simulated.run()
    assert "least" not in simulated.placements()


def test_a_gang_goes_where_nominations_of_lower_priority_are_as_a_whole() -> None:
    simulated = Simulated()
    simulated.see(priority_class("high", 10), gang("g", 4, priority_class="high"))
    for name in ("n1", "n2"):
        simulated.see(node(name))
        simulated.see(pod(f"theirs-{name}", priority=5, nominated_node=name, request=amounts(cpu="3")))
    # Their own priority is lower: their gang's counts.
    simulated.see(*(mine(f"g{index}", group="g", request=amounts(cpu="2")) for index in range(4)))
    simulated.run()
    assert len(simulated.placements()) == 4


def test_room_that_is_kept_for_a_gang_is_kept_by_the_priority_of_its_group() -> None:
    simulated = full(2)
    assert claimants(simulated) == ["n1", "n1", "n1", "n1"]
    # Of a higher priority than the members, not than the gang.
    simulated.see(*(mine(f"late{index}", priority=10, preempts=False) for index in range(4)))
    simulated.run()
    assert {"one", "two"} <= simulated.placements().keys()


def test_who_takes_room_of_lower_priority_has_nobody_leave_for_it_and_the_other_looks_again() -> None:
    simulated = Simulated(load(policy("allocate, preempt"), "test"))
    simulated.see(node("n1"), node("n2"))
    for name in ("n1", "n2"):
        simulated.see(mine(f"{name}-low", node=name, phase=Phase.RUNNING, request=amounts(cpu="4")))
    simulated.see(mine("middle", priority=10, request=amounts(cpu="4")))
    (first,) = [action for action in simulated.run_once() if isinstance(action, Evict)]
    simulated.carry_out(first)
    # The room is free, and the one that it was made for has not been bound yet.
    simulated.see(mine("high", priority=100, request=amounts(cpu="4")))
    simulated.run()
    assert sorted(simulated.placements()) == ["high", "middle"]


def test_room_that_is_being_left_goes_to_a_claimant_of_higher_priority_and_others_leave_for_the_first() -> None:
    simulated = Simulated(load(policy("allocate, preempt"), "test"))
    simulated.see(node("n1"), *(mine(f"low{index}", node="n1", phase=Phase.RUNNING) for index in range(4)))
    simulated.see(mine("high", priority=10, request=amounts(cpu="2")))
    first = [action for action in simulated.run_once() if isinstance(action, Evict)]
    assert len(first) == 2
    simulated.see(mine("higher", priority=20, request=amounts(cpu="2")))
    # No pod is evicted for this one: those that leave already are enough.
    told = {action.name: action for action in simulated.run_once() if isinstance(action, PodCondition)}
    assert told["higher"].nominated_node == "n1"
    second = [action for action in simulated.run_once() if isinstance(action, Evict)]
    assert len(second) == 2
    for evict in first:
        simulated.carry_out(evict)
    simulated.run()
    assert simulated.placements().get("higher") == "n1"
    assert "high" not in simulated.placements()
    for evict in second:
        simulated.carry_out(evict)
    simulated.run()
    assert sorted(simulated.placements()) == ["high", "higher"]


def test_a_promise_is_kept_although_the_other_members_can_never_run() -> None:
    simulated = Simulated(load(policy("allocate, preempt"), "test"))
    simulated.see(node("n1"), mine("low", node="n1", request=amounts(cpu="4"), phase=Phase.RUNNING))
    simulated.see(priority_class("high", 10), gang("g", 1, priority_class="high"))
    simulated.see(mine("a", group="g", request=amounts(cpu="2"), created="2026-01-01T00:00:00Z"))
    simulated.see(mine("b", group="g", request=amounts(cpu="50"), created="2026-01-01T00:00:01Z"))
    # The evicted pod takes its time.
    simulated.run_once()
    assert promised(simulated) == ["a"]
    simulated.see(node("n2", allocatable=amounts(cpu="1", memory="1Gi", pods="10")))
    simulated.run_once()
    assert simulated.scheduler.cache.jobs.tasks["uid-b"].job.problem is not None
    simulated.run_once()
    assert promised(simulated) == ["a"]
    simulated.gone(simulated.named("low"))
    simulated.run()
    assert simulated.placements() == {"a": "n1"}
