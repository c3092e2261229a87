# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""allocate and backfill: who starts where, and what those are told who do not."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from placement.model.messages.action import Bind
from placement.model.objects.workload import COSCHEDULING, UPSTREAM, VOLCANO, Queue
from placement.model.rules.selector import Effect, NodeSelector, Taint
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, gang, mine, node, pairs, pod, priority_class, queue
from placement_kit.simulated import Simulated


def cluster(nodes: int, **more: object) -> Simulated:
    simulated = Simulated()
    simulated.see(*(node(f"n{index}", **more) for index in range(1, nodes + 1)))
    return simulated


def test_a_pod_of_ours_is_bound_and_one_of_another_scheduler_is_not() -> None:
    simulated = cluster(1)
    simulated.see(mine("ours"), pod("theirs"))
    simulated.run()
    assert simulated.placements() == {"ours": "n1"}


def test_pods_of_other_schedulers_count_as_usage() -> None:
    simulated = cluster(1)
    simulated.see(pod("theirs", node="n1", request=amounts(cpu="3500m")), mine("ours"))
    simulated.run()
    assert simulated.placements() == {"theirs": "n1"}
    assert simulated.conditions()["ours"].endswith("0/1 nodes are available: 1 Insufficient cpu")


def test_a_gang_that_does_not_fit_whole_holds_nothing() -> None:
    simulated = cluster(2)
    simulated.see(pod("theirs", node="n2", request=amounts(cpu="4")))
    simulated.see(gang("g", 5), *(mine(f"g{index}", group="g") for index in range(5)))
    simulated.run()
    assert simulated.placements() == {"theirs": "n2"}
    assert simulated.scheduler.cluster.columns.free[0, 0] == 4000
    assert "team/g needs 5 pods placed together, 4 fit" in simulated.conditions()["g0"]
    assert simulated.groups()["g"].reason == "NotEnoughResources"
    simulated.see(mine("small"))
    simulated.run()
    assert simulated.placements() == {"theirs": "n2", "small": "n1"}


def test_members_that_fit_nowhere_are_passed_over_by_others_that_do() -> None:
    simulated = cluster(1)
    large = [mine(f"a{index}", group="g", request=amounts(cpu="5")) for index in range(70)]
    simulated.see(gang("g", 2), *large, *(mine(f"b{index}", group="g") for index in range(3)))
    simulated.run()
    assert set(simulated.placements()) == {"b0", "b1", "b2"}
    assert simulated.conditions()["a0"].endswith(
        "cpu: 5 wanted, all nodes together have 4; 0/1 nodes are available: 1 too small: cpu"
    )


@pytest.mark.parametrize("order", [("later", "never"), ("never", "later")])
def test_a_member_that_can_never_run_keeps_out_none_that_only_lacks_room(order: tuple[str, str]) -> None:
    simulated = cluster(1)
    simulated.see(pod("there", node="n1", request=amounts(cpu="3")), gang("g", 1))
    cores = {"later": "2", "never": "5"}
    for second, name in enumerate(order):
        created = f"2026-01-01T00:00:0{second}Z"
        simulated.see(mine(name, group="g", request=amounts(cpu=cores[name]), created=created))
    simulated.run()
    assert simulated.conditions()["later"] == "0/1 nodes are available: 1 Insufficient cpu"
    simulated.gone(simulated.named("there"))
    simulated.run()
    assert simulated.placements() == {"later": "n1"}
    assert simulated.conditions()["never"].startswith("team/g can never run: cpu: 5 wanted")


def of_many_kinds(number: int) -> Simulated:
    """A job with so many sizes that have no room now, of 2 cores and more, and a younger member that has room."""
    simulated = Simulated()
    simulated.see(node("n1"), node("n2", allocatable=amounts(cpu="1000", memory="8Gi", pods="500")), gang("g", 1))
    simulated.see(pod("p1", node="n1", request=amounts(cpu="3")), pod("p2", node="n2", request=amounts(cpu="999")))
    for size in range(2, number + 2):
        created = f"2026-01-01T00:{size // 60:02}:{size % 60:02}Z"
        simulated.see(mine(f"g{size}", group="g", request=amounts(cpu=str(size)), created=created))
    simulated.see(mine("small", group="g", created="2026-01-01T01:00:00Z"))
    return simulated


