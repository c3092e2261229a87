# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the double's users do to jobs that are there: `qdel`, `qhold`, `qrls`, `qsig`, `qrerun`."""

from __future__ import annotations

import getopt
import math
import sys
import time
import typing as t

from pbs_double import as_json, transitions
from pbs_double.callers import caller, may_change
from pbs_double.cluster import SERVER
from pbs_double.jobs import found_job, parts_of
from pbs_double.state import Job, Refused, State

_BAD_STATE = 168
Action = t.Callable[[State, Job, dict[str, str]], None]


def qdel(state: State, arguments: list[str]) -> int:
    """`-x` takes jobs out of the history, `-W force` does not ask the MoM."""
    return _each(state, "qdel", arguments, "xW:", _delete)


def qhold(state: State, arguments: list[str]) -> int:
    """A job that runs keeps running."""
    return _each(state, "qhold", arguments, "h:", _hold)


def qrls(state: State, arguments: list[str]) -> int:
    """A job that is not held is none the worse for it."""
    return _each(state, "qrls", arguments, "h:", _release)


def qsig(state: State, arguments: list[str]) -> int:
    """Only `-s suspend` and `-s resume`."""
    return _each(state, "qsig", arguments, "s:", _signal)


def qrerun(state: State, arguments: list[str]) -> int:
    """Ends a job and queues it again."""
    return _each(state, "qrerun", arguments, "", _rerun)


def pbs_release_nodes(state: State, arguments: list[str]) -> int:
    """Only `-j JOB -a`: a job keeps its primary host."""
    given = dict(getopt.getopt(arguments, "j:a")[0])
    try:
        job = found_job(state, given["-j"])
        may_change(job)
        _expect(job, "R")
    except Refused as refusal:
        print(f"pbs_release_nodes: {refusal.text}", file=sys.stderr)
        return refusal.number
    transitions.release(state, job)
    return 0


def qterm(state: State, _arguments: list[str]) -> int:
    """Only `-t quick`: what runs goes on."""
    state.server_is_down = True
    return 0


def pbs_server(state: State, _arguments: list[str]) -> int:
    """Comes back with all jobs; what they had to say is forgotten, and nodes are heard of a little later."""
    state.server_is_down, state.server_started, state.server_hangs_from = False, time.time(), math.inf
    for job in state.jobs.values():
        job.comment = "" if job.state in "RSQ" else job.comment
    return 0


def unreachable(program: str, arguments: list[str]) -> int:
    """What a program says while there is no server."""
    if "json" in arguments and program == "qstat":
        sys.stdout.write(as_json.answer(None, {}))
    print(f"Connection refused\n{program}: cannot connect to server {SERVER} (errno=15010)", file=sys.stderr)
    return {"qstat": 255, "pbsnodes": 1, "qmgr": 3}.get(program, 162)


def _each(state: State, program: str, arguments: list[str], options: str, action: Action) -> int:
    """Each id is tried, and the last refusal is the status."""
    status = 0
    given, words = getopt.getopt(arguments, options)
    for word in words:
        try:
            job = found_job(state, word)
            if job.state == "F" and ("-x", "") not in given:
                raise Refused(35, f"Job has finished {job.id}")
            action(state, job, dict(given))
        except Refused as refusal:
            print(f"{program}: {refusal.text}", file=sys.stderr)
            status = refusal.number
    return status


def _delete(state: State, job: Job, given: dict[str, str]) -> None:
    may_change(job)
    if job.state == "F":
        del state.jobs[job.id]
        return
    if given.get("-W") == "force":
        transitions.forget(state, job)
        return
    _expect(job, "QHRSB")
    for each in [*parts_of(state, job), job]:
        _ask_mom(state, each)
        each.deleted = True
        if each.state in "QHRS" and not any(part.state == "E" for part in parts_of(state, each)):
            transitions.delete(state, each)


def _hold(_state: State, job: Job, given: dict[str, str]) -> None:
    may_change(job, owner="s" not in given.get("-h", "u"))
    _expect(job, "QHR")
    job.held = "".join(sorted({*job.held, *given.get("-h", "u")}))
    job.comment = f"Job held by {caller()} on {time.ctime()}"
    if job.state == "Q":
        job.state, job.substate = "H", 20


def _release(_state: State, job: Job, given: dict[str, str]) -> None:
    may_change(job, owner="s" not in given.get("-h", "u"))
    job.held = "".join(sorted({*job.held} - {*given.get("-h", "u")}))
    if job.state == "H" and not job.held:
        job.state, job.substate, job.comment = "Q", 10, ""


def _signal(state: State, job: Job, given: dict[str, str]) -> None:
    signal = given.get("-s")
    if signal not in ("suspend", "resume"):
        raise Refused(2, f"the double does not know the signal {signal}")
    may_change(job, owner=False)
    _expect(job, "R" if signal == "suspend" else "S")
    _ask_mom(state, job)
    if signal == "suspend":
        transitions.suspend(state, job)
    else:
        job.resuming = True


def _rerun(state: State, job: Job, _given: dict[str, str]) -> None:
    may_change(job, owner=False)
    _expect(job, "RS")
    _ask_mom(state, job)
    transitions.rerun(state, job)


def _expect(job: Job, states: str) -> None:
    if job.state not in states:
        raise Refused(_BAD_STATE, f"Request invalid for state of job {job.id}")


def _ask_mom(state: State, job: Job) -> None:
    if set(job.hosts[:1]) & state.down:
        raise Refused(222, f"Server could not connect to MOM {job.id}")
