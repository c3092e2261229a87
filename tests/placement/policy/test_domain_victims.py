# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Victims for a gang that must be within one rack: all in one, the cheapest, and only where the gang fits then."""

from dataclasses import dataclass, replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from placement.model.messages.action import Evict
from placement.model.messages.event import EvictRefused
from placement.model.rules.topology import TopologyRequest
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, budget, gang, mine, pod, priority_class, queue
from placement_kit.racks import RACK, Site

PREEMPTING = load('actions: "allocate, preempt"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n', "t")
RECLAIMING = load('actions: "allocate, reclaim"\ntiers:\n- plugins:\n  - name: gang\n  - name: proportion\n', "t")


def site_of(*sizes: int, configuration: object = PREEMPTING) -> Site:
    made = Site(*sizes, configuration=configuration)
    made.see(priority_class("high", 10))
    return made


def low(site: Site, *nodes: str, cores: int = 4, priority: int = 0) -> None:
    """Make pods of this scheduler that a gang of the class `high` may evict."""
    for name in nodes:
        site.see(mine(f"low-{name}", node=name, request=amounts(cpu=str(cores)), priority=priority))


def left(site: Site) -> set[str]:
    """Return the names of the pods of low priority that are still there."""
    return {item.name for item in site.pods.values() if item.name.startswith("low")}


def test_victims_of_a_gang_that_needs_a_rack_are_in_one_rack() -> None:
    site = site_of(2, 2)
    low(site, "r0n0", "r1n0", "r1n1")
    site.ask("g", 2, RACK, priority_class="high")
    site.run()
    assert site.where("g") == {"r0": 2}
    assert left(site) == {"low-r1n0", "low-r1n1"}
    assert site.drift() == []


def test_nothing_is_evicted_where_no_rack_could_hold_the_gang() -> None:
    site = site_of(2, 2)
    low(site, "r0n0", "r1n0")
    site.fill("r0n1", "r1n1")
    site.ask("g", 2, RACK, priority_class="high")
    decided = site.run()
    assert not any(isinstance(action, Evict) for action in decided)
    assert not site.where("g")


def test_the_rack_whose_victims_have_low_priority_is_cleared_though_they_are_more() -> None:
    site = site_of(2, 2)
    low(site, "r0n0", priority=5)
    low(site, "r1n0", "r1n1")
    site.ask("g", 2, RACK, priority_class="high")
    site.run()
    assert left(site) == {"low-r0n0"}


def test_a_pod_that_may_not_leave_keeps_its_rack_from_being_cleared() -> None:
    site = site_of(2, 2)
    low(site, "r0n0", priority=10)
    low(site, "r1n0", "r1n1")
    site.ask("g", 2, RACK, priority_class="high")
    site.run()
    assert left(site) == {"low-r0n0"}
    assert site.where("g") == {"r1": 2}


def test_a_gang_that_would_be_broken_leaves_as_a_whole_and_counts_so() -> None:
    site = site_of(2, 2, 2)
    site.see(gang("old", 3))
    for name in ("r0n0", "r1n0", "r1n1"):
        site.see(mine(f"low-{name}", group="old", node=name, request=amounts(cpu="4")))
    low(site, "r2n0", "r2n1")
    site.ask("g", 2, RACK, priority_class="high")
    site.run()
    assert left(site) == {"low-r0n0", "low-r1n0", "low-r1n1"}


def test_a_rack_within_the_disruption_budgets_is_preferred() -> None:
    site = site_of(1, 2)
    site.see(budget("b", allowed=0, app="kept"))
    site.see(mine("low-r0n0", node="r0n0", request=amounts(cpu="4"), labels=(("app", "kept"),)))
    low(site, "r1n0", "r1n1")
    site.ask("g", 1, RACK, priority_class="high")
    site.run()
    assert "low-r0n0" in left(site)
    assert site.where("g") == {"r1": 1}


@pytest.mark.parametrize("proxies", [False, True])
def test_whole_nodes_are_cleared_for_a_group_that_asks_for_them(proxies: bool) -> None:
    site = site_of(2)
    for name in site.racks if proxies else ():
        site.see(pod(f"proxy-{name}", node=name, daemon=True, request=amounts(cpu="100m")))
    low(site, "r0n0", "r0n1", cores=1)
    site.ask("g", 1, TopologyRequest(exclusive=True), cores=1, priority_class="high")
    site.run()
    assert len(left(site)) == 1
    assert sum(site.where("g").values()) == 1


def test_so_many_nodes_are_cleared_as_a_number_of_pods_on_each_needs() -> None:
    site = site_of(3)
    low(site, "r0n0", "r0n1", "r0n2", cores=3)
    site.ask("g", 4, replace(RACK, per_node=2), cores=1, priority_class="high")
    site.run()
    assert len(left(site)) == 1
    assert len({item.node for item in site.of("g")}) == 2


def test_a_member_that_is_made_again_evicts_only_in_the_rack_of_the_others() -> None:
    site = site_of(2, 2)
    site.ask("g", 2, RACK, priority_class="high")
    site.run()
    site.gone(site.named("g-1"))
    there = next(item.node for item in site.of("g") if item.node)
    (other,) = {"r0n0", "r0n1"} - {there}
    low(site, other, "r1n0", "r1n1", priority=1)
    site.members("g", range(2, 3))
    site.run()
    assert site.where("g") == {"r0": 2}
    assert left(site) == {"low-r1n0", "low-r1n1"}