@pytest.mark.parametrize("number", [2, 3, 4, 6, 7, 16, 40, 150])
def test_every_kind_of_member_is_tried_however_many_there_are(number: int) -> None:
    simulated = of_many_kinds(number)
    simulated.run()
    assert set(simulated.placements()) == {"p1", "p2", "small"}
    assert set(simulated.conditions().values()) == {"0/2 nodes are available: 2 Insufficient cpu"}


@pytest.mark.parametrize("slices", range(1, 40, 3))
def test_room_that_comes_while_the_kinds_are_tried_is_not_missed(slices: int) -> None:
    simulated = of_many_kinds(30)
    simulated.gone(simulated.named("small"))
    for _unused in range(slices):
        for action in simulated.run_once(lambda: True):
            simulated.carry_out(action)
    simulated.gone(simulated.named("p1"))
    simulated.run()
    assert simulated.placements().keys() - {"p2"} in ({"g2"}, {"g3"}, {"g4"})


def test_a_job_of_many_kinds_gives_the_jobs_behind_it_their_turn() -> None:
    simulated = of_many_kinds(150)
    simulated.see(priority_class("high", 9), gang("g", 1, priority_class="high"), mine("last"))
    bound: list[str] = []
    for _unused in range(1000):
        for action in simulated.run_once():
            bound += [action.name] if isinstance(action, Bind) else []
            simulated.carry_out(action)
    assert bound == ["last", "small"]


def test_a_job_of_several_kinds_takes_no_more_memory_the_more_often_it_is_tried() -> None:
    simulated = of_many_kinds(5)
    simulated.gone(simulated.named("small"))
    simulated.see(mine("behind", request=amounts(cpu="5"), created="2026-01-02T00:00:00Z"))
    for number in range(50):
        simulated.see(node(f"closed{number}", unschedulable=True))
        simulated.run()
    (job,) = (job for job in simulated.scheduler.cache.jobs.by_key.values() if job.key.name == "g")
    assert len(job.waiting) < 100


def test_a_gang_of_which_too_few_members_fit_holds_nothing() -> None:
    simulated = cluster(1)
    simulated.see(gang("g", 3), mine("large", group="g", request=amounts(cpu="5")))
    simulated.see(mine("b0", group="g"), mine("b1", group="g"))
    simulated.run()
    assert simulated.placements() == {}


def test_a_gang_that_can_never_fit_is_told_so_and_tried_again_when_nodes_change() -> None:
    simulated = cluster(1)
    simulated.see(gang("g", 5), *(mine(f"g{index}", group="g") for index in range(5)))
    simulated.run()
    said = simulated.conditions()["g0"]
    assert said.startswith("team/g can never run: spec.minMember is 5; cpu: 5 wanted, all nodes together have 4")
    assert simulated.groups()["g"].reason == "NeverFits"
    simulated.see(node("n2"))
    simulated.run()
    assert len(simulated.placements()) == 5


@pytest.mark.parametrize("first", ["new", "old"])
def test_a_gang_that_could_never_run_is_tried_again_when_the_impossible_member_is_replaced(first: str) -> None:
    simulated = cluster(1)
    simulated.see(gang("g", 2), mine("large", group="g", request=amounts(cpu="5")), mine("b", group="g"))
    simulated.run()
    assert simulated.groups()["g"].reason == "NeverFits"
    steps = [lambda: simulated.see(mine("small", group="g")), lambda: simulated.gone(simulated.named("large"))]
    for step in steps if first == "new" else reversed(steps):
        step()
        simulated.run()
    assert simulated.placements() == {"b": "n1", "small": "n1"}


def test_a_gang_that_could_never_run_is_tried_again_when_a_gated_member_may_go() -> None:
    simulated = cluster(1)
    simulated.see(gang("g", 2), mine("large", group="g", request=amounts(cpu="5")), mine("b", group="g"))
    simulated.see(mine("small", group="g", gated=True))
    simulated.run()
    assert simulated.groups()["g"].reason == "NeverFits"
    simulated.see(replace(simulated.named("small"), gated=False))
    simulated.run()
    assert simulated.placements() == {"b": "n1", "small": "n1"}


