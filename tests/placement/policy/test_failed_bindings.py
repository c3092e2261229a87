# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bindings that the API refuses: when they are tried again, and what is said."""

from placement.model.messages.action import Bind
from placement.model.messages.event import BindFailed
from placement_kit.builders import mine, node
from placement_kit.simulated import Simulated


def one_node() -> Simulated:
    simulated = Simulated()
    simulated.see(node("n1"))
    return simulated


def test_a_pod_whose_binding_fails_is_tried_again_at_once_and_then_after_longer_and_longer() -> None:
    simulated = one_node()
    simulated.see(mine("p"))
    tried = []
    for _unused in range(200):
        for action in simulated.run_once():
            if isinstance(action, Bind):
                tried.append(simulated.now)
                simulated.scheduler.apply(BindFailed(action.uid, action.node, "webhook says no"))
            else:
                simulated.actions.append(action)
        simulated.now += 0.5
    assert tried == [0.0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 61.5, 91.5]
    assert simulated.conditions()["p"] == "team/p could not be bound to node n1: webhook says no"
    simulated.run()
    simulated.now += 30
    simulated.run()
    assert simulated.placements() == {"p": "n1"}


def test_bindings_that_fail_together_count_as_one() -> None:
    simulated = one_node()
    simulated.see(*(mine(f"p{index}", owner="set") for index in range(4)))
    for action in simulated.run_once():
        assert isinstance(action, Bind)
        simulated.scheduler.apply(BindFailed(action.uid, action.node, "the node is gone"))
    simulated.now += 1
    simulated.run()
    assert len(simulated.placements()) == 4