def test_a_preferred_rack_is_no_reason_to_evict_more_than_a_gang_needs_anywhere() -> None:
    site = site_of(2, 2)
    low(site, "r0n0", "r1n0", "r1n1")
    site.ask("g", 1, TopologyRequest(preferred=("rack",)), priority_class="high")
    decided = site.run()
    assert not any(isinstance(action, Evict) for action in decided)


def test_another_rack_is_cleared_where_the_api_refuses_an_eviction() -> None:
    site = site_of(1, 1)
    low(site, "r0n0", "r1n0")
    site.ask("g", 1, RACK, priority_class="high")
    evict = next(action for action in site.run_once() if isinstance(action, Evict))
    site.tell(EvictRefused(evict.uid, "it may not be evicted"))
    site.now += 1
    site.run()
    assert left(site) == {f"low-{evict.name.removeprefix('low-')}"}
    assert sum(site.where("g").values()) == 1


def test_reclaim_takes_back_one_rack_from_another_queue() -> None:
    site = site_of(2, 2, configuration=RECLAIMING)
    site.see(queue("other"))
    for name in site.racks:
        site.see(gang(f"one-{name}", 1), mine(f"low-{name}", group=f"one-{name}", node=name, request=amounts(cpu="4")))
    site.ask("g", 2, RACK, queue="other")
    site.run()
    assert sorted(site.where("g").values()) == [2]
    assert len(left(site)) == 2


@dataclass(frozen=True)
class Drawn:
    """Pods on each node of each rack, by cores and priority; and the gang that comes."""

    racks: tuple[tuple[tuple[tuple[int, int], ...], ...], ...]
    number: int
    cores: int


@st.composite
def clusters(draw: st.DrawFn, sizes: tuple[int, ...]) -> Drawn:
    racks = []
    for _rack in range(draw(st.integers(1, 3))):
        nodes = []
        for _node in range(draw(st.integers(1, 3))):
            pods, used = [], 0
            for size, priority in draw(
                st.lists(st.tuples(st.sampled_from(sizes), st.sampled_from([1, 2, 9])), max_size=3)
            ):
                if used + size <= 4:
                    pods.append((size, priority))
                    used += size
            nodes.append(tuple(pods))
        racks.append(tuple(nodes))
    return Drawn(tuple(racks), draw(st.integers(1, 3)), draw(st.sampled_from(sizes)))


def fits(drawn: Drawn, rack: int, gone: set[tuple[int, int]]) -> bool:
    """Return whether the gang fits into the rack without these pods, each named by its node and its place there."""
    slots = 0
    for index, pods in enumerate(drawn.racks[rack]):
        used = sum(size for place, (size, _priority) in enumerate(pods) if (index, place) not in gone)
        slots += (4 - used) // drawn.cores
    return slots >= drawn.number


def cheapest(drawn: Drawn) -> tuple[int, int] | None:
    """Return the highest priority and the number of the cheapest victims, by trying all sets of each rack."""
    found: list[tuple[int, int]] = []
    for rack, nodes in enumerate(drawn.racks):
        lesser = [
            (index, place, priority)
            for index, pods in enumerate(nodes)
            for place, (_size, priority) in enumerate(pods)
            if priority < 5
        ]
        for number in range(len(lesser) + 1):
            for chosen in combinations(lesser, number):
                if fits(drawn, rack, {(index, place) for index, place, _priority in chosen}):
                    found.append((max((priority for *_place, priority in chosen), default=-1), number))
    return min(found, default=None)


def played(drawn: Drawn) -> tuple[Site, list[str]]:
    """Return the site after the gang has come, and which pods were evicted."""
    site = Site(*(len(nodes) for nodes in drawn.racks), configuration=PREEMPTING)
    site.see(priority_class("middle", 5))
    for rack, nodes in enumerate(drawn.racks):
        for index, pods in enumerate(nodes):
            for place, (size, priority) in enumerate(pods):
                name = f"low-r{rack}n{index}-{place}"
                site.see(mine(name, node=f"r{rack}n{index}", request=amounts(cpu=str(size)), priority=priority))
    site.ask("g", drawn.number, RACK, cores=drawn.cores, priority_class="middle")
    return site, [action.name for action in site.run() if isinstance(action, Evict)]


def check(drawn: Drawn) -> tuple[int, int] | None:
    """Check what does not depend on sizes; return what the victims cost."""
    best = cheapest(drawn)
    site, evicted = played(drawn)
    if best is None:
        assert not evicted
        assert not site.where("g")
        return None
    assert list(site.where("g").values()) == [drawn.number]
    (rack,) = site.where("g")
    victims = {
        (index, place): priority
        for index, pods in enumerate(drawn.racks[int(rack[1:])])
        for place, (_size, priority) in enumerate(pods)
        if f"low-{rack}n{index}-{place}" in evicted
    }
    assert len(victims) == len(evicted), "a pod of another rack was evicted"
    for victim in victims:
        assert not fits(drawn, int(rack[1:]), set(victims) - {victim}), "a pod was evicted for nothing"
    cost = (max(victims.values(), default=-1), len(victims))
    assert cost[0] == best[0]
    return cost


@given(clusters((1, 2, 4)))
def test_victims_are_in_one_rack_of_the_lowest_priority_and_none_is_in_vain(drawn: Drawn) -> None:
    check(drawn)


@pytest.mark.parametrize("cores", [2, 4])
@given(data=st.data())
def test_the_cheapest_rack_is_cleared_where_pods_are_of_one_size(cores: int, data: st.DataObject) -> None:
    drawn = data.draw(clusters((cores,)))
    assert check(drawn) == cheapest(drawn)
