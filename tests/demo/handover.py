# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the records say of one job on shared nodes: how long it waited, whether pods were in its way, who came back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from demo.intervals import HELD, LEAVING, PODS, SHARED, UP, WORKING, Interval
from demo.kube_record import Pod
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
    if back := [one.begin for one in mine if one.what in (UP, WORKING) and one.begin >= ended]:
        made.append(Finding("its end, until a pod runs there again", _seconds((min(back) - ended).total_seconds())))
    if not any(one.what == HELD and one.begin < began < one.end for one in mine):
        raise RecordError(f"job {job.number} began on nodes that nobody held for it")
    return made


def both_finished(job: Job, pods: Sequence[Pod], *, driver: str, worker: str, workers: int) -> list[Finding]:
    """Return the figures of a driver that was at work when the job took nodes. Job, driver and workers all succeeded.

    Raises RecordError where they did not, or where a worker that had to leave was not replaced on another node while
    the job ran: then nothing was shown of what the demo is there for.
    """
    began, ended = _span(job)
    assert job.allocated
    if job.status != "0":
        raise RecordError(f"job {job.number} ended with status {job.status or 'unknown'}")
    drivers = [pod for pod in pods if pod.name.startswith(f"{driver}-")]
    if not any(pod.succeeded and pod.gone and pod.gone > began for pod in drivers):
        raise RecordError(f"no driver has succeeded that was still at work when job {job.number} began")
    if not any(_is_there(pod, job.allocated) for pod in drivers):
        raise RecordError(f"no driver was at work when job {job.number} got its nodes")
    runs = {number: [pod for pod in pods if pod.name == f"{worker}-{number}"] for number in range(workers)}
    if unfinished := [str(number) for number, tried in runs.items() if not any(pod.succeeded for pod in tried)]:
        raise RecordError(f"workers that did not succeed: {' '.join(unfinished)}")
    away = []
    for number, tried in runs.items():
        for pod in tried:
            if pod.node in job.nodes and _is_there(pod, job.allocated):
                left = next((moment for moment, what in pod.moments if what == LEAVING), None)
                back = [_up(other) for other in tried if other.node not in job.nodes and _up(other) and other.succeeded]
                times = [moment for moment in back if moment and left and left < moment < ended]
                if left is None or not times:
                    raise RecordError(f"worker {number} was not replaced on another node while job {job.number} ran")
                away.append((min(times) - left).total_seconds())
    if not away:
        raise RecordError(f"no worker had to leave for job {job.number}")
    return [
        Finding("workers that had to leave, and were replaced on another node while the job ran", str(len(away))),
        Finding("longest that one of them was away", _seconds(max(away))),
        Finding("job, driver and workers", "all succeeded"),
    ]


def _is_there(pod: Pod, moment: datetime) -> bool:
    return pod.moments[0][0] < moment and (pod.gone is None or pod.gone > moment)


def _up(pod: Pod) -> datetime | None:
    return next((moment for moment, what in pod.moments if what == UP), None)


def _span(job: Job) -> tuple[datetime, datetime]:
    if job.allocated is None or job.started is None or job.ended is None:
        raise RecordError(f"Slurm's logs do not tell when job {job.number} got its nodes, began and ended")
    return job.started, job.ended


def _seconds(value: float) -> str:
    return f"{value:.2f} s"
