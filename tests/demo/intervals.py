# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a record of events becomes before it is drawn: who had which node from when to when. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

PLAIN, SHARED, HELD, CLOSED = "plain batch node", "open for pods", "held for batch jobs", "closed to pods"
ASKED, RUNNING = "job waits for its nodes", "job runs"
STARTING, UP, LEAVING = "pod starts", "pod runs", "pod is asked to leave"
WORKING = "driver or worker runs"
STATES, JOBS, PODS = (PLAIN, SHARED, HELD, CLOSED), (ASKED, RUNNING), (STARTING, UP, WORKING, LEAVING)


@dataclass(frozen=True, slots=True)
class Interval:
    """`who` was in state `what` on `node` for a while."""

    node: str
    what: str
    who: str
    begin: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return (self.end - self.begin).total_seconds()


def chain(node: str, who: str, moments: Iterable[tuple[datetime, str]], end: datetime) -> list[Interval]:
    """Each state lasts until another one comes, the last one until `end`; a state that is told again goes on."""
    made: list[Interval] = []
    for moment, what in sorted(moments, key=lambda item: item[0]):
        if moment >= end:
            break
        if made and made[-1].begin == moment:
            made.pop()
        if made:
            made[-1] = replace(made[-1], end=moment if made[-1].what != what else end)
        if not made or made[-1].what != what:
            made.append(Interval(node, what, who, moment, end))
    return made


def lanes(intervals: Sequence[Interval]) -> dict[str, int]:
    """For each name on a node the first lane that is free while it is there: no bar lies on another."""
    spans: dict[str, tuple[datetime, datetime]] = {}
    for one in intervals:
        begin, end = spans.get(one.who, (one.begin, one.end))
        spans[one.who] = (min(begin, one.begin), max(end, one.end))
    free_at: list[datetime] = []
    chosen: dict[str, int] = {}
    for who, (begin, end) in sorted(spans.items(), key=lambda item: (item[1], item[0])):
        lane = next((number for number, free in enumerate(free_at) if free <= begin), len(free_at))
        free_at[lane : lane + 1] = [end]
        chosen[who] = lane
    return chosen
