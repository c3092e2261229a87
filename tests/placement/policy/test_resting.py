# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes whose kubelet rejects what was bound to them: how long they are left alone, and what pods are told."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from placement.model.messages.action import Evict, Release
from placement.model.objects.pod import Phase
from placement.policy.plugins.configuration import load
from placement_kit.backed import Backed
from placement_kit.builders import amounts, gang, mine, node
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated


def reject(simulated: Simulated, *names: str) -> None:
    for name in names:
        simulated.see(replace(simulated.named(name), phase=Phase.FAILED, rejected=True))


def test_a_node_that_keeps_rejecting_pods_is_tried_after_longer_and_longer() -> None:
    simulated = Simulated()
    simulated.see(node("n1"))
    tried = []
    for number in range(5):
        simulated.see(mine(f"p{number}"))
        while f"p{number}" not in simulated.placements():
            simulated.run()
            simulated.now += 0.5
        tried.append(simulated.now - 0.5)
        reject(simulated, f"p{number}")
    assert [round(after - before) for before, after in pairwise(tried)] == [5, 10, 20, 40]


def test_a_node_that_has_been_good_for_as_long_as_it_rested_starts_afresh() -> None:
    simulated = Simulated()
    simulated.see(node("n1"))
    for number in range(2):
        simulated.see(mine(f"p{number}"))
        simulated.run()
        reject(simulated, f"p{number}")
        simulated.now += 11
    simulated.see(mine("last"))
    simulated.run()
    assert simulated.placements() == {"last": "n1"}


def test_what_waits_for_a_resting_node_is_told_so_and_others_go_elsewhere() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), mine("p"))
    simulated.run()
    reject(simulated, "p")
    simulated.see(mine("next"))
    simulated.run()
    assert simulated.conditions()["next"] == "0/1 nodes are available: 1 that turned pods away a moment ago"
    simulated.see(node("n2"))
    simulated.run()
    assert simulated.placements() == {"next": "n2"}


def test_a_gang_is_formed_again_by_the_successor_of_a_rejected_member() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), node("n2"), gang("g", 3), *(mine(f"g{index}", group="g") for index in range(3)))
    simulated.run()
    lost = simulated.placements()["g0"]
    reject(simulated, "g0")
    simulated.see(mine("again", group="g"))
    simulated.run()
    other = {"n1": "n2", "n2": "n1"}[lost]
    assert simulated.placements()["again"] == other
    assert len(simulated.placements()) == 3


def test_a_pod_that_had_failed_before_the_daemon_came_says_nothing_of_its_node() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), mine("old", node="n1", phase=Phase.FAILED, rejected=True), mine("new"))
    simulated.run()
    assert simulated.placements() == {"new": "n1"}


@pytest.mark.parametrize("request_of_it", [amounts(cpu="5"), amounts(nvlink="1")])
def test_a_pod_whose_owner_put_it_where_it_does_not_fit_says_nothing_of_its_node(request_of_it) -> None:
    simulated = Simulated()
    simulated.see(node("n1"), mine("own", node="n1", request=request_of_it))
    simulated.run()
    reject(simulated, "own")
    simulated.see(mine("next"))
    simulated.run()
    assert simulated.placements() == {"next": "n1"}


def test_room_that_others_were_evicted_for_is_kept_while_its_node_rests() -> None:
    simulated = Simulated(load(policy("allocate, preempt"), "test"))
    large = {"request": amounts(cpu="3"), "phase": Phase.RUNNING}
    simulated.see(node("n1"), mine("low", node="n1", **large), mine("bad"))
    simulated.run()
    simulated.see(node("n2"), mine("dearer", node="n2", priority=5, **large))
    simulated.see(mine("high", priority=10, request=amounts(cpu="3")))
    (evict,) = [action for action in simulated.run_once() if isinstance(action, Evict)]
    reject(simulated, "bad")
    simulated.run()
    simulated.carry_out(evict)
    simulated.run()
    simulated.now = 6.0
    simulated.run()
    assert simulated.placements() == {"high": "n1", "dearer": "n2"}


def unsuited(simulated: Simulated, *names: str) -> None:
    """The kubelet cannot lay out what these ask for."""
    for name in names:
        simulated.see(replace(simulated.named(name), phase=Phase.FAILED, rejected=True, unsuited=True))


def sockets() -> Simulated:
    """Two nodes, of which the first is the better one for every pod."""
    simulated = Simulated()
    simulated.once_bound = Phase.PENDING
    for name, cores in (("n1", "64"), ("n2", "63")):
        simulated.see(node(name, allocatable=amounts(cpu=cores, memory="256Gi", pods="110")))
    return simulated


LARGE = amounts(cpu="40")


def test_the_next_pod_of_a_job_goes_to_another_node_when_a_kubelet_cannot_lay_one_out() -> None:
    simulated = sockets()
    seen = []
    for number in range(20):
        name = f"try{number}"
        simulated.see(mine(name, owner="job-1", request=LARGE))
        simulated.run()
        seen.append(simulated.named(name).node)
        if seen[-1] == "n2":
            break
        unsuited(simulated, name)
        simulated.now += 1
    assert seen == ["n1", "n2"]


def test_a_node_that_cannot_lay_out_some_pods_is_open_to_others() -> None:
    simulated = sockets()
    simulated.see(mine("first", request=LARGE))
    simulated.run()
    unsuited(simulated, "first")
    simulated.see(
        mine("smaller", request=amounts(cpu="20")),
        mine("elsewhere", namespace="others", request=LARGE),
        mine("like-it", request=LARGE),
    )
    simulated.run()
    assert simulated.placements() == {"smaller": "n1", "elsewhere": "n1", "like-it": "n2"}


def test_pods_that_no_node_can_lay_out_are_told_so_and_tried_again_later() -> None:
    simulated = sockets()
    for name in ("a", "b"):
        simulated.see(mine(name, request=LARGE))
        simulated.run()
        unsuited(simulated, name)
    simulated.see(*(mine(f"next{index}", request=LARGE) for index in range(2)))
    simulated.run()
    told = "0/2 nodes are available: 2 that turned pods like this away a moment ago"
    assert simulated.conditions() == {"next0": told, "next1": told}
    simulated.now += 5
    simulated.run()
    assert sorted(simulated.placements().values()) == ["n1", "n2"]


# The node rests for all pods, and for such pods.
@pytest.mark.parametrize("turn_away", [reject, unsuited])
def test_a_job_of_the_batch_system_is_kept_while_its_node_rests(turn_away: Callable[..., None]) -> None:
    site = Backed()
    site.see(site.pod("p1"))
    site.settle()
    turn_away(site, "p1")
    site.gone(site.named("p1"))
    site.see(site.pod("next"))
    site.settle(seconds=4)
    assert "turned pods away a moment ago" in site.conditions()["next"]
    site.settle(seconds=4)
    assert site.placements() == {"next": "n1"}
    assert "uid-next" not in [action.uid for action in site.actions if isinstance(action, Release)]
