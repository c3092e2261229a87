# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is so now, for `/metrics`: read from the daemon's parts on each request."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from heapq import nlargest
from typing import Final, TypeVar

from placement.app.loop.loop import Unanswered
from placement.app.process.wiring import Assembly
from placement.app.telemetry.metrics import Labels
from placement.policy.jobs.job import Job

Measure = TypeVar("Measure")

# Who scrapes gets the other numbers, however busy the loop is.
_ASK_SECONDS: Final = 1.0
# Jobs that are looked at between two events: a few milliseconds of the loop.
_JOBS_AT_ONCE: Final = 2000
# Jobs that are named, those first that lack most.
_MOST_NAMED: Final = 1000


def add_gauges(parts: Assembly) -> None:
    """Add all gauges to the daemon's metrics."""
    simple: dict[str, tuple[str, Callable[[], float]]] = {
        "leader": ("Whether we may write", parts.leadership.may_write),
        "inbox_batches": ("Batches of events not taken in", parts.loop.waiting),
        "bindings_under_way": ("Bindings not answered", lambda: parts.carrier.binding),
        "writes_under_way": ("Other writes not answered", lambda: parts.carrier.writing),
        "events_to_tell": ("Events not told yet", lambda: len(parts.announcer)),
        "overfull_nodes": (
            "Nodes whose pods request more than they offer",
            lambda: len(parts.loop.scheduler.overfull.nodes),
        ),
        "resident_bytes": ("Memory", _resident),
    }
    for name, (text, read) in simple.items():
        parts.metrics.gauge(name, text, partial(_single, read))
    parts.metrics.gauge("queue_pending_pods", "Pods that wait for a node, by queue", partial(_pending, parts))
    parts.metrics.gauge("kept_nodes", "Nodes kept for the first job of a queue, by queue", partial(_kept, parts))
    parts.metrics.gauge("unschedule_task_count", "Pods that jobs lack to their minimum", partial(_lacking, parts))
    parts.metrics.gauge("unschedule_job_count", "Jobs without nodes for their minimum", partial(_unready, parts))
    parts.metrics.gauge(
        "watch_silence_seconds",
        "How long ago each source was last heard of",
        lambda: {
            (("source", item.source.name),): time.monotonic() - item.health.heard
            for item in parts.reflectors
            if not item.health.absent
        },
    )
    parts.metrics.count(
        "plugin_failures_total",
        "Calls of a plugin of the site that raised or gave an answer that cannot be used, by plugin and method",
        lambda: {
            (("plugin", plugin), ("method", method)): float(number)
            for (plugin, method), number in list(parts.loop.scheduler.plugin_faults.counts.items())
        },
    )
    parts.metrics.count(
        "graph_drift_total",
        "What the resource graph had wrong, by what it was; it should stay at zero",
        lambda: {(("what", what),): float(number) for what, number in list(parts.topology.drifts.items())},
    )
    parts.metrics.count(
        "watch_relists_total",
        "Whole lists since the start",
        lambda: {(("source", item.source.name),): float(item.health.relists) for item in parts.reflectors},
    )


def _single(read: Callable[[], float]) -> dict[Labels, float]:
    return {(): float(read())}


def _pending(parts: Assembly) -> dict[Labels, float]:
    found = Counter[str]()
    try:
        found.update(
            dict.fromkeys(parts.loop.ask(lambda: list(parts.loop.scheduler.cache.tree.by_name), _ASK_SECONDS), 0)
        )
        for queue, number in _of_jobs(parts, lambda job: (job.queue, job.pending)):
            found[queue] += number
    except Unanswered:
        return {}
    return {(("queue", name),): float(number) for name, number in found.items()}


def _kept(parts: Assembly) -> dict[Labels, float]:
    # A tuple that is never changed: no need to ask the loop.
    active = parts.loop.scheduler.session.reservations.active
    return {(("queue", item.job.queue),): float(len(item.nodes)) for item in active if not item.paused}


def _lacking(parts: Assembly) -> dict[Labels, float]:
    try:
        named = nlargest(_MOST_NAMED, _of_jobs(parts, partial(_lack, parts)))
    except Unanswered:
        return {}
    return {(("job_id", name),): float(number) for number, name in named}


def _unready(parts: Assembly) -> dict[Labels, float]:
    try:
        return _single(lambda: sum(1 for _unused in _of_jobs(parts, partial(_lack, parts))))
    except Unanswered:
        return {}


def _lack(parts: Assembly, job: Job) -> tuple[int, str] | None:
    """kube-batch's rule: jobs that have the pods for their minimum, and not the nodes."""
    lacks = job.min_member - job.ready
    if lacks <= 0 or job.shut_out or not parts.loop.scheduler.cache.queue.has_min_member(job):
        return None
    return (lacks, str(job))


def _of_jobs(parts: Assembly, measure: Callable[[Job], Measure | None]) -> Iterator[Measure]:
    """Yield the measure of each job, some at a time, so that decisions are not held up."""
    loop = parts.loop
    jobs = loop.ask(lambda: list(loop.scheduler.cache.jobs.by_key.values()), _ASK_SECONDS)
    for start in range(0, len(jobs), _JOBS_AT_ONCE):
        some = jobs[start : start + _JOBS_AT_ONCE]
        yield from loop.ask(partial(_measured, some, measure), _ASK_SECONDS)


def _measured(jobs: list[Job], measure: Callable[[Job], Measure | None]) -> list[Measure]:
    return [found for job in jobs if (found := measure(job)) is not None]


def _resident() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
