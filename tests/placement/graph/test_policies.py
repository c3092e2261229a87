# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Match policies by Fluxion's names: which nodes and which domain come first."""

import pytest
from placement.graph.matching.match import choose
from placement.graph.policies.register import POLICIES
from placement.graph.request import Part, Request, Selection
from placement_kit.drawn_graph import CORE, Drawn


def chosen(drawn: Drawn, policy: str, count: int, *within: str) -> list[str]:
    request = Request(parts=(Part(count=count, request=CORE),), within=within, policy=policy)
    return list(drawn.names(choose(drawn.graph, request, [None])))


def test_the_policies_are_those_of_fluxion_and_one_for_numa_nodes() -> None:
    assert set(POLICIES) == {
        "numa",
        "first",
        "firstnodex",
        "low",
        "high",
        "lonode",
        "hinode",
        "lonodex",
        "hinodex",
        "locality",
        "variation",
    }


@pytest.mark.parametrize("policy", ["first", "low", "lonode"])
def test_low_names_come_first(policy: str) -> None:
    drawn = Drawn({"a/r2": [4, 4], "a/r10": [4, 4], "a/r1": [2]})
    assert chosen(drawn, policy, 4) == ["r1n1", "r2n1"]
    assert chosen(drawn, policy, 8, "rack") == ["r2n1", "r2n2"]


@pytest.mark.parametrize("policy", ["high", "hinode"])
def test_high_names_come_first(policy: str) -> None:
    drawn = Drawn({"a/r2": [4, 4], "a/r10": [4, 4], "a/r1": [2]})
    assert chosen(drawn, policy, 5) == ["r10n2", "r10n1"]
    assert chosen(drawn, policy, 8, "rack") == ["r10n2", "r10n1"]


@pytest.mark.parametrize(("policy", "node"), [("firstnodex", "r1n2"), ("lonodex", "r1n2"), ("hinodex", "r1n3")])
def test_node_exclusive_policies_take_empty_nodes(policy: str, node: str) -> None:
    drawn = Drawn({"a/r1": [3, 4, 4, 1]})
    assert chosen(drawn, policy, 1) == [node]
    found = choose(drawn.graph, Request(parts=(Part(count=1, request=CORE),), policy=policy), [None])
    assert isinstance(found, Selection)
    assert found.exclusive


def test_locality_takes_the_longest_run_of_neighbours() -> None:
    drawn = Drawn({"a/r1": [4, 0, 4, 4, 4, 0, 4, 4]})
    assert chosen(drawn, "locality", 8) == ["r1n3", "r1n4"]


def test_locality_takes_the_tightest_rack() -> None:
    drawn = Drawn({"a/r1": [4, 4], "a/r2": [4], "a/r3": [4, 4, 4]})
    assert chosen(drawn, "locality", 4, "rack") == ["r2n1"]


def test_variation_takes_nodes_of_a_low_performance_class() -> None:
    classes = {"r1n1": "3", "r1n2": "1", "r1n3": "1", "r1n4": "fast"}
    drawn = Drawn({"a/r1": [4, 4, 4, 4]}, labels={name: {"class": value} for name, value in classes.items()})
    assert chosen(drawn, "variation", 12) == ["r1n2", "r1n3", "r1n1"]
