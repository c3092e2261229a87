# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much is looked at for one piece of news in a large cluster, counted and not timed."""

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from placement.core.scheduler import Scheduler
from placement.model.messages.action import Bind, Evict, PodCondition
from placement.model.messages.event import Deleted, EvictRefused, Relisted, Upserted
from placement.model.objects.pod import Phase, Pod, PodSpec
from placement.model.objects.workload import VOLCANO
from placement.model.rules.selector import Effect, LabelSelector, NodeSelector, Requirement, Taint
from placement.policy.cache.scheduling_queue.scheduling_queue import CLAIM_SECONDS
from placement.policy.framework.feasibility import Feasibility
from placement.policy.framework.placers.host_selector import HostSelector
from placement.policy.jobs.job import Job
from placement.policy.plugins.configuration import load
from placement.policy.plugins.plugin_set import PluginSet
from placement.policy.queues.reservations import Reservations
from placement.state.affinity.labelsets import LabelSets
from placement.state.cluster import Cluster
from placement.state.pods.pod_table import PodTable
from placement_kit.builders import amounts, budget, gang, mine, near, node, pairs, pod, queue
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated

NODES = 100
TINY = amounts(cpu="1m")
INDEX = "batch.kubernetes.io/job-completion-index"


class Calls:
    """Counts calls of a method."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, where: Any, method: str) -> None:
        self.number = 0
        original = getattr(where, method)

        def call(*args: Any, **more: Any) -> Any:
            self.number += 1
            return original(*args, **more)

        monkeypatch.setattr(where, method, call)

    def since(self) -> int:
        """Return how many there were since the last call."""
        number, self.number = self.number, 0
        return number


class Full:
    """Nodes full of pods, each of which some budget counts, and preemptors that come one by one."""

    def __init__(self, *, budgets: int = 20, allowed: int = 5) -> None:
        self.simulated = Simulated(load(policy("allocate, preempt"), "test"))
        self.simulated.see(*(node(f"n{index}", allocatable=amounts(cpu="4", pods="10")) for index in range(NODES)))
        self.simulated.see(*(budget(f"b{index}", allowed=allowed, app=f"a{index}") for index in range(budgets)))
        for index in range(NODES):
            self.simulated.see(*(self.low(index, which, budgets) for which in range(4)))
        self.simulated.run()
        self._come = 0

    def low(self, index: int, which: int, budgets: int) -> Pod:
        labels = (("app", f"a{(4 * index + which) % budgets}"), ("index", f"{index}-{which}"))
        return mine(f"low{index}-{which}", node=f"n{index}", phase=Phase.RUNNING, labels=labels)

    def preempts(self, **more: Any) -> list[str]:
        self._come += 1
        self.simulated.see(mine(f"high{self._come}", priority=9, request=amounts(cpu="2"), **more))
        return [action.name for action in self.simulated.run() if isinstance(action, Evict)]


def test_a_preemptor_after_another_looks_at_the_nodes_that_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Full()
    looks = Calls(monkeypatch, PodTable, "at_node")
    assert len(full.preempts()) == 2
    assert looks.since() >= NODES
    for _unused in range(5):
        assert len(full.preempts()) == 2
        assert looks.since() < NODES // 10


def test_no_budget_is_matched_against_each_pod_of_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Full()
    matches = Calls(monkeypatch, LabelSelector, "matches")
    assert len(full.preempts()) == 2
    # Each label set finds its one budget: 400 pods with 20 budgets each would be 8,000.
    assert matches.since() <= 400
    assert len(full.preempts()) == 2
    assert matches.since() <= 8


def test_a_node_that_a_budget_made_dear_is_chosen_once_the_budget_allows_more() -> None:
    full = Full(budgets=4, allowed=0)
    full.simulated.see(replace(budget("b0", allowed=1, app="a0"), version=2))
    first = full.preempts()
    # Every choice is of one pod beyond its budget, or two.
    assert any(name.endswith("-0") for name in first)
    full.simulated.see(*(replace(budget(f"b{index}", allowed=9, app=f"a{index}"), version=3) for index in (2, 3)))
    assert {name.rpartition("-")[2] for name in full.preempts()} == {"2", "3"}


def test_a_pod_whose_binding_is_confirmed_may_be_evicted_by_the_next() -> None:
    simulated = Simulated(load(policy("allocate, preempt"), "test"))
    simulated.see(*(node(f"n{index}") for index in range(3)))
    simulated.see(*(mine(f"low{index}", node=f"n{index}", request=amounts(cpu="4")) for index in range(2)))
    simulated.see(mine("other", priority=5, request=amounts(cpu="4")))
    binds = [action for action in simulated.run_once() if isinstance(action, Bind)]
    simulated.see(mine("high1", priority=9, request=amounts(cpu="4")))
    for name in ("low0", "low1"):
        assert [action.name for action in simulated.run_once() if isinstance(action, Evict)] == [name]
        simulated.gone(simulated.named(name))
        simulated.run_once()
        simulated.see(mine(f"more{name}", priority=9, request=amounts(cpu="4")))
    assert not [action for action in simulated.run_once() if isinstance(action, Evict)]
    simulated.carry_out(binds[0])
    assert [action.name for action in simulated.run_once() if isinstance(action, Evict)] == ["other"]


def test_a_pod_that_could_not_be_evicted_may_be_once_that_is_forgiven() -> None:
    simulated = Simulated(load(policy("allocate, preempt"), "test"))
    simulated.see(node("n1"), mine("low", node="n1", phase=Phase.RUNNING, request=amounts(cpu="4")))
    simulated.run()
    simulated.see(mine("high", priority=9, request=amounts(cpu="4")))
    (evict,) = [action for action in simulated.run_once() if isinstance(action, Evict)]
    simulated.tell(EvictRefused(evict.uid, "no"))
    assert not [action for action in simulated.run_once() if isinstance(action, Evict)]
    simulated.now += 60.0
    assert [action.name for action in simulated.run() if isinstance(action, Evict)] == ["low"]


def test_members_with_an_index_each_are_placed_in_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = Simulated(load(policy("allocate"), "test"))
    room = amounts(cpu="64", pods="500")
    simulated.see(*(node(f"n{index}", labels=pairs(host=f"n{index}"), allocatable=room) for index in range(4)))
    for index in range(50):
        rules = {"labels": pairs(app=f"a{index}"), "anti_affinity": (near("host", app=f"a{index}"),)}
        simulated.see(pod(f"d{index}", node=f"n{index % 4}", request=(), **rules))
    simulated.run()
    one_by_one = Calls(monkeypatch, HostSelector, "best")
    simulated.see(gang("g", 100))
    simulated.see(*(mine(f"g{index}", group="g", labels=((INDEX, str(index)),), request=TINY) for index in range(100)))
    simulated.run()
    assert len(simulated.placements()) == 150
    assert not one_by_one.since()


def test_gangs_with_an_index_each_that_fit_nowhere_are_tried_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = Simulated(load(policy("allocate"), "test"))
    simulated.see(node("n1"), pod("tiny", node="n1", request=amounts(cpu="1m")))
    for name in range(30):
        members = (mine(f"{name}-{index}", group=str(name), labels=((INDEX, str(index)),)) for index in range(4))
        simulated.see(gang(str(name), 4), *members)
    simulated.run()
    tries = Calls(monkeypatch, HostSelector, "place")
    simulated.gone(simulated.named("tiny"))
    simulated.see(pod("again", node="n1", request=amounts(cpu="1m")))
    simulated.run()
    assert tries.since() == 1


def test_a_deployment_that_keeps_apart_matches_no_rule_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    matches = Calls(monkeypatch, LabelSelector, "matches")
    simulated = Simulated(load(policy("allocate"), "test"))
    room = amounts(cpu="640", pods="1100")
    simulated.see(*(node(f"n{index}", labels=pairs(host=f"n{index}"), allocatable=room) for index in range(4)))
    for index in range(200):
        rules = {"labels": pairs(app=f"a{index}"), "anti_affinity": (near("host", app=f"a{index}"),)}
        pods = (mine(f"d{index}-{which}", owner=f"o{index}", **rules, request=TINY) for which in range(2))
        simulated.see(*pods)
    simulated.run()
    assert len(simulated.placements()) == 400
    # Each of 400 pods with each of 200 rules would be 80,000.
    assert matches.since() < 20 * 400


def test_the_joint_rule_of_many_affinity_terms_is_looked_up_once_for_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = Simulated(load(policy("allocate"), "test"))
    simulated.see(node("n1", labels=pairs(host="n1")))
    looks = Calls(monkeypatch, LabelSets, "count")
    labels = {f"a{index}": "x" for index in range(500)}
    simulated.see(mine("p", labels=pairs(**labels), affinity=tuple(near("host", **{key: "x"}) for key in labels)))
    simulated.run()
    assert simulated.placements() == {"p": "n1"}
    # The terms are one rule: every term for each look at it would be 250,000 matchers to hash.
    assert looks.since() <= 5


def test_thousands_of_taints_are_nothing_to_rules_that_no_pod_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    nodes = [node(f"n{index}", labels=pairs(zone=f"z{index % 3}")) for index in range(NODES)]
    for item in nodes:
        cluster.apply(Upserted(item))
    selectors = [NodeSelector(pairs(zone=f"z{index % 3}", team=f"t{index}")) for index in range(50)]
    usable = Feasibility(cluster, Reservations(cluster.columns)).mask
    masks = [usable(PodSpec(selector=selector), ()) for selector in (*selectors, NodeSelector(pairs(zone="z1")))]
    assert int(masks[-1].allows.sum()) == NODES // 3
    asked = Calls(monkeypatch, NodeSelector, "matches")
    for item in nodes:
        cluster.apply(Upserted(replace(item, version=2, taints=(Taint("a", "", Effect.NO_SCHEDULE),))))
    assert not asked.since()
    assert not masks[-1].allows.any()
    cluster.apply(Upserted(replace(nodes[1], version=3)))
    cluster.apply(Upserted(replace(nodes[2], version=3)))
    assert masks[-1].allows.sum() == 1
    # Of few nodes each is asked about.
    assert asked.since() == 2


def test_a_mask_knows_nodes_that_came_after_it_was_made() -> None:
    cluster = Cluster()
    cluster.apply(Upserted(node("n0")))
    mask = Feasibility(cluster, Reservations(cluster.columns)).mask(PodSpec(), ())
    for index in range(1, 200):
        cluster.apply(Upserted(node(f"n{index}")))
    assert mask.allows.sum() == 200


class Slow(Simulated):
    """Victims take their time to leave."""

    def carry_out(self, action: Any) -> None:
        if isinstance(action, Evict):
            self.see(replace(self.pods[action.uid], terminating=True))
        else:
            super().carry_out(action)


def promised(number: int) -> Slow:
    simulated = Slow(load(policy("allocate, preempt"), "test"))
    for index in range(number):
        running = {"node": f"n{index}", "phase": Phase.RUNNING}
        simulated.see(node(f"n{index}"), mine(f"low{index}", request=amounts(cpu="4"), **running))
    simulated.run()
    simulated.see(*(mine(f"high{index}", request=amounts(cpu="4"), priority=9) for index in range(number)))
    simulated.run()
    simulated.see(node("spare", allocatable=amounts(cpu="1", pods="50")))
    simulated.run()
    return simulated


def test_who_waits_for_victims_is_not_tried_again_when_others_are_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = promised(30)
    tries = Calls(monkeypatch, HostSelector, "place")
    for index in range(5):
        simulated.see(mine(f"small{index}", request=amounts(cpu="100m")))
        simulated.run()
        assert tries.since() <= 2
    # Once a victim has left, its room is found.
    simulated.gone(simulated.named("low7"))
    simulated.run()
    assert simulated.placements()[min(name for name in simulated.placements() if name.startswith("high"))] == "n7"


def test_a_promise_is_given_up_when_its_victim_stays_although_nothing_else_happens() -> None:
    simulated = promised(3)
    simulated.run()
    victim = simulated.named("low1")
    simulated.see(replace(victim, terminating=False))
    simulated.tell(EvictRefused(victim.uid, "no"))
    simulated.run()
    kept = {task.node for task in simulated.scheduler.cache.jobs.tasks.values() if task.status.name == "PIPELINED"}
    assert kept == {"n0", "n2"}


def test_a_pod_of_another_scheduler_tries_no_job_again(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = Simulated(load(policy("allocate"), "test"))
    simulated.see(node("n1", allocatable=amounts(cpu="31", pods="500")))
    for index in range(30):
        running = {"owner": f"j{index}", "node": "n1", "phase": Phase.RUNNING}
        simulated.see(mine(f"r{index}", **running), mine(f"p{index}", owner=f"j{index}", request=amounts(cpu="2")))
    simulated.run()
    tries = Calls(monkeypatch, HostSelector, "place")
    orders = Calls(monkeypatch, PluginSet, "job_order")
    simulated.see(pod("tiny", node="n1", request=amounts(cpu="1m")))
    simulated.run()
    assert (tries.since(), orders.since()) == (0, 0)


def calls(work: Callable[[], Any]) -> int:
    """How many functions this work calls, those in C too."""
    number = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return number


def calls_when_a_pod_ends_beside(requests: int) -> int:
    """How many functions are called when a pod ends beside jobs with so many different requests."""
    simulated = Simulated(load(policy("allocate, backfill"), "test"))
    simulated.see(node("n1"), mine("ends", node="n1", request=amounts(cpu="1"), phase=Phase.RUNNING))
    sizes = (amounts(cpu="4", memory=str(2**20 + index)) for index in range(requests))
    simulated.see(mine("runs", node="n1", request=amounts(cpu="1"), phase=Phase.RUNNING))
    simulated.see(*(mine(f"waits{index}", request=size) for index, size in enumerate(sizes)))
    simulated.run()
    assert len(simulated.scheduler.cache.queue.unschedulable) == requests
    ends = simulated.named("ends")

    def end() -> None:
        simulated.gone(ends)
        simulated.run()

    number = calls(end)
    assert not simulated.scheduler.cache.queue.returning
    return number


def test_the_end_of_a_pod_takes_no_call_for_each_request_that_waits() -> None:
    assert calls_when_a_pod_ends_beside(1_000) < calls_when_a_pod_ends_beside(100) + 100


def groups_without_their_claims(number: int) -> Simulated:
    """So many groups that are in, and lack a claim each."""
    simulated = Simulated(load(policy("enqueue, allocate, backfill"), "test"))
    simulated.now = 10.0
    simulated.see(node("n1", allocatable=amounts(cpu="10000", pods="10000")))
    for index in range(number):
        simulated.see(gang(f"g{index}", 1, dialect=VOLCANO, min_resources=TINY))
        simulated.see(mine(f"p{index}", group=f"g{index}", request=TINY, volume_claims=(f"missing{index}",)))
    simulated.run()
    return simulated


def calls_beside_groups_without_their_claims(number: int, *, lapsed: bool) -> int:
    """How many functions a cycle calls for a pod of another scheduler beside so many such groups."""
    simulated = groups_without_their_claims(number)
    assert simulated.scheduler.cache.queue.reserved == {"cpu": number}
    if lapsed:
        simulated.now += CLAIM_SECONDS
        simulated.run()
        assert not any(simulated.scheduler.cache.queue.reserved.values())
    simulated.see(pod("other", node="n1", request=TINY))
    return calls(simulated.run)


def claiming(number: int, *, minimum: int = 0) -> list[Pod]:
    """Members of one job that lack a claim of their own each, of a gang with a least number of one task or of none."""
    marks = (("scheduling.k8s.io/group-name", "g"), ("volcano.sh/task-spec", "worker"))
    like = mine("p", owner="job", request=TINY, annotations=marks if minimum else ())
    return [
        replace(like, uid=f"u{index}", name=f"p{index}", volume_claims=(f"missing{index}",)) for index in range(number)
    ]


def calls_for_members_without_their_claims(number: int, minimum: int) -> int:
    """How many functions are called until none of so many members has found a node."""
    simulated = Simulated(load(policy("allocate, backfill"), "test"))
    simulated.see(node("n1", allocatable=amounts(cpu="10000", pods="10000")))
    if minimum:
        simulated.see(gang("g", minimum, dialect=VOLCANO, min_tasks=(("worker", minimum),)))
    simulated.see(*claiming(number, minimum=minimum))
    called = calls(simulated.run)
    assert not simulated.placements()
    return called


@pytest.mark.parametrize("minimum", [0, 5])
def test_members_with_a_claim_of_their_own_each_cost_the_same_however_many_there_are(minimum: int) -> None:
    few, many = (calls_for_members_without_their_claims(number, minimum) for number in (200, 400))
    assert many < 2.2 * few


def test_pods_that_come_meanwhile_have_no_member_tried_again_that_they_do_not_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulated = Simulated(load(policy("allocate, backfill"), "test"))
    simulated.see(node("n1", allocatable=amounts(cpu="10000", pods="10000")), *claiming(100))
    tries = Calls(monkeypatch, HostSelector, "place")
    for index in range(50):
        simulated.see(mine(f"small{index}", request=TINY))
        for action in simulated.run_once(endless):
            simulated.carry_out(action)
    simulated.run()
    assert len(simulated.placements()) == 50
    assert tries.since() == 100 + 50


@pytest.mark.parametrize("lapsed", [False, True])
def test_no_cycle_looks_through_the_groups_that_lack_a_claim(lapsed: bool) -> None:
    few, many = (calls_beside_groups_without_their_claims(number, lapsed=lapsed) for number in (50, 500))
    assert many < few + 100


def test_what_is_kept_for_many_groups_lapses_in_many_steps() -> None:
    simulated = groups_without_their_claims(500)
    # All jobs are tried again every five minutes: these a second before what is kept for them lapses.
    simulated.now += CLAIM_SECONDS - 1
    simulated.run()
    simulated.now += 1
    left = [500]

    def look() -> bool:
        left.append(simulated.scheduler.cache.queue.reserved["cpu"])
        return False

    simulated.scheduler.decide(simulated.now, look)
    assert left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) <= 10


class Watched(dict[Any, Any]):
    """Counts how often it is iterated."""

    looks = 0

    def items(self) -> Any:
        self.looks += 1
        return super().items()

    def values(self) -> Any:
        self.looks += 1
        return super().values()


def test_nobody_looks_through_the_pods_of_a_job_because_one_of_them_ends() -> None:
    simulated = Simulated(load(policy("allocate"), "test"))
    simulated.see(node("n1"))
    simulated.see(*(mine(f"p{index}", owner="set", labels=((INDEX, str(index)),)) for index in range(500)))
    assert len([action for action in simulated.run() if isinstance(action, PodCondition)]) == 496
    # The first time the reason is another: the queue has all that it deserves.
    simulated.finish(next(iter(simulated.placements())))
    simulated.run()
    (job,) = simulated.scheduler.cache.jobs.by_key.values()
    job.tasks = tasks = Watched(job.tasks)
    for index in range(3):
        simulated.finish(next(iter(simulated.placements())))
        simulated.see(mine(f"new{index}", owner="set", created="2026-01-01T00:00:00Z"))
        actions = simulated.run()
        assert len([action for action in actions if isinstance(action, Bind)]) == 1
        # Only the new pod is told why it waits.
        assert [action.name for action in actions if isinstance(action, PodCondition)] == [f"new{index}"]
    # As often as there were new ones to compare with another.
    assert tasks.looks <= 20


def test_one_pod_of_one_queue_puts_no_other_queue_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = Simulated(load(policy("reclaim, allocate, backfill, preempt"), "test"))
    simulated.see(node("n1", allocatable=amounts(cpu="500", pods="500")))
    simulated.see(*(queue(f"q{index}") for index in range(200)))

    def create(name: str, index: int) -> Pod:
        return replace(mine(name), annotations=(("scheduling.converged.hpc/queue", f"q{index}"),))

    simulated.see(*(create(f"p{index}", index) for index in range(200)))
    simulated.run()
    orders = Calls(monkeypatch, PluginSet, "queue_order")
    simulated.see(create("late", 7))
    simulated.run()
    assert simulated.placements()["late"] == "n1"
    assert orders.since() < 20


def test_who_asks_for_the_queues_has_no_jobs_made(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = Simulated(load(policy("allocate"), "test"))
    simulated.see(queue("above"), queue("a", parent="above"), queue("b", parent="above"))
    simulated.see(node("n1", allocatable=amounts(cpu="5", pods="500")))
    for index in range(8):
        annotations = (("scheduling.converged.hpc/queue", "ab"[index % 2]),)
        simulated.see(replace(mine(f"p{index}", owner="" if index < 6 else "set"), annotations=annotations))
    simulated.run()
    made = Calls(monkeypatch, Job, "__init__")
    found = {report.name: report for report in simulated.scheduler.queues()}
    assert not made.since()
    assert [found[name].running_groups for name in ("a", "b", "above")] == [3, 2, 5]
    assert [found[name].pending_pods for name in ("a", "b", "above")] == [2, 1, 3]
    assert found["above"].pending_groups == found["a"].pending_groups + found["b"].pending_groups


def endless() -> bool:
    return True


def steps(scheduler: Scheduler, expired: Callable[[], bool] = endless) -> int:
    """How many slices it takes until there is nothing more to do."""
    number = 1
    while scheduler.decide(0.0, expired).more:
        number += 1
    return number


def test_a_long_list_is_taken_in_over_several_slices_and_what_comes_after_it_waits() -> None:
    scheduler = Scheduler(load(policy("allocate"), "test"), scheduler_name="placement")
    scheduler.apply(Upserted(node("n1", allocatable=amounts(cpu="1", pods="5000"))))
    pods = [mine(f"p{index}", version=10 + index, node="n1", request=()) for index in range(2000)]
    scheduler.apply(Relisted(Pod, tuple(pods), 5000))
    assert scheduler.under_way
    scheduler.apply(Deleted(Pod, "uid-p1999", 6000))
    assert not scheduler.decide(0.0, endless).actions
    assert 0 < len(scheduler.cluster.pods.by_uid) < 500
    assert steps(scheduler) > 10
    assert not scheduler.under_way
    assert len(scheduler.cluster.pods.by_uid) == len(scheduler.cache.jobs.tasks) == 1999
    # What a later list does not have is gone, and is so in steps as well.
    scheduler.apply(Relisted(Pod, tuple(pods[:600]), 7000))
    assert steps(scheduler) > 10
    assert len(scheduler.cluster.pods.by_uid) == len(scheduler.cache.jobs.tasks) == 600


def test_who_follows_takes_a_long_list_in_step_by_step_too() -> None:
    scheduler = Scheduler(load(policy("allocate"), "test"), scheduler_name="placement")
    pods = [mine(f"p{index}", version=10 + index, node="n1") for index in range(3000)]
    scheduler.apply(Relisted(Pod, tuple(pods), 5000))
    assert scheduler.follow()
    assert 0 < len(scheduler.cluster.pods.by_uid) < 3000
    while scheduler.follow():
        pass
    assert len(scheduler.cache.jobs.tasks) == 3000


def test_a_requirement_that_has_many_values_is_an_index_of_none() -> None:
    values = tuple(f"v{index}" for index in range(100))
    cluster = Cluster()
    cluster.apply(Upserted(node("n1")))
    cluster.apply(Upserted(pod("p", node="n1", labels=pairs(app="v7"))))
    term = near("zone", app="v7")
    selector = LabelSelector((Requirement("app", term.matcher.selector.requirements[0].operator, values),))
    assert sum(cluster.labelsets.count((replace(term.matcher, selector=selector),)).pods.values()) == 1