@pytest.mark.parametrize(
    ("members", "reason"),
    [(0, "spec.minMember: 0 is not a number of pods from 1"), (-3, "spec.minMember: -3"), (2**40, "spec.minMember: ")],
)
def test_an_impossible_size_is_told_and_the_others_go_on(members: int, reason: str) -> None:
    simulated = cluster(1)
    simulated.see(gang("g", members), mine("g0", group="g"), mine("other"))
    simulated.run()
    assert simulated.placements() == {"other": "n1"}
    assert simulated.conditions()["g0"].startswith(reason)
    assert simulated.groups()["g"].message.startswith(reason)


@pytest.mark.parametrize(
    ("queues", "reason"),
    [
        ((), "spec.queue: there is no queue 'q'"),
        ((queue("q", is_open=False),), "spec.queue: queue q is closed"),
        ((queue("q", namespaces=frozenset({"x"})),), "spec.queue: queue q does not admit namespace team"),
        ((queue("q", weight=0),), "spec.queue: queue q cannot be used: spec.weight: 0 is not a positive integer"),
        ((queue("q", parent="p"),), "spec.queue: queue q cannot be used: spec.parent: there is no queue 'p'"),
        ((queue("q", parent="q"),), "spec.queue: queue q cannot be used: spec.parent: the queues form a circle"),
        ((queue("q"), queue("r", parent="q")), "spec.queue: queue q has queues below it"),
        (
            (queue("q", capability=amounts(cpu="1"), guarantee=amounts(cpu="2")),),
            "spec.queue: queue q cannot be used: spec.guarantee: cpu is more than the capability",
        ),
    ],
)
def test_a_queue_that_cannot_be_used_is_told_and_the_others_go_on(queues: tuple[Queue, ...], reason: str) -> None:
    simulated = cluster(1)
    simulated.see(*queues, gang("g", 1, queue="q"), mine("g0", group="g"), mine("other"))
    simulated.run()
    assert simulated.placements() == {"other": "n1"}
    assert simulated.conditions()["g0"].startswith(reason)


def test_a_group_of_two_schedulers_and_one_that_does_not_exist_are_told() -> None:
    simulated = cluster(1)
    marks = (("scheduling.k8s.io/group-name", "g"),)
    simulated.see(gang("g", 1), mine("g0", group="g"), pod("g1", annotations=marks), mine("h0", group="h"))
    simulated.see(gang("h", 1, namespace="elsewhere"))
    simulated.run()
    assert simulated.placements() == {}
    assert simulated.conditions()["g0"] == "1 pods of the group name another scheduler; a group needs one"
    assert simulated.conditions()["h0"] == "there is no PodGroup team/h"


def test_what_is_not_supported_is_refused_in_words() -> None:
    simulated = cluster(1)
    simulated.see(mine("p", unsupported=("spec.resourceClaims (dynamic resource allocation)",)))
    simulated.run()
    assert simulated.conditions()["p"] == "not supported: spec.resourceClaims (dynamic resource allocation)"


def test_enqueue_lets_groups_in_when_their_least_is_free() -> None:
    simulated = Simulated(load('actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n', "test"))
    simulated.see(node("n1"), gang("g", 1, min_resources=amounts(cpu="6")), mine("g0", group="g"), mine("other"))
    simulated.run()
    assert simulated.placements() == {"other": "n1"}
    assert simulated.conditions()["g0"].startswith("minResources of team/g are not free")
    simulated.see(node("n2"))
    simulated.run()
    assert "g0" in simulated.placements()


def test_a_gang_starts_when_room_for_all_of_it_appears() -> None:
    simulated = cluster(1)
    simulated.see(gang("g", 5), *(mine(f"g{index}", group="g") for index in range(5)))
    simulated.run()
    simulated.see(node("n2"))
    simulated.run()
    assert len(simulated.placements()) == 5
    simulated.now += 2
    simulated.run()
    assert simulated.groups()["g"].scheduled


