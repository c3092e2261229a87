# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes for load: how they look, and how their making is divided."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from testbed.errors import UsageError
from testbed.load import Kind, load_node, parse_kind, shares


@given(st.integers(1, 6000), st.integers(1, 64))
def test_every_number_falls_to_exactly_one_worker_and_no_worker_has_two_more_than_another(
    count: int, workers: int
) -> None:
    parts = shares(count, workers)
    assert sorted(number for part in parts for number in part) == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_node_for_load_is_ready_when_it_is_made_and_says_what_it_is() -> None:
    node = load_node(4711, Kind.KWOK, now="2026-11-21T12:00:00Z")
    assert node["metadata"]["name"] == "load-04711"
    assert node["metadata"]["labels"]["converged.hpc/load"] == "kwok"
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone-1"
    (condition,) = node["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "True")
    assert node["status"]["allocatable"] == node["status"]["capacity"]


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    assert parse_kind("plain") is Kind.PLAIN
    with pytest.raises(UsageError, match="kind fake: unknown; give one of plain, kwok"):
        parse_kind("fake")
