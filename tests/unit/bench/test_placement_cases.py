# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cases of `placement_throughput` in which each gang needs one rack."""

from __future__ import annotations

from typing import Any

import pytest
from bench._placement_cases import CASES, Case
from bench.placement_throughput import Result, missed

RACKS = {"n0": "r0", "n1": "r0", "n2": "r1"}


def placed(case: Case, *nodes: str) -> list[dict[str, Any]]:
    pods = [case.pod(index, "placement") for index in range(len(nodes))]
    for pod, node in zip(pods, nodes, strict=True):
        pod["spec"] |= {"nodeName": node} if node else {}
    return pods


@pytest.mark.parametrize("gangs", [(750, 4), (1500, 4), (2250, 4), (3, 1000), (6, 1000), (9, 1000)])
def test_each_gang_asks_for_a_rack_and_the_daemon_knows_them(gangs: tuple[int, int]) -> None:
    number, size = gangs
    case = CASES[f"racks-{number}-of-{size}"](1.0)
    groups = [*case.groups()]
    assert (case.pods, len(groups)) == (number * size, number)
    assert {group["metadata"]["annotations"]["converged.hpc/required-topology"] for group in groups} == {"rack"}
    assert case.settings() == {"topology_levels": "rack=example.com/rack"}


def test_other_cases_know_no_racks() -> None:
    case = CASES["gangs-of-3"](0.001)
    assert case.settings() == {}
    assert ["annotations" in group["metadata"] for group in case.groups()] == [False, False]


@pytest.mark.parametrize(
    ("nodes", "scattered"),
    [
        (("n0", "n1", "n2", "n2"), []),
        (("n0", "n2", "n2", "n2"), ["gang-0"]),
        (("n0", "n1", "n2", ""), ["gang-1"]),
        (("n0", "n1", "n2", "other"), ["gang-1"]),
        (("n0", "n1"), ["gang-1"]),
    ],
)
def test_a_gang_in_two_racks_or_in_part_is_found(nodes: tuple[str, ...], scattered: list[str]) -> None:
    case = Case(4, {}, gang=2, racks=True)
    assert case.scattered(placed(case, *nodes), RACKS) == scattered


@pytest.mark.parametrize(("rate", "misses"), [(69.0, ["racks-3-of-1000: 0.69 of bare, asked 0.7"]), (71.0, [])])
def test_gangs_in_racks_are_to_reach_their_part_of_the_bare_loop(rate: float, misses: list[str]) -> None:
    rates = {"bare": 100.0, "placement": rate}
    assert (
        missed([Result("racks-3-of-1000", name, 1, each, 0.0, 1, 1.0, 1.0) for name, each in rates.items()]) == misses
    )
