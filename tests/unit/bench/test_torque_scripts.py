# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our scripts of Torque and scripts that do nothing take turns, and what ours add to each is held to its mark."""

from __future__ import annotations

import pytest
from bench import torque_scripts
from bench.torque_scripts import BOUNDS, NO_OP, ONE_HOST, OURS, TWO_HOSTS, Span


def test_a_line_of_a_script_tells_its_time_and_that_of_the_processor() -> None:
    taken = torque_scripts.span(["1795751900.250000", "1795751900.375000", "0m0.060s", "1m0.015s"])
    assert taken == pytest.approx((0.125, 60.075))


def test_the_sets_of_scripts_take_turns_on_one_host_and_on_two() -> None:
    asked: list[tuple[str, int]] = []

    def timed(way: str, hosts: int) -> dict[str, Span]:
        asked.append((way, hosts))
        return {ONE_HOST if hosts == 1 else TWO_HOSTS: Span(len(asked))}

    times = torque_scripts.measure(timed, 2)
    assert asked == 2 * [(NO_OP, 1), (OURS, 1), (NO_OP, 2), (OURS, 2)]
    assert times[ONE_HOST] == {NO_OP: [Span(1), Span(5)], OURS: [Span(2), Span(6)]}


@pytest.mark.parametrize("what", BOUNDS)
def test_what_adds_more_than_its_mark_is_missed(what: str) -> None:
    asked = BOUNDS[what]
    times = {each: {NO_OP: [Span(0.5)], OURS: [Span(0.5)]} for each in BOUNDS}
    assert torque_scripts.summary(times)[1] == []
    above = 0.5 + asked + 0.01
    times[what][OURS] = [Span(0.0, 0.061), Span(above, 0.062), Span(above, 0.063)]
    table, late = torque_scripts.summary(times)
    assert late == [what]
    (row,) = [line for line in table.splitlines() if line.startswith(f"| {what} |")]
    median, added, bound = (f"{1000 * seconds:.0f} ms" for seconds in (above, asked + 0.01, asked))
    cells = [what, "500 ms", "500 to 500 ms", median, f"0 to {median}", added, "62 ms", bound]
    assert row == f"| {' | '.join(cells)} |"