def test_members_beyond_the_minimum_start_as_far_as_they_fit() -> None:
    simulated = cluster(1)
    simulated.see(gang("g", 2), *(mine(f"g{index}", group="g") for index in range(6)))
    simulated.run()
    assert len(simulated.placements()) == 4


def test_a_gang_waits_until_it_has_enough_members() -> None:
    simulated = cluster(1)
    simulated.see(gang("g", 3), mine("g0", group="g"), mine("g1", group="g"))
    simulated.run()
    assert simulated.placements() == {}
    simulated.now += 1
    simulated.run()
    assert simulated.conditions()["g0"] == "team/g needs 3 pods, 2 can be scheduled"
    simulated.see(mine("g2", group="g"))
    simulated.run()
    assert len(simulated.placements()) == 3


def test_gated_members_do_not_count() -> None:
    simulated = cluster(1)
    simulated.see(gang("g", 2), mine("g0", group="g"), mine("g1", group="g", gated=True))
    simulated.run()
    assert simulated.placements() == {}


def test_pods_of_one_controller_start_one_by_one() -> None:
    simulated = cluster(1)
    simulated.see(*(mine(f"r{index}", owner="replicaset") for index in range(6)))
    simulated.run()
    assert len(simulated.placements()) == 4


@pytest.mark.parametrize(
    ("dialect", "member"),
    [
        (UPSTREAM, {"scheduling_group": "g"}),
        (VOLCANO, {"annotations": (("scheduling.volcano.sh/group-name", "g"),)}),
        (VOLCANO, {"annotations": (("scheduling.k8s.io/group-name", "g"),)}),
        (COSCHEDULING, {"labels": pairs(**{"scheduling.x-k8s.io/pod-group": "g"})}),
    ],
)
def test_groups_of_every_dialect_are_gangs(dialect: str, member: dict[str, object]) -> None:
    simulated = cluster(1)
    simulated.see(gang("g", 5, dialect=dialect), *(mine(f"g{index}", **member) for index in range(5)))
    simulated.run()
    assert simulated.placements() == {}
    simulated.see(node("n2"))
    simulated.run()
    assert len(simulated.placements()) == 5


def test_the_first_dialect_in_the_stated_order_counts() -> None:
    simulated = cluster(1)
    simulated.see(gang("g", 5, dialect=VOLCANO))
    simulated.see(replace(gang("g", 1), uid="other"))
    simulated.see(mine("g0", group="g"))
    simulated.run()
    assert simulated.placements() == {"g0": "n1"}


def test_a_group_can_be_written_in_annotations_alone() -> None:
    simulated = cluster(1)
    marks = (("scheduling.k8s.io/group-min-member", "2"), ("scheduling.k8s.io/group-name", "g"))
    simulated.see(mine("g0", annotations=marks))
    simulated.run()
    assert simulated.placements() == {}
    simulated.see(mine("g1", annotations=marks))
    simulated.run()
    assert len(simulated.placements()) == 2


def test_higher_priority_goes_first() -> None:
    simulated = cluster(1)
    simulated.see(priority_class("high", 100), gang("low", 1), gang("high", 1, priority_class="high"))
    simulated.see(*(mine(f"low{index}", group="low") for index in range(4)))
    simulated.see(*(mine(f"high{index}", group="high") for index in range(4)))
    simulated.run()
    assert sorted(simulated.placements()) == ["high0", "high1", "high2", "high3"]


def test_within_a_job_higher_priority_goes_first() -> None:
    simulated = cluster(1)
    simulated.see(gang("g", 1))
    simulated.see(*(mine(f"worker{index}", group="g") for index in range(4)))
    simulated.see(mine("master", group="g", priority=10, request=amounts(cpu="2")))
    simulated.run()
    assert "master" in simulated.placements()


def test_jobs_of_one_queue_share_by_dominant_resource() -> None:
    simulated = cluster(2)
    for name in ("a", "b"):
        simulated.see(gang(name, 1), *(mine(f"{name}{index}", group=name) for index in range(8)))
    simulated.run()
    placed = list(simulated.placements())
    assert (len([p for p in placed if p[0] == "a"]), len([p for p in placed if p[0] == "b"])) == (4, 4)


