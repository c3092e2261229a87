# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the recorder of containerd's events has written is judged: each way in which it can miss a start is a fault."""

from __future__ import annotations

import json
from typing import Any

import pytest
from e2e.handover.recording import Recording

HEARS = {"what": "hears", "at": 10.0, "since": 1.0}
GONE = {"what": "gone", "at": 20.0}
AGAIN = {"what": "hears", "at": 30.5, "since": 30.0}


def start(at: float, pod: str, *, heard: bool = True) -> dict[str, Any]:
    return {"what": "start", "at": at, "container": f"of-{pod}", "pod": pod, "heard": heard}


def recording(*lines: dict[str, Any]) -> Recording:
    return Recording.parse("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        pytest.param([HEARS], "", id="listens"),
        pytest.param([HEARS, GONE], "", id="without containerd"),
        pytest.param([HEARS, GONE, AGAIN], "", id="across a restart of containerd"),
        pytest.param([], "never heard anything", id="does not run, or does not understand containerd"),
        pytest.param([start(11.0, "web", heard=False)], "never heard anything", id="hears nothing"),
        pytest.param([AGAIN], "listens only since 30.500", id="late"),
        pytest.param([HEARS, {**HEARS, "at": 16.0}], "died between 10.000 and 16.000", id="started again"),
        pytest.param([HEARS, GONE, {**AGAIN, "since": 1.0}], "and containerd ran", id="lost containerd"),
    ],
)
def test_a_recorder_that_may_have_missed_a_start_is_named(lines: list[dict[str, Any]], fault: str) -> None:
    found = recording(*lines).fault(since=15.0)
    assert fault in found
    assert bool(found) == bool(fault)


def test_starts_are_told_by_time_and_only_those_that_were_heard_prove_that_the_recorder_works() -> None:
    found = recording(HEARS, start(12.0, "a"), start(15.0, "b", heard=False), start(18.0, ""), GONE)
    assert found.started(since=12.0, until=15.0) == {"a", "b"}
    assert found.started(since=16.0, until=19.0) == {""}
    assert found.heard_after(13.0) == {""}
    assert found.heard_after(18.0) == set()


def test_a_line_that_is_still_being_written_does_not_count() -> None:
    whole = json.dumps(HEARS) + "\n" + json.dumps(start(12.0, "a"))
    assert Recording.parse(whole).lines == [HEARS]
    assert Recording.parse(whole + "\n").lines == [HEARS, start(12.0, "a")]
    assert Recording.parse("").lines == []
