# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of the double that change jobs, and those that stop and start the server."""

from __future__ import annotations

import getopt
import re
import signal
import sys
import time
import typing as t

from torque_double import callers, life, sessions
from torque_double.cluster import SERVER
from torque_double.state import Job, Refused, State, mom_runs

UNKNOWN_JOB, BAD_STATE, RUNNING, READ_ONLY = 15001, 15018, 15017, 15003
_ID = re.compile(r"(\d+)(?:\[(\d*)\]|-(\d+))?(?:\.(.+))?")
Action = t.Callable[[State, Job, dict[str, str]], None]


def found_jobs(state: State, word: str) -> list[Job]:
    """Return the job of an id, with or without the server's name; for an array its parent."""
    match = _ID.fullmatch(word)
    if match is None:
        raise Refused(1, f"illegally formed job identifier: {word}")
    bracket = "" if match[2] is None else f"[{match[2]}]"
    # the command has put the server's name behind a bare number
    job = state.jobs.get(f"{match[1]}{bracket}{_sought(state, match[4] or SERVER)}")
    if job is None or job.forgotten:
        raise Refused(UNKNOWN_JOB, "Unknown Job Id Error")
    return [job]


def _sought(state: State, suffix: str) -> str:
    """Return the suffix by which the server looks for a job: beside an alias it finds no name with dots in it."""
    alias = state.server.get("job_suffix_alias", "")
    if state.server.get("display_job_server_suffix", "True") != "True":
        return alias and f".{alias}"
    if not alias:
        return f".{suffix}"
    _server, dot, rest = suffix.partition(".")
    return f".{suffix}" if rest == alias else " none" if dot else f".{suffix}.{alias}"


def qdel(state: State, arguments: list[str]) -> int:
    """`-p` forgets a job at once."""
    return _each(state, "qdel", arguments, "pW:m:t:", _delete)


def qhold(state: State, arguments: list[str]) -> int:
    """A job that runs cannot be held here."""
    return _each(state, "qhold", arguments, "h:t:", _hold)


def qrls(state: State, arguments: list[str]) -> int:
    """Release a user's hold."""
    return _each(state, "qrls", arguments, "h:t:", _release)


def qsig(state: State, arguments: list[str]) -> int:
    """Suspend, resume, or send a signal to a job's processes."""
    return _each(state, "qsig", arguments, "as:", _signal)


def qrerun(state: State, arguments: list[str]) -> int:
    """End a job and queue it again; only operators may."""
    return _each(state, "qrerun", arguments, "f", _rerun)


def qalter(state: State, arguments: list[str]) -> int:
    """Change what may be changed."""
    return _each(state, "qalter", arguments, "N:A:v:l:W:", _alter)


def qterm(state: State, _arguments: list[str]) -> int:
    """Only `-t quick`: what runs goes on."""
    callers.must_be(callers.is_operator(state))
    state.server_is_down = True
    return 0


def pbs_server(state: State, _arguments: list[str]) -> int:
    """Comes back with all jobs as they were."""
    state.server_is_down = False
    return 0


def unreachable(program: str) -> int:
    """What a program says while there is no server."""
    server = f"{SERVER}, error=111" if program == "pbsnodes" else f"{SERVER} (errno=111)"
    end = " (Connection refused)" if program == "pbsnodes" else " Connection refused"
    print(f"{program}: cannot connect to server {server}{end}", file=sys.stderr)
    return {"pbsnodes": 1, "qmgr": 3, "qrun": 2, "qterm": 2}.get(program, 111)


def _each(state: State, program: str, arguments: list[str], options: str, action: Action) -> int:
    try:
        given, words = getopt.getopt(arguments, options)
    except getopt.GetoptError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    status = 0
    for word in words:
        try:
            for job in found_jobs(state, word):
                for part in _parts(state, job):
                    action(state, part, dict(given))
        except Refused as refusal:
            separator = " " if refusal.number > 1 else ""
            name = f" {word if '.' in word else f'{word}.{SERVER}'}" if separator else ""
            print(f"{program}: {refusal.text}{name}", file=sys.stderr)
            status = refusal.status
    return status


def _parts(state: State, job: Job) -> list[Job]:
    if not job.indices:
        return [job]
    return [each for each in state.jobs.values() if each.number == job.number and each.state != "C"]


def _delete(state: State, job: Job, given: dict[str, str]) -> None:
    if "-p" in given:
        callers.must_be(callers.is_manager(state), "MSG=")
        if job.stage:
            job.forgotten = True
        else:
            state.jobs.pop(job.id, None)
        return
    callers.may_change(state, job)
    if job.state == "C":
        raise Refused(BAD_STATE, "Request invalid for state of job MSG=invalid state for job - COMPLETE")
    if job.stage == "run":
        life.ask_to_end(state, job, precancel=True)
        job.exit_status = None
    elif job.stage in ("presetup", "join"):
        job.deleted = mom_runs(state, job.hosts[0])
    elif job.stage == "begin":
        life.ask_to_end(state, job, precancel=True)
    elif not job.stage:
        job.state, job.exit_status, job.completed = "C", life.DELETED, time.time()
        job.completed = time.time()


def _hold(state: State, job: Job, given: dict[str, str]) -> None:
    callers.may_change(state, job)
    if job.state == "C":
        raise Refused(BAD_STATE, "Request invalid for state of job MSG=invalid state for job - COMPLETE")
    job.holds = "".join(sorted({*job.holds, *given.get("-h", "u")}))
    if job.state == "Q":
        job.state = "H"


def _release(state: State, job: Job, given: dict[str, str]) -> None:
    callers.may_change(state, job)
    job.holds = "".join(sorted({*job.holds} - {*given.get("-h", "u")}))
    if job.state == "H" and not job.holds:
        job.state = "Q"


def _signal(state: State, job: Job, given: dict[str, str]) -> None:
    name = given.get("-s", "TERM")
    callers.must_be(callers.is_manager(state) if name in ("suspend", "resume") else callers.is_operator(state))
    if job.state not in "RS":
        raise Refused(BAD_STATE, "Request invalid for state of job")
    number = {"suspend": signal.SIGSTOP, "resume": signal.SIGCONT}.get(name)
    if name == "suspend":
        job.state, job.old_slots = "S", job.slots
    elif name == "resume":
        job.state = "R"
    else:
        number = signal.Signals[f"SIG{name.removeprefix('SIG')}"]
    if job.session and number is not None:
        sessions.end(job.session, number)


def _rerun(state: State, job: Job, _given: dict[str, str]) -> None:
    callers.must_be(callers.is_operator(state))
    if job.state != "R" or job.stage not in ("run", "begin"):
        raise Refused(BAD_STATE, "Request invalid for state of job")
    job.rerun = True
    life.ask_to_end(state, job, precancel=False)


def _alter(state: State, job: Job, given: dict[str, str]) -> None:
    callers.may_change(state, job)
    if "-W" in given and given["-W"].startswith("comment="):
        if not callers.is_operator(state):
            raise Refused(READ_ONLY, "Cannot set attribute, read only or insufficient permission  comment")
        job.comment = given["-W"].partition("=")[2]
    if "-A" in given:
        if job.state == "R":
            raise Refused(RUNNING, "Cannot modify attribute while job running  Account_Name")
        job.account = given["-A"]
    if "-l" in given and job.state == "R":
        callers.must_be(callers.is_operator(state))
    job.name = given.get("-N", job.name)
    if "-v" in given:
        job.variables = [tuple(part.partition("=")[::2]) for part in given["-v"].split(",")]  # type: ignore[misc]