def test_queues_share_by_weight() -> None:
    simulated = cluster(2)
    simulated.see(queue("q1", weight=1), queue("q3", weight=3))
    for name in ("q1", "q3"):
        simulated.see(gang(name, 1, queue=name), *(mine(f"{name}-{index}", group=name) for index in range(8)))
    simulated.run()
    placed = list(simulated.placements())
    assert (len([p for p in placed if p[:2] == "q1"]), len([p for p in placed if p[:2] == "q3"])) == (2, 6)


def test_what_one_queue_does_not_ask_for_goes_to_the_other() -> None:
    simulated = cluster(2)
    simulated.see(queue("q1", weight=1), queue("q3", weight=3), gang("g", 1, queue="q1"))
    simulated.see(*(mine(f"g{index}", group="g") for index in range(8)))
    simulated.run()
    assert len(simulated.placements()) == 8


def test_capability_binds_at_every_level() -> None:
    simulated = cluster(2)
    simulated.see(queue("top", capability=amounts(cpu="3")), queue("leaf", parent="top"), gang("g", 1, queue="leaf"))
    simulated.see(*(mine(f"g{index}", group="g") for index in range(8)))
    simulated.run()
    assert len(simulated.placements()) == 3


def test_a_gang_beyond_the_capability_is_told_the_rule() -> None:
    simulated = cluster(2)
    simulated.see(queue("q", capability=amounts(pods="2")), gang("g", 3, queue="q"))
    simulated.see(*(mine(f"g{index}", group="g") for index in range(3)))
    simulated.run()
    assert simulated.placements() == {}
    assert "capability of queue q: pods 3 wanted, 0 of 2 in use" in simulated.conditions()["g0"]


def test_a_guarantee_is_kept_free_for_its_queue() -> None:
    simulated = cluster(1)
    simulated.see(queue("owner", guarantee=amounts(cpu="2")), queue("other"))
    simulated.see(gang("a", 1, queue="other"), *(mine(f"a{index}", group="a") for index in range(4)))
    simulated.run()
    assert len(simulated.placements()) == 2
    simulated.see(gang("b", 1, queue="owner"), *(mine(f"b{index}", group="b") for index in range(2)))
    simulated.run()
    assert len(simulated.placements()) == 4


def test_siblings_divide_what_their_parent_deserves() -> None:
    simulated = cluster(2)
    simulated.see(queue("dept1"), queue("dept2"), queue("a", parent="dept1"), queue("b", parent="dept1"))
    for name, where in (("a", "a"), ("b", "b"), ("c", "dept2")):
        simulated.see(gang(name, 1, queue=where), *(mine(f"{name}{index}", group=name) for index in range(8)))
    simulated.run()
    placed = [name[0] for name in simulated.placements()]
    assert {name: placed.count(name) for name in "abc"} == {"a": 2, "b": 2, "c": 4}


def test_pods_without_requests_are_told_that_nothing_is_backfilled() -> None:
    simulated = Simulated(load('actions: "allocate"\ntiers:\n- plugins: [{name: gang}, {name: proportion}]\n', "x"))
    simulated.see(node("n1"), mine("idle", request=()), mine("p"))
    simulated.run()
    assert list(simulated.placements()) == ["p"]
    assert simulated.conditions()["idle"].startswith("it requests nothing, and `backfill`, which places such pods")


def test_pods_without_requests_are_backfilled_onto_full_nodes() -> None:
    simulated = cluster(1)
    simulated.see(*(mine(f"p{index}") for index in range(4)), mine("idle", request=()))
    simulated.run()
    assert "idle" in simulated.placements()


