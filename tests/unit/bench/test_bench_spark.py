# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of Spark's runs: medians with their ranges, each run beside the run alone of its own round."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from bench.spark import ALONE, ONE, Run, report, spread
from e2e.spark_record import FINISHED, REPEATED, Tasks

MOMENT = datetime(2026, 11, 23, 15, 49, 30, tzinfo=UTC)


def run(way: str, seconds: float, *, decommissioning: bool = True, away: float = 0.0, again: int = 0) -> Run:
    """A run of four tasks."""
    events = ((MOMENT, FINISHED),) * 4 + ((MOMENT, REPEATED),) * again
    return Run(way, decommissioning, seconds, 1 if away else 0, away, Tasks(events, {}, frozenset()))


def rows(*rounds: list[Run]) -> list[list[str]]:
    table, _kept = report(rounds)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_each_ratio_is_to_the_run_alone_of_the_same_round() -> None:
    found = rows([run(ALONE, 100), run(ONE, 110, away=20)], [run(ALONE, 200), run(ONE, 240, away=20)])
    assert found[0][:3] == [f"{ALONE}, with", "150 s (100 to 200 s)", "1.00"]
    assert found[1][:3] == [f"{ONE}, with", "175 s (110 to 240 s)", "1.15 (1.10 to 1.20)"]


def test_runs_without_decommissioning_are_compared_with_their_own_run_alone_and_no_more_is_asked_of_them() -> None:
    one_round = [run(ALONE, 100), run(ALONE, 50, decommissioning=False)]
    one_round += [run(ONE, 200, decommissioning=False, away=20, again=3)]
    assert rows(one_round)[2] == [f"{ONE}, without", "200 s", "4.00", "1", "20 s", "0", "75 %", ""]
    assert report([one_round])[1]


@pytest.mark.parametrize(("seconds", "kept", "share"), [(150, True, "1.00"), (165, False, "1.10")])
def test_one_run_of_three_that_took_longer_than_asked_fails_the_benchmark(
    seconds: float, kept: bool, share: str
) -> None:
    good = [run(ALONE, 100), run(ONE, 120, away=20)]
    rounds = [good, [run(ALONE, 100), run(ONE, seconds, away=20)], good]
    assert report(rounds)[1] is kept
    assert rows(*rounds)[1][-1] == share


def test_a_median_has_its_range_where_the_values_differ() -> None:
    assert spread([3, 1, 2], ".0f", " s") == "2 s (1 to 3 s)"
    assert spread([2.001, 2.002], ".2f") == "2.00"
