# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job's way from its start to its end: which scripts its hosts run, in which order, and what follows from each.

presetup (first host), join (each sister: prologue.parallel), begin (first host: prologue), run, end (each sister:
epilogue.parallel), finish (first host: epilogue). qstat shows R for all of it.
"""

from __future__ import annotations

import time
import typing as t

from torque_double.state import Job, State, Task, mom_runs

FAILED, RETRY, SISTER_FAILED, MOM_REQUEUED = -2, -14, -3, -4
OVER_LIMIT, DELETED = -11, 271
Slots = list[tuple[str, list[int]]]


def start(state: State, job: Job, slots: Slots, now: float) -> None:
    """The server has sent it to its first host."""
    job.state, job.slots, job.started, job.accepted = "R", slots, now, now
    job.comment = time.strftime("Job started on %a %b %d at %H:%M", time.localtime(now))
    job.runs += 1
    job.session = job.watcher = 0
    job.dropped, job.waiting = set(), set()
    job.failed_sister = job.deleted = job.rerun = job.over = False
    _go(state, job, "presetup", job.hosts[:1])


def _go(state: State, job: Job, stage: str, hosts: t.Iterable[str]) -> None:
    """Have scripts of a stage run on hosts, or go on where there are none."""
    job.stage, job.waiting = stage, set(hosts) - job.dropped
    for host in sorted(job.waiting):
        state.tasks.append(Task(host, stage, job.id, job.runs))
    if not job.waiting:
        _next(state, job)


def _next(state: State, job: Job) -> None:
    if job.stage == "presetup":
        _go(state, job, "join", job.hosts[1:])
    elif job.stage == "join":
        if job.failed_sister:
            leave(state, job, SISTER_FAILED)
        elif job.deleted or job.forgotten:
            leave(state, job, 0)
        else:
            _go(state, job, "begin", job.hosts[:1])
    elif job.stage == "end":
        job.watcher = 0
        _go(state, job, "finish", job.hosts[:1])
    elif job.stage == "finish":
        _close(state, job)


def leave(state: State, job: Job, status: int) -> None:
    """The job's work is over or has not begun: its hosts clean up, sisters first."""
    job.exit_status = status
    _go(state, job, "end", job.hosts[1:])


def _close(state: State, job: Job) -> None:
    job.stage, job.session = "", 0
    if job.forgotten:
        state.jobs.pop(job.id, None)
    elif job.exit_status in (RETRY, SISTER_FAILED, MOM_REQUEUED) or job.rerun:
        requeue(job)
    else:
        job.state, job.completed = "C", time.time()


def requeue(job: Job) -> None:
    """It waits again, and shows no hosts."""
    job.state, job.stage, job.slots, job.rerun = "Q", "", [], False
    job.waiting = set()


def of_task(state: State, task: Task) -> Job | None:
    """The job of a task, if it is still in that run."""
    job = state.jobs.get(task.job)
    return job if job is not None and job.runs == task.run else None


def reported(state: State, task: Task, code: int, message: str) -> None:
    """A host has run its scripts; what it has to tell is sent with its next status."""
    if task in state.tasks:
        state.tasks.remove(task)
    if message and task.kind in ("presetup", "join", "end", "precancel"):
        state.messages[task.host] = message
    job = of_task(state, task)
    if job is None or job.stage != task.kind:
        return
    if task.kind == "join" and code:
        job.failed_sister = True
        job.dropped.add(task.host)
    if task.kind == "begin":
        begun(state, job, code)
        return
    job.waiting.discard(task.host)
    if not job.waiting:
        _next(state, job)


def begun(state: State, job: Job, code: int) -> None:
    """The prologue of the first host is over."""
    if code == 0:
        if job.deleted or job.forgotten:
            leave(state, job, DELETED)
        elif job.rerun:
            leave(state, job, RETRY)
        else:
            job.stage = "run"
    else:
        leave(state, job, FAILED if code == 1 and not job.deleted else DELETED if job.deleted else RETRY)


def ended(state: State, job: Job, code: int) -> None:
    """The job's own process has ended."""
    if job.stage == "run":
        leave(state, job, code)


def ask_to_end(state: State, job: Job, *, precancel: bool) -> None:
    """What the first host's MoM has to do; one that does not run never hears of it."""
    host = job.hosts[0]
    if mom_runs(state, host):
        job.deleted = job.deleted or not job.rerun
        state.tasks.append(Task(host, "precancel" if precancel else "kill", job.id, job.runs))


def mom_came_back(state: State, host: str, how: str) -> list[int]:
    """A MoM starts; the sessions that it has to kill are returned."""
    state.messages.pop(host, None)
    doomed: list[int] = []
    for job in [job for job in state.jobs.values() if host in job.hosts and job.state in "RS" and job.stage]:
        mine = [task for task in state.tasks if task.job == job.id and task.host == host]
        if host == job.hosts[0]:
            doomed += _first_came_back(state, job, how, mine)
            continue
        job.dropped.add(host)
        for task in [task for task in mine if task.kind == "end"]:
            reported(state, task, 0, "")
        for task in mine:
            task.taken = False
    return doomed


def _first_came_back(state: State, job: Job, how: str, mine: list[Task]) -> list[int]:
    if job.stage in ("run", "begin") and how in ("-q", "-r"):
        session = job.session
        for task in mine:
            state.tasks.remove(task)
        if how == "-r":
            leave(state, job, MOM_REQUEUED)
            return [session] if session else []
        job.exit_status = MOM_REQUEUED
        requeue(job)
    elif job.stage == "begin":
        for task in mine:
            state.tasks.remove(task)
        job.exit_status = RETRY
        requeue(job)
    elif job.stage == "run":
        if job.over or how == "-P":
            leave(state, job, 0)
    else:
        for task in mine:
            task.taken = False
    return []
