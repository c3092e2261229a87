# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test that does something during a job fails where the job had not begun or no longer ran."""

from __future__ import annotations

import pytest
from e2e.job_times import AFTER, BEFORE, DURING, read, when

TWO_TASKS = [("began", 10.0), ("began", 12.0), ("ended", 20.0), ("ended", 22.0)]


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [(8.0, 9.0, BEFORE), (13.0, 19.0, DURING), (15.0, 15.0, DURING), (23.0, 24.0, AFTER)],
)
def test_what_is_done_beside_all_tasks_is_told_from_what_is_done_before_and_after(
    since: float, until: float, expected: str
) -> None:
    assert when(TWO_TASKS, since=since, until=until) == expected
    assert when(reversed(TWO_TASKS), since=since, until=until) == expected


@pytest.mark.parametrize(
    ("since", "until"),
    [
        pytest.param(9.0, 11.0, id="one task begins meanwhile"),
        pytest.param(11.0, 13.0, id="the other task begins meanwhile"),
        pytest.param(11.0, 11.5, id="one task has not begun"),
        pytest.param(19.0, 20.5, id="one task ends meanwhile"),
        pytest.param(20.5, 21.0, id="one task has ended"),
        pytest.param(21.0, 23.0, id="the other task ends meanwhile"),
        pytest.param(9.0, 23.0, id="the whole job is over meanwhile"),
    ],
)
def test_what_is_done_beside_a_part_of_a_job_is_none_of_them(since: float, until: float) -> None:
    found = when(TWO_TASKS, since=since, until=until)
    assert found == (
        "tasks began from 10.000 to 12.000 and ended from 20.000 to 22.000, "
        f"and it was done from {since:.3f} to {until:.3f}"
    )


@pytest.mark.parametrize(
    ("said", "counts"),
    [([], "0 tasks began, and 0 ended"), (TWO_TASKS[:3], "2 tasks began, and 1 ended"), (TWO_TASKS[2:], "0 tasks")],
)
def test_a_job_that_has_not_said_everything_proves_nothing(said: list[tuple[str, float]], counts: str) -> None:
    assert when(said, since=15.0, until=16.0).startswith(f"unknown: {counts}")


def test_only_whole_lines_of_a_task_are_read() -> None:
    assert read("srun: note\n\nbegan 10.25\nended 20.5\nended 2") == [("began", 10.25), ("ended", 20.5)]
    assert read("began") == []
