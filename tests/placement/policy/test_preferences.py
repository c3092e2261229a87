# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of several nodes that would do is taken."""

from typing import Any

import pytest
from placement.model.objects.pod import PreferredNodeTerm
from placement.model.rules.affinity import WeightedPodAffinityTerm
from placement.model.rules.selector import Effect, NodeSelectorTerm, Operator, Requirement, Taint
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, mine, near, node, pairs, pod, spread
from placement_kit.simulated import Simulated

IN_B = NodeSelectorTerm((Requirement("zone", Operator.IN, ("b",)),))


def preferring(arguments: str = "") -> Simulated:
    lines = ['actions: "allocate"', "tiers:", "- plugins:", "  - name: nodeorder"]
    text = "\n".join([*lines, *([f"    arguments: {{{arguments}}}"] if arguments else []), ""])
    simulated = Simulated(load(text, "test"))
    simulated.see(node("n1", labels=pairs(zone="a")), node("n2", labels=pairs(zone="b")))
    return simulated


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", "n2"),
        ("leastrequested.weight: 0, mostrequested.weight: 1, balancedresource.weight: 0", "n1"),
    ],
)
def test_room_that_is_left_can_be_liked_or_disliked(arguments: str, expected: str) -> None:
    simulated = preferring(arguments)
    simulated.see(pod("other", node="n1", request=amounts(cpu="1", memory="2Gi")))
    simulated.see(mine("p", request=amounts(cpu="1", memory="2Gi")))
    simulated.run()
    assert simulated.placements()["p"] == expected


def test_cpu_and_memory_are_used_up_together() -> None:
    simulated = preferring("leastrequested.weight: 0")
    simulated.see(pod("other", node="n1", request=amounts(cpu="2")))
    simulated.see(mine("p", request=amounts(memory="4Gi")))
    simulated.run()
    assert simulated.placements()["p"] == "n1"


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ({}, "n1"),
        ({"preferred_nodes": (PreferredNodeTerm(IN_B, 1),)}, "n2"),
        ({"preferred_pods": (WeightedPodAffinityTerm(near("zone", app="x"), 5),)}, "n1"),
        ({"preferred_pods": (WeightedPodAffinityTerm(near("zone", app="x"), -5),)}, "n2"),
        ({"spread": (spread("zone", labels={"app": "x"}, hard=False),)}, "n2"),
    ],
)
def test_preferences_of_the_pod_count(wish: dict[str, Any], expected: str) -> None:
    simulated = preferring("leastrequested.weight: 0, balancedresource.weight: 0")
    simulated.see(pod("other", node="n1", labels=pairs(app="x")), mine("p", **wish))
    simulated.run()
    assert simulated.placements()["p"] == expected


@pytest.mark.parametrize(
    ("weight", "expected"),
    [("nodeaffinity.weight: 0", "n1"), ("nodeaffinity.weight: 1", "n1"), ("nodeaffinity.weight: 9", "n2")],
)
def test_weights_say_which_of_two_wishes_counts_more(weight: str, expected: str) -> None:
    simulated = preferring(f"leastrequested.weight: 0, balancedresource.weight: 0, podaffinity.weight: 3, {weight}")
    wish = {"preferred_nodes": (PreferredNodeTerm(IN_B, 1),)}
    near_other = {"preferred_pods": (WeightedPodAffinityTerm(near("zone", app="x"), 1),)}
    simulated.see(pod("other", node="n1", labels=pairs(app="x")), mine("p", **wish, **near_other))
    simulated.run()
    assert simulated.placements()["p"] == expected


def test_a_soft_taint_is_avoided_also_when_it_comes_later() -> None:
    simulated = preferring("leastrequested.weight: 0, balancedresource.weight: 0")
    simulated.see(mine("first"))
    simulated.run()
    simulated.see(node("n1", labels=pairs(zone="a"), taints=(Taint("old", "", Effect.PREFER_NO_SCHEDULE),)))
    simulated.see(mine("second"))
    simulated.run()
    assert simulated.placements() == {"first": "n1", "second": "n2"}
