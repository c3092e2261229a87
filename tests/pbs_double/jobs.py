# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`qsub` and `qstat` of the double."""

from __future__ import annotations

import getopt
import re
import sys
import time
import typing as t

from pbs_double import as_json, schedule
from pbs_double.callers import caller, may_submit
from pbs_double.cluster import SERVER
from pbs_double.state import VERSION, Attributes, Job, Refused, State

_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,230}")
_CHUNK = re.compile(r"(?:(\d+):)?(\w+=[^:=+]+(?::\w+=[^:=+]+)*)")
_KNOWN = ("ncpus", "mem", "vmem", "ngpus", "walltime", "cput", "host", "vnode", "arch")
_ID = re.compile(r"(\d+)(\[\d*\])?(?:\.\S+)?")


def qsub(state: State, arguments: list[str]) -> int:
    """Accepts a job and says its id; a script on stdin is a job that ends at once."""
    try:
        options, command = getopt.getopt(arguments, "N:l:q:J:v:hj:o:e:A:P:m:")
        given = dict(options)
        if "-N" in given and not _NAME.fullmatch(given["-N"]):
            raise getopt.GetoptError("illegal -N value")
    except getopt.GetoptError as error:
        print(f"qsub: {error}", file=sys.stderr)
        return 2
    number = state.next_job
    try:
        state.next_job += 1  # a refused job has taken its number
        job = _made(state, number, options, command or ["/bin/true"], " ".join(arguments))
    except Refused as refusal:
        print(f"qsub: {refusal.text}", file=sys.stderr)
        return refusal.number
    state.jobs[job.id] = job
    if job.indices:
        first, last = (int(part) for part in job.indices.split("-"))
        for index in range(first, last + 1):
            part = _made(state, number, options, command or ["/bin/true"], " ".join(arguments))
            part.indices, part.index = "", index
            state.jobs[part.id] = part
    print(job.id)
    return 0


def _made(state: State, number: int, options: list[tuple[str, str]], command: list[str], words: str) -> Job:
    given = dict(options)
    resources = [part for option, text in options if option == "-l" for part in _split(text)]
    asked = dict(part.partition("=")[::2] for part in resources)
    queue = given.get("-q", state.server.get("default_queue", ""))
    if queue not in state.queues:
        raise Refused(170, "Unknown queue")
    if state.queues[queue].get("enabled") != "True":
        raise Refused(173, "Queue is not enabled")
    may_submit(state, queue)
    for name in asked:
        if name not in (*_KNOWN, "select", "place", "nodes"):
            raise Refused(187, f"Unknown resource Resource_List.{name}")
    counts = {name: asked.pop(name) for name in ("mem", "ncpus", "ngpus", "vmem") if name in asked}
    select = asked.pop("select", None)
    place = asked.pop("place", "free" if select or "-J" in given else "pack")
    select = select or "1:" + ":".join(f"{name}={value}" for name, value in {"ncpus": "1", **counts}.items())
    chunks = _chunks(select)
    totals: Attributes = {}
    sizes = [chunk["mem"] for chunk in chunks if "mem" in chunk]
    if sizes:
        totals["mem"] = sizes[0] if len(sizes) == 1 else f"{sum(map(schedule.bytes_of, sizes)) // 1024**2}mb"
    totals["ncpus"] = str(sum(int(chunk["ncpus"]) for chunk in chunks))
    totals.update(nodect=str(len(chunks)), place=place, select=select)
    if "walltime" in asked:
        seconds = schedule.seconds_of(asked["walltime"])
        totals["walltime"] = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    variables = ["PBS_O_HOME=/root", "PBS_O_WORKDIR=/", "PBS_O_SYSTEM=Linux"]
    variables += [given["-v"]] if "-v" in given else []
    now = time.time()
    return Job(
        number=number,
        name=given.get("-N", "STDIN"),
        queue=queue,
        chunks=chunks,
        select=select,
        place=place,
        resources=totals,
        command=command,
        arguments=words,
        variables=",".join([*variables, f"PBS_O_QUEUE={queue}", f"PBS_O_HOST={SERVER}"]),
        submitted=now,
        rank=int(now * 1e6),
        state="H" if "-h" in given else "Q",
        substate=20 if "-h" in given else 10,
        held="u" if "-h" in given else "",
        account=given.get("-A"),
        indices=given.get("-J", ""),
        owner=caller(),
        project=given.get("-P", "_pbs_project_default"),
    )


def _split(text: str) -> list[str]:
    """``select=1:ncpus=1,walltime=5`` at the commas."""
    return re.split(r",(?=\w+=)", text)


def _chunks(select: str) -> list[dict[str, str]]:
    chunks = []
    for part in select.split("+"):
        match = _CHUNK.fullmatch(part)
        if match is None:
            raise Refused(166, "Illegal attribute or resource value Resource_List.select")
        amounts = dict(pair.split("=", 1) for pair in match[2].split(":"))
        for name in amounts:
            if name not in _KNOWN:
                raise Refused(187, f"Unknown resource: {name}")
        chunks += [{"ncpus": "1", **amounts} for _copy in range(int(match[1] or 1))]
    return chunks


