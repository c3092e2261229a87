# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gathers what Slurm and the API server wrote down during the demo, and makes the page of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import plotly.graph_objects as go  # type: ignore[import-untyped]
from testbed import api
from testbed.controlplane import audit_log
from testbed.kube_audit import read_audit

from demo.chart import STEP, gantt
from demo.handover import Finding, RecordError, both_finished, findings, pods_beside
from demo.hands import Hosts, Step
from demo.intervals import Interval
from demo.kube_record import Pod, node_intervals, pod_intervals, read_pods
from demo.page import page
from demo.slurm_record import Job, job_intervals, read_jobs
from demo.workload import DRIVER, WORKER, WORKERS

LOGS = "/var/log/slurm"
BEFORE, AFTER = timedelta(seconds=6), timedelta(seconds=14)


@dataclass(frozen=True, slots=True)
class Played:
    """The program that ran as pods when the job took nodes.

    `working` are the first words of its pods' names, `title` is what the chart of the job says behind the job's nodes.
    `judge` returns figures, and raises RecordError where the program did not succeed; `more` draws charts of its own.
    """

    working: tuple[str, ...]
    title: str
    judge: Callable[[Job, Sequence[Pod]], list[Finding]]
    more: Callable[[Job], list[go.Figure]] = lambda _job: []


WORKERS_REPLACED = Played(
    (DRIVER, WORKER),
    "a driver's workers leave, and go on elsewhere",
    partial(both_finished, driver=DRIVER, worker=WORKER, workers=WORKERS),
)


def without_setup(steps: Sequence[Step]) -> list[Step]:
    """Return the steps that a picture shows."""
    return [step for step in steps if not step.is_setup]


def whole(steps: Sequence[Step], made: Sequence[Interval], *, nodes: int, end: datetime) -> go.Figure:
    """Draw all of a demo but its set-up; zero of the time axis is where the set-up has ended."""
    shown = without_setup(steps)
    told = [Interval("demo", STEP, step.short, step.begin, step.end) for step in shown]
    begin = shown[0].begin
    title = f"{nodes} nodes from the first minute to the last"
    return gantt(told, made, title=title, zero=begin, window=(begin, end))


def draw(
    bed: str,
    folder: Path,
    *,
    job: str,
    nodes: Sequence[str],
    steps: Sequence[Step],
    played: Played = WORKERS_REPLACED,
) -> tuple[Path, list[Finding]]:
    """Return the page's path and what the records say of the job.

    Raises RecordError when a pod was in the job's way, or when job, driver and workers did not all succeed. The picture
    begins where the set-up has ended.
    """
    shown_steps = without_setup(steps)
    begin, end = shown_steps[0].begin, datetime.now(UTC)
    hosts = Hosts(bed)
    zone = hosts.on("ctl", "date", "+%:z", quiet=True).strip()
    logs = {node: hosts.on(node, "cat", f"{LOGS}/slurmd.log", quiet=True) for node in nodes}
    jobs = read_jobs(hosts.on("ctl", "cat", f"{LOGS}/slurmctld.log", quiet=True), logs, zone=zone)
    events = list(read_audit(audit_log(api.find(bed).bed)))
    made = [
        *job_intervals(jobs, end=end),
        *pod_intervals(events, end=end, working=played.working),
        *node_intervals(events, nodes, begin=begin, end=end),
    ]
    shown = next((one for one in jobs if one.number == job), None)
    if shown is None or shown.allocated is None or shown.ended is None:
        raise RecordError(f"Slurm's logs do not tell of job {job}")
    found = findings(shown, made)
    found += played.judge(shown, read_pods(events))
    if beside := pods_beside(shown, made):
        raise RecordError(f"pods on the nodes of job {job} while it ran: {' '.join(one.who for one in beside)}")
    told = [Interval("demo", STEP, step.short, step.begin, step.end) for step in shown_steps]
    charts = [
        whole(steps, made, nodes=len(nodes), end=end),
        gantt(
            told,
            made,
            title=f"Job {job} takes {' and '.join(shown.nodes)}; {played.title}",
            zero=shown.allocated,
            window=(shown.allocated - BEFORE, shown.ended + AFTER),
        ),
        *played.more(shown),
    ]
    target = folder / "nodes.html"
    text = page(
        charts,
        intro=f"A Slurm cluster of {len(nodes)} nodes was converted, shared and taken back on "
        f"{begin:%d %B %Y}, {begin:%H:%M} to {end:%H:%M} UTC. Hover over a bar for its exact times.",
        findings=[(one.what, one.value) for one in found],
        steps=[(step.what, f"{step.seconds:.1f}", step.result) for step in steps],
    )
    target.write_text(text, encoding="utf-8")
    return target, found