def test_predicates_of_the_node_are_told_apart() -> None:
    simulated = Simulated()
    simulated.see(
        node("held", held_by="slurm/7"),
        node("tainted", taints=(Taint("gpu", "", Effect.NO_SCHEDULE),)),
        node("cordoned", unschedulable=True),
        node("elsewhere", labels=pairs(zone="b")),
        node("small", labels=pairs(zone="a"), allocatable=amounts(cpu="1", pods="10")),
        node("full", labels=pairs(zone="a")),
        pod("other", node="full", request=amounts(cpu="4")),
    )
    simulated.see(mine("p", request=amounts(cpu="2"), selector=NodeSelector(pairs(zone="a"))))
    simulated.run()
    message = simulated.conditions()["p"]
    assert "0/6 nodes are available" in message
    for reason in (
        "1 held by batch jobs",
        "1 with untolerated taint {gpu:NoSchedule}",
        "1 unschedulable",
        "1 not matched by node selector or node affinity",
        "1 too small: cpu",
        "1 Insufficient cpu",
    ):
        assert reason in message


def test_the_same_reason_is_told_once() -> None:
    simulated = cluster(1)
    simulated.see(mine("big", request=amounts(cpu="8")))
    simulated.run()
    said = len([action for action in simulated.actions if getattr(action, "name", "") == "big"])
    simulated.see(node("n2"), pod("other", node="n1"))
    simulated.run()
    assert said == len([action for action in simulated.actions if getattr(action, "name", "") == "big"]) == 1


def test_nothing_is_decided_twice_while_the_answer_is_out() -> None:
    simulated = cluster(1)
    simulated.see(mine("p"))
    first = simulated.run_once()
    assert [type(action) for action in first] == [Bind]
    simulated.see(node("n2"))
    assert simulated.run_once() == []


def test_a_smaller_member_that_comes_later_is_tried_although_nothing_else_has_changed() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), mine("there", owner="set", request=amounts(cpu="3"), node="n1"))
    simulated.see(mine("large", owner="set", request=amounts(cpu="2")))
    simulated.run()
    simulated.see(mine("small", owner="set"))
    simulated.run()
    assert simulated.placements() == {"there": "n1", "small": "n1"}


def test_a_gang_whose_pods_come_one_by_one_is_not_told_that_they_are_too_few() -> None:
    simulated = cluster(1)
    simulated.see(gang("g", 4))
    for index in range(4):
        simulated.see(mine(f"g{index}", group="g"))
        simulated.run()
        simulated.now += 0.9
        simulated.run()
    assert len(simulated.placements()) == 4
    assert simulated.conditions() == {}


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.sampled_from("ab"), st.booleans()), max_size=20))
def test_enqueue_lets_in_in_order_whom_there_is_room_for(groups: list[tuple[int, int, str, bool]]) -> None:
    free, most = 8, {"a": 2, "b": 100}
    simulated = Simulated(
        load('actions: "enqueue, allocate"\ntiers:\n- plugins: [{name: priority}, {name: gang}]', "t")
    )
    simulated.see(queue("a", capability=amounts(cpu="2")), queue("b"))
    simulated.see(*(priority_class(f"p{value}", value) for value in range(3)))
    # All of it is in pieces, so nobody who is let in can begin.
    for index in range(free):
        simulated.see(node(f"n{index}"), pod(f"f{index}", node=f"n{index}", request=amounts(cpu="3")))
    names: list[str] = []
    outside: list[tuple[int, str, int, str]] = []
    let_in: set[str] = set()
    for index, (asked, priority, where, last) in enumerate(groups):
        name = f"g{index:02}"
        names.append(name)
        least = amounts(cpu=str(asked))
        simulated.see(gang(name, 1, queue=where, priority_class=f"p{priority}", min_resources=least))
        simulated.see(mine(name, group=name, priority=priority, request=amounts(cpu="4")))
        outside.append((-priority, name, asked, where))
        if last or index == len(groups) - 1:
            simulated.run()
            for place in sorted(outside):
                _order, name, asked, where = place
                # Capabilities bind what is held, and nobody holds anything.
                if asked <= min(free, most[where]):
                    free -= asked
                    let_in.add(name)
                    outside.remove(place)
    jobs = simulated.scheduler.cache.jobs.by_key
    assert {key.name for key, job in jobs.items() if job.inqueue} == let_in
    assert {key.name for key in simulated.scheduler.cache.queue.gated} == set(names) - let_in
