# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gang of unlike members does not wait because those that came first took the only nodes of the others."""

import pytest
from placement.model.objects.node import Node
from placement.model.objects.pod import Phase, Pod
from placement_kit.builders import amounts, gang, mine, near, node, pairs
from placement_kit.simulated import Simulated


def site(*members: Pod, minimum: int) -> Simulated:
    simulated = Simulated()
    simulated.see(gang("g", minimum), *members)
    return simulated


def zoned(name: str, zone: str, cpu: str = "4") -> Node:
    return node(name, labels=pairs(zone=zone), allocatable=amounts(cpu=cpu, memory="8Gi", pods="10"))


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
