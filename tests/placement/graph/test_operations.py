# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Allocate, allocate or else reserve, satisfiability, and matching without allocating."""

import numpy as np
import pytest
from placement.graph.matching.operations import (
    Ending,
    Window,
    allocate,
    allocate_or_reserve,
    satisfiability,
    without_allocating,
)
from placement.graph.request import NoMatch, Part, Request, Selection
from placement_kit.drawn_graph import CORE, Drawn


def gang(count: int, **more: object) -> Request:
    return Request(parts=(Part(count=count, request=CORE),), **more)  # type: ignore[arg-type]


class Charging:
    """Charges the columns as a statement does."""

    def __init__(self, drawn: Drawn) -> None:
        self._columns = drawn.cluster.columns

    def __call__(self, part: int, row: int, number: int) -> None:
        for _pod in range(number):
            self._columns.charge(row, self._columns.axis.request(CORE), 1)


def ending(drawn: Drawn, at: float, name: str, cores: int) -> Ending:
    columns = drawn.cluster.columns
    amounts = np.zeros(len(columns.axis), np.int64)
    amounts[[0, 2]] = 1000 * cores, 1
    return Ending(at, columns.rows[name], amounts)


def test_matching_without_allocating_changes_nothing() -> None:
    drawn = Drawn({"a/r1": [4, 4]})
    first = without_allocating(drawn.graph, gang(5), [None])
    assert drawn.names(first) == drawn.names(without_allocating(drawn.graph, gang(5), [None]))


def test_what_is_allocated_is_not_given_again() -> None:
    drawn = Drawn({"a/r1": [4, 4]})
    charging = Charging(drawn)
    assert drawn.names(allocate(drawn.graph, gang(5), [None], charging)) == {"r1n1": 4, "r1n2": 1}
    assert drawn.names(allocate(drawn.graph, gang(3), [None], charging)) == {"r1n2": 3}
    assert isinstance(allocate(drawn.graph, gang(1), [None], charging), NoMatch)
    assert drawn.graph.check() == []


def test_a_gang_that_cannot_start_is_told_when_and_where() -> None:
    drawn = Drawn({"a/r1": [0, 1], "a/r2": [0, 2]})
    endings = [ending(drawn, 300.0, "r2n1", 4), ending(drawn, 100.0, "r1n1", 4), ending(drawn, 200.0, "r1n2", 3)]
    request = gang(6, within=("rack",), required=True)
    found = allocate_or_reserve(drawn.graph, request, [None], Charging(drawn), endings)
    assert isinstance(found, Selection)
    assert (found.at, found.domain) == (200.0, "a/r1")
    assert drawn.graph.use("rack")[0].free[0] == 1000


def test_a_reservation_waits_no_longer_than_it_must() -> None:
    drawn = Drawn({"a/r1": [0, 1]})
    endings = [ending(drawn, 100.0, "r1n1", 4), ending(drawn, 900.0, "r1n2", 3)]
    found = allocate_or_reserve(drawn.graph, gang(5), [None], Charging(drawn), endings)
    assert isinstance(found, Selection)
    assert found.at == 100.0


def test_what_can_start_now_is_not_reserved() -> None:
    drawn = Drawn({"a/r1": [4]})
    found = allocate_or_reserve(drawn.graph, gang(4), [None], Charging(drawn), [ending(drawn, 1.0, "r1n1", 0)])
    assert isinstance(found, Selection)
    assert found.at is None
    assert drawn.graph.use("rack")[0].free[0] == 0


def test_exclusive_nodes_are_reserved_once_they_are_empty() -> None:
    drawn = Drawn({"a/r1": [3]})
    endings = [ending(drawn, 50.0, "r1n1", 1)]
    found = allocate_or_reserve(drawn.graph, gang(4, exclusive=True), [None], Charging(drawn), endings)
    assert isinstance(found, Selection)
    assert found.at == 50.0


def window(drawn: Drawn, name: str, begins: float, **more: float) -> Window:
    return Window(drawn.cluster.columns.rows[name], begins, **more)


@pytest.mark.parametrize(("lasts", "at"), [(100.0, None), (101.0, 400.0)])
def test_a_gang_starts_now_only_if_it_ends_before_the_promised_start(lasts: float, at: float | None) -> None:
    drawn = Drawn({"a/r1": [4]})
    windows = [window(drawn, "r1n1", 100.0, ends=400.0)]
    found = allocate_or_reserve(drawn.graph, gang(4), [None], Charging(drawn), [], windows=windows, lasts=lasts)
    assert isinstance(found, Selection)
    assert found.at == at


def test_a_gang_is_reserved_where_no_promise_comes_between() -> None:
    drawn = Drawn({"a/r1": [0], "a/r2": [0]})
    endings = [ending(drawn, 50.0, "r1n1", 4), ending(drawn, 80.0, "r2n1", 4)]
    windows = [window(drawn, "r1n1", 60.0, ends=500.0)]

    def reserved(lasts: float) -> tuple[float | None, dict[str, int]]:
        found = allocate_or_reserve(
            drawn.graph, gang(4), [None], Charging(drawn), endings, windows=windows, lasts=lasts
        )
        assert isinstance(found, Selection)
        return found.at, drawn.names(found)

    assert reserved(10.0) == (50.0, {"r1n1": 4})
    assert reserved(11.0) == (80.0, {"r2n1": 4})


def test_a_gap_between_two_promises_is_used_before_their_end() -> None:
    drawn = Drawn({"a/r1": [4]})
    windows = [window(drawn, "r1n1", 0.0, ends=100.0), window(drawn, "r1n1", 200.0, ends=300.0)]
    for lasts, at in ((100.0, 100.0), (101.0, 300.0)):
        found = allocate_or_reserve(drawn.graph, gang(4), [None], Charging(drawn), [], windows=windows, lasts=lasts)
        assert isinstance(found, Selection)
        assert found.at == at


def test_a_promise_without_end_is_never_waited_for() -> None:
    drawn = Drawn({"a/r1": [4], "a/r2": [0]})
    windows = [window(drawn, "r1n1", 100.0)]
    endings = [ending(drawn, 50.0, "r2n1", 1)]
    found = allocate_or_reserve(drawn.graph, gang(4), [None], Charging(drawn), endings, windows=windows)
    assert isinstance(found, NoMatch)


def test_a_gang_in_one_rack_waits_for_the_promise_in_that_rack_alone() -> None:
    drawn = Drawn({"a/r1": [4, 4], "a/r2": [4, 0]})
    windows = [window(drawn, "r1n2", 10.0, ends=300.0)]
    endings = [ending(drawn, 200.0, "r2n2", 4)]
    request = gang(8, within=("rack",), required=True)
    found = allocate_or_reserve(drawn.graph, request, [None], Charging(drawn), endings, windows=windows)
    assert isinstance(found, Selection)
    assert (found.at, found.domain) == (200.0, "a/r2")


def test_satisfiability_asks_for_empty_nodes() -> None:
    drawn = Drawn({"a/r1": [0, 0], "a/r2": [1]})
    assert satisfiability(drawn.graph, gang(8, within=("rack",), required=True), [None]) is None
    never = satisfiability(drawn.graph, gang(9, within=("rack",), required=True), [None])
    assert str(never) == "rack: at most 8 of 9 pods fit, in a/r1"
    assert str(satisfiability(drawn.graph, gang(13), [None])) == "cluster: cpu: 13 wanted, 12 there"
