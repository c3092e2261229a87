# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slices of the scheduler, as the loop asks for them."""

from placement.model.action import Bind, PodCondition
from placement_kit.builders import gang, mine, node
from placement_kit.simulated import Simulated

SIZE = 300


def test_nothing_is_said_of_a_gang_while_its_pods_are_still_taken_in() -> None:
    simulated = Simulated()
    simulated.see(*(node(f"n{index}") for index in range(SIZE)), gang("big", SIZE))
    simulated.see(*(mine(f"p{index}", group="big") for index in range(SIZE)))
    decided = simulated.run()
    assert sum(isinstance(action, Bind) for action in decided) == SIZE
    assert not [action for action in decided if isinstance(action, PodCondition)]


def test_slices_go_on_after_the_clock_has_run_out() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), mine("p1"), mine("p2"), gang("empty", 2))
    for _unused in range(100):
        for action in simulated.run_once(lambda: True):
            simulated.carry_out(action)
    assert simulated.placements() == {"p1": "n1", "p2": "n1"}
