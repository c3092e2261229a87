# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the double's users do to jobs that are there: `qdel`, `qhold`, `qrls`, `qsig`, `qrerun`."""

from __future__ import annotations

import getopt
import sys
import time
import typing as t

from pbs_double import transitions
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
    _expect(job, "QHR")
    job.held = "".join(sorted({*job.held, *given.get("-h", "u")}))
    job.comment = f"Job held by root on {time.ctime()}"
    if job.state == "Q":
        job.state, job.substate = "H", 20


def _release(_state: State, job: Job, given: dict[str, str]) -> None:
    job.held = "".join(sorted({*job.held} - {*given.get("-h", "u")}))
    if job.state == "H" and not job.held:
        job.state, job.substate, job.comment = "Q", 10, ""


def _signal(state: State, job: Job, given: dict[str, str]) -> None:
    signal = given.get("-s")
    if signal not in ("suspend", "resume"):
        raise Refused(2, f"the double does not know the signal {signal}")
    _expect(job, "R" if signal == "suspend" else "S")
    _ask_mom(state, job)
    if signal == "suspend":
        transitions.suspend(state, job)
    else:
        job.resuming = True


def _rerun(state: State, job: Job, _given: dict[str, str]) -> None:
    _expect(job, "RS")
    _ask_mom(state, job)
    transitions.rerun(state, job)


def _expect(job: Job, states: str) -> None:
    if job.state not in states:
        raise Refused(_BAD_STATE, f"Request invalid for state of job {job.id}")


def _ask_mom(state: State, job: Job) -> None:
    if set(job.hosts[:1]) & state.down:
        raise Refused(222, f"Server could not connect to MOM {job.id}")
