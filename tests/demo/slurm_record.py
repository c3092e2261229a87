# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which job had which nodes when, from what Slurm itself writes: the logs of slurmctld and of every slurmd. Pure.

slurmctld tells when a job gets its nodes and when it is over. Only slurmd tells when its first task starts, and what
lies between is what a Prolog and the hand-over take.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from demo.intervals import ASKED, RUNNING, Interval

_LINE = re.compile(r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+)\] (.*)")
_ALLOCATED = re.compile(r"sched: (?:Allocate|_slurm_rpc_allocate_resources) JobId=(\S+) NodeList=(\S+) ")
_OVER = re.compile(
    r"_job_complete: JobId=(\S+) (?:WEXITSTATUS (\d+))?|_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=(\S+) "
)
_STARTED = re.compile(r"launch task StepId=(\d+)\.|Launching batch job (\d+) ")


@dataclass(slots=True)
class Job:
    """One job, as far as the logs have told."""

    number: str
    nodes: tuple[str, ...] = ()
    allocated: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    status: str = ""  # of the first step that tells one; nothing of a job that was killed
    started_on: dict[str, datetime] = field(default_factory=dict)


def lines(text: str, zone: str) -> Iterator[tuple[datetime, str]]:
    """The lines with a time; `zone` is the host's offset from UTC (`date +%:z`), which Slurm does not write."""
    for line in text.splitlines():
        if found := _LINE.match(line):
            yield datetime.fromisoformat(found[1] + zone), found[2]


def host_names(text: str) -> tuple[str, ...]:
    """`n[1-3,5],x` as names: what Slurm makes of the names of a test bed."""
    names: list[str] = []
    for word in re.findall(r"[^,\[]+(?:\[[^]]*\])?", text):
        stem, bracket, ranges = word.strip("]").partition("[")
        if not bracket:
            names.append(stem)
        for part in ranges.split(",") if bracket else ():
            first, _dash, last = part.partition("-")
            names += [f"{stem}{number:0{len(first)}d}" for number in range(int(first), int(last or first) + 1)]
    return tuple(names)


def read_jobs(controller: str, nodes: Mapping[str, str], *, zone: str) -> list[Job]:
    """All jobs, in the order in which they got their nodes."""
    jobs: dict[str, Job] = {}
    for moment, text in lines(controller, zone):
        if found := _ALLOCATED.match(text):
            number = _job_id(found[1])
            jobs[number] = Job(number, host_names(found[2]), moment)
        elif (found := _OVER.match(text)) and (job := jobs.get(_job_id(found[1] or found[3]))):
            job.ended, job.status = job.ended or moment, job.status or found[2] or ""
    for node, log in nodes.items():
        for moment, text in lines(log, zone):
            if (found := _STARTED.match(text)) and (job := jobs.get(found[1] or found[2])):
                job.started_on.setdefault(node, moment)
    for job in jobs.values():
        job.started = min(job.started_on.values(), default=None)
    return list(jobs.values())


def job_intervals(jobs: list[Job], *, end: datetime) -> list[Interval]:
    """On each of its nodes a job first waits for them to be free, then runs."""
    made = []
    for job in jobs:
        over = job.ended or end
        for node in job.nodes:
            begun, started = job.allocated or over, min(job.started or over, over)
            made += [
                Interval(node, ASKED, job.number, begun, started),
                Interval(node, RUNNING, job.number, started, over),
            ]
    return [one for one in made if one.end > one.begin]


def _job_id(text: str) -> str:
    """`5_1(6)` is a task of array 5, and job 6 to everybody else."""
    return text.partition("(")[2].rstrip(")") or text
