# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gang of unlike members does not wait because those that came first took the only nodes of the others."""

from itertools import permutations

import pytest
from placement.model.objects.node import Node
from placement.model.objects.pod import Phase, Pod
from placement_kit.builders import amounts, gang, mine, near, node, pairs
from placement_kit.simulated import Simulated


def site(*members: Pod, minimum: int) -> Simulated:
    simulated = Simulated()
    simulated.see(gang("g", minimum), *members)
    return simulated


def zoned(name: str, zone: str, cpu: str = "4", **more: str) -> Node:
    return node(name, labels=pairs(zone=zone), allocatable=amounts(cpu=cpu, memory="8Gi", **{"pods": "10"} | more))


def member(name: str, cpu: str = "1", **more: object) -> Pod:
    return mine(name, group="g", request=amounts(cpu=cpu), **more)


@pytest.mark.parametrize("first", ["web", "db"])
def test_members_that_may_not_be_near_each_other_are_placed_whichever_comes_first(first: str) -> None:
    apart = {"anti_affinity": (near("zone", app="db"),)}
    web, db = (
        member(name, labels=pairs(app=name), priority=5 if name == first else 0, **apart) for name in ("web", "db")
    )
    simulated = site(web, db, minimum=2)
    # No database may go to zone a, where nodes have as much room.
    other = mine("other", node="n0", phase=Phase.RUNNING, labels=pairs(app="web"), **apart)
    simulated.see(zoned("n0", "a", "1"), zoned("n1", "b"), zoned("n2", "a"), other)
    simulated.run()
    assert simulated.placements() == {"other": "n0", "db": "n1", "web": "n2"}


@pytest.mark.parametrize("launcher", [0, 5])
def test_a_small_launcher_does_not_take_the_node_of_a_worker(launcher: int) -> None:
    workers = [member(f"worker{index}", "4") for index in range(3)]
    simulated = site(member("launcher", priority=launcher), *workers, minimum=4)
    simulated.see(zoned("small", "a", "2"), *(zoned(f"large{index}", "a") for index in range(3)))
    simulated.run()
    assert simulated.placements()["launcher"] == "small"
    assert len(simulated.placements()) == 4


@pytest.mark.parametrize("order", list(permutations([("launcher", "1"), ("server", "4"), ("worker", "8")])))
def test_a_gang_of_three_kinds_fits_whichever_comes_first(order: tuple[tuple[str, str], ...]) -> None:
    members = [member(name, cpu, priority=9 - place) for place, (name, cpu) in enumerate(order)]
    simulated = site(*members, minimum=3)
    simulated.see(*(zoned(name, "a", cpu) for name, cpu in (("small", "2"), ("middle", "4"), ("large", "8"))))
    simulated.run()
    assert simulated.placements() == {"launcher": "small", "server": "middle", "worker": "large"}


def test_several_members_of_the_last_of_three_kinds_find_their_nodes() -> None:
    workers = [member(f"worker{index}", "32") for index in range(2)]
    simulated = site(member("launcher", priority=5), member("server", "16", priority=4), *workers, minimum=4)
    simulated.see(
        zoned("small", "a", "8"), zoned("middle", "a", "16"), *(zoned(f"large{i}", "a", "32") for i in (0, 1))
    )
    simulated.run()
    assert simulated.placements()["launcher"] == "small"
    assert simulated.placements()["server"] == "middle"
    assert len(simulated.placements()) == 4


def lacking_a_device() -> Simulated:
    """The first member takes the node of the second; if the second comes first, the third lacks its device."""
    device = {"example.com/gpu": "1"}
    third = mine("third", group="g", priority=3, request=amounts(cpu="1", **device))
    simulated = site(member("first", "2", priority=5), member("second", "4", priority=4), third, minimum=3)
    full = mine("full", node="device", phase=Phase.RUNNING, request=amounts(cpu="1", **device))
    simulated.see(full, zoned("large", "a"), zoned("small", "a", "2"), zoned("device", "a", "1", **device))
    simulated.run()
    assert simulated.placements() == {"full": "device"}
    return simulated


def test_room_for_a_kind_that_only_another_order_has_tried_wakes_the_gang() -> None:
    simulated = lacking_a_device()
    simulated.gone(simulated.named("full"))
    simulated.run()
    assert simulated.placements() == {"first": "small", "second": "large", "third": "device"}


def test_the_reason_is_that_of_the_order_in_which_most_members_fit() -> None:
    condition = lacking_a_device().conditions()["first"]
    assert condition.startswith("team/g needs 3 pods placed together, 2 fit: ")
    assert "Insufficient example.com/gpu" in condition


def test_a_kind_that_fails_in_the_best_order_is_passed_over_and_those_that_fit_are_placed() -> None:
    device = {"example.com/gpu": "1"}
    third = mine("third", group="g", priority=3, request=amounts(cpu="1", **device))
    other = member("other", priority=2)
    simulated = site(member("first", "2", priority=5), member("second", "4", priority=4), third, other, minimum=3)
    full = mine("full", node="device", phase=Phase.RUNNING, request=amounts(cpu="1", **device))
    simulated.see(full, zoned("large", "a"), zoned("small", "a", "3"), zoned("device", "a", "1", **device))
    simulated.run()
    assert simulated.placements() == {"full": "device", "first": "small", "second": "large", "other": "small"}


def slices_until_all_orders_are_tried(kinds: int) -> int:
    """Each member is of its own kind and has a node to itself, but for one that lacks a node in every order."""
    simulated = site(*(member(f"g{size:03}", str(size), priority=-size) for size in range(1, kinds + 1)), minimum=kinds)
    simulated.see(*(zoned(f"n{size:03}", "a", str(size), pods="1") for size in range(1, kinds + 1)))
    simulated.see(mine("full", node="n001", phase=Phase.RUNNING, request=amounts(cpu="1")))
    for slices in range(100 * kinds):
        if not simulated.decide(lambda: True).more:
            assert simulated.placements() == {"full": "n001"}
            return slices
    raise AssertionError("the scheduler does not come to rest")


def test_a_gang_of_many_kinds_is_tried_in_few_orders() -> None:
    assert slices_until_all_orders_are_tried(60) < 12 * 60


def test_members_beyond_the_minimum_are_not_placed_in_the_place_of_needed_ones() -> None:
    workers = [member(f"worker{index}", "4") for index in range(2)]
    simulated = site(member("launcher", priority=5), *workers, minimum=2)
    simulated.see(zoned("large", "a"), zoned("small", "a", "2"))
    simulated.run()
    assert simulated.placements() == {"launcher": "small", "worker0": "large"}


def test_a_gang_that_fits_in_no_order_is_placed_nowhere_and_then_as_soon_as_it_fits() -> None:
    workers = [member(f"worker{index}", "4") for index in range(3)]
    simulated = site(member("launcher", priority=5), *workers, minimum=4)
    full = mine("full", node="small", phase=Phase.RUNNING, request=amounts(cpu="4"))
    simulated.see(zoned("small", "a"), full, *(zoned(f"large{index}", "a") for index in range(3)))
    simulated.run()
    assert simulated.placements() == {"full": "small"}
    assert "team/g needs 4 pods placed together, 3 fit" in simulated.conditions()["launcher"]
    simulated.gone(full)
    simulated.run()
    assert len(simulated.placements()) == 4