def qstat(state: State, arguments: list[str]) -> int:
    """Jobs as a table or JSON; queues and the server as JSON."""
    options, words = getopt.getopt(arguments, "tfxBQF:")
    given = dict(options)
    if "-B" in given:
        shown = {"server_state": "Active", "server_host": SERVER, **state.server, "pbs_version": VERSION}
        sys.stdout.write(as_json.answer("Server", {SERVER: as_json.grouped(shown)}))
        return 0
    if "-Q" in given:
        queues = {name: as_json.grouped(attributes) for name, attributes in state.queues.items()}
        sys.stdout.write(as_json.answer("Queue", queues))
        return 0
    jobs, status = _chosen(state, words, with_parts="-t" in given, finished="-x" in given)
    if given.get("-F") == "json":
        shown_jobs = {job.id: _as_json(state, job) for job in jobs}
        sys.stdout.write(as_json.answer("Jobs" if jobs else None, shown_jobs))
    elif jobs:
        print("Job id            Name             User              Time Use S Queue")
        print("----------------  ---------------- ----------------  -------- - -----")
        for job in jobs:
            used = "       0" if job.started is None or job.indices else "00:00:00"
            print(f"{job.id:<17} {job.name:<16.16} {job.owner:<16}  {used} {job.state} {job.queue:<16}")
    return status


def _chosen(state: State, words: t.Sequence[str], *, with_parts: bool, finished: bool) -> tuple[list[Job], int]:
    if finished and not state.history:
        for word in words or [""]:
            print(f"qstat: PBS is not configured to maintain job history {_in_full(word) or word}", file=sys.stderr)
        return [], 0
    jobs = sorted(state.jobs.values(), key=lambda job: (job.number, job.index or 0))
    status = 0
    if words:
        jobs = []
        for word in words:
            try:
                job = found_job(state, word)
                if job.state == "F" and not finished:
                    raise Refused(35, f"{job.id} Job has finished, use -x or -H to obtain historical job information")
                jobs.append(job)
            except Refused as refusal:
                print(f"qstat: {refusal.text}", file=sys.stderr)
                status = refusal.number
    shown = [job for job in jobs if (finished or job.state != "F") and (job.index is None or with_parts or words)]
    return shown, status


def found_job(state: State, word: str) -> Job:
    """The job of an id as people write it."""
    name = _in_full(word)
    if not name:
        raise Refused(170, f"Unknown queue destination {word}")
    if name not in state.jobs:
        raise Refused(153, f"Unknown Job Id {name}")
    return state.jobs[name]


def _in_full(word: str) -> str:
    match = _ID.fullmatch(word)
    return f"{match[1]}{match[2] or ''}.{SERVER}" if match else ""


def parts_of(state: State, job: Job) -> list[Job]:
    """The sub-jobs of an array."""
    return [part for part in list(state.jobs.values()) if job.indices and part.number == job.number and part != job]


def _as_json(state: State, job: Job) -> dict[str, t.Any]:
    parent = state.jobs[f"{job.number}[].{SERVER}"] if job.index is not None else job
    waiting = job.index is not None and job.runs == 0
    began = parent.started if waiting else job.started
    shown: Attributes = {"job_state": job.state, "queue": job.queue, "server": SERVER, "ctime": _time(job.submitted)}
    if job.shares:
        shown.update(exec_host=job.exec_host, exec_vnode=job.exec_vnode)
    shown.update(Hold_Types=job.held or "n", Priority="0", qtime=_time(job.submitted), Rerunable="True")
    shown.update({f"Resource_List.{name}": job.resources[name] for name in sorted(job.resources)})
    shown["schedselect"] = job.select
    if began is not None:
        shown["stime"] = _time(began)
    if job.substate == 42:
        shown["session_id"] = str(10000 + job.number)
    shown["substate"] = str(job.substate)
    found = {"Job_Name": job.name, "Job_Owner": f"{job.owner}@{SERVER}", **as_json.grouped(shown)}
    pairs = (pair.partition("=") for pair in job.variables.split(","))
    found["Variable_List"] = {name: as_json.coerced(value) for name, _mark, value in pairs}
    later: Attributes = {"euser": job.owner, "egroup": job.owner, "queue_rank": str(job.rank), "queue_type": "E"}
    if parent.comment if waiting else job.comment:
        later["comment"] = parent.comment if waiting else job.comment
    if job.account is not None:
        later["Account_Name"] = job.account
    later["etime"] = _time(job.submitted)
    if job.runs:
        later["run_count"] = str(job.runs)
    if job.exit_status is not None:
        later["Exit_status"] = str(job.exit_status)
    later["Submit_arguments"] = job.arguments
    if job.indices:
        later.update(_array(state, job))
    elif job.index is not None and not waiting:
        # a sub-job that has not run yet shows neither
        later.update(array_id=parent.id, array_index=str(job.index))
    if job.runs:
        later["run_version"] = str(job.runs)
    return {**found, **as_json.grouped(later), **({} if waiting else {"project": job.project})}


def _array(state: State, job: Job) -> Attributes:
    parts = parts_of(state, job)
    counts = {word: sum(part.state in states for part in parts) for word, states in _COUNTED.items()}
    remaining = [str(part.index) for part in parts if part.state == "Q"]
    return {
        "array": "True",
        "array_state_count": " ".join(f"{word}:{count}" for word, count in counts.items()),
        "array_indices_submitted": job.indices,
        "array_indices_remaining": ",".join(remaining) or "-",
    }


_COUNTED = {"Queued": "Q", "Running": "R", "Exiting": "E", "Expired": "F"}


def _time(when: float) -> str:
    return time.ctime(int(when))
