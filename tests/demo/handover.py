# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the records say of one job on shared nodes: how long it waited, whether pods were in its way, who came back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from demo.intervals import HELD, PODS, SHARED, UP, Interval
from demo.slurm_record import Job


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure, in seconds, or a count."""

    what: str
    value: str


class RecordError(Exception):
    """The records do not tell what they should; one line."""


def pods_beside(job: Job, intervals: Sequence[Interval]) -> list[Interval]:
    """Pods that were on a node of the job at any moment between its first task and its end."""
    began, ended = _span(job)
    mine = [one for one in intervals if one.node in job.nodes and one.what in PODS]
    return [one for one in mine if one.begin < ended and one.end > began]


def findings(job: Job, intervals: Sequence[Interval]) -> list[Finding]:
    """The figures of one hand-over, there and back."""
    began, ended = _span(job)
    assert job.allocated
    mine = [one for one in intervals if one.node in job.nodes]
    beside = pods_beside(job, mine)
    made = [
        Finding(
            "Slurm gives the job its nodes, until its first task", _seconds((began - job.allocated).total_seconds())
        ),
        Finding("pods on its nodes while it ran", str(len({one.who for one in beside}))),
    ]
    left = {one.who for one in mine if one.what in PODS and one.begin < job.allocated < one.end}
    made.insert(0, Finding("pods that had to leave", str(len(left))))
    opened = [
        min(one.begin for one in mine if one.node == node and one.what == SHARED and one.begin >= ended)
        for node in job.nodes
        if any(one.node == node and one.what == SHARED and one.begin >= ended for one in mine)
    ]
    if len(opened) == len(job.nodes):
        made.append(
            Finding("its end, until the last node is open for pods", _seconds((max(opened) - ended).total_seconds()))
        )
    if back := [one.begin for one in mine if one.what == UP and one.begin >= ended]:
        made.append(Finding("its end, until a pod runs there again", _seconds((min(back) - ended).total_seconds())))
    if not any(one.what == HELD and one.begin < began < one.end for one in mine):
        raise RecordError(f"job {job.number} began on nodes that nobody held for it")
    return made


def _span(job: Job) -> tuple[datetime, datetime]:
    if job.allocated is None or job.started is None or job.ended is None:
        raise RecordError(f"Slurm's logs do not tell when job {job.number} got its nodes, began and ended")
    return job.started, job.ended


def _seconds(value: float) -> str:
    return f"{value:.2f} s"
