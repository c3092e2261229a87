# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the double shows of jobs and nodes: attributes in their order, and these as XML or as text.

XML is escaped as far as Torque does it: bytes that no XML may have come out as they went in.
"""

from __future__ import annotations

import time
import typing as t

from torque_double import callers, schedule
from torque_double.cluster import SERVER
from torque_double.state import Job, State, ranges

Attribute = tuple[str, str]
_TIMES = frozenset(["ctime", "mtime", "qtime", "etime", "start_time", "comp_time"])


def attributes(state: State, job: Job, now: float) -> list[Attribute]:
    """All that the caller may see of a job; times are numbers."""
    privileged = callers.is_operator(state)
    found = [("Job_Name", job.name), ("Job_Owner", f"{job.owner}@{SERVER}")]
    if job.accepted is not None and job.state in "RSC":
        found += [("resources_used.cput", "00:00:00"), ("resources_used.walltime", "00:00:00")]
    found += [("job_state", job.state), ("queue", job.queue), ("server", SERVER)]
    found += [("Account_Name", job.account)] if job.account is not None else []
    found += [("ctime", str(int(job.submitted))), ("Error_Path", f"{SERVER}:{_path(job, 'e')}")]
    if job.slots and not job.indices:
        found.append(("exec_host", job.exec_host))
        wanted = schedule.wishes(job)
        if any(wish.gpus for wish in wanted):
            parts = [f"{host}-gpu/{n}" for host, wish in zip(job.hosts, wanted, strict=False) for n in range(wish.gpus)]
            found.append(("exec_gpus", "+".join(parts)))
    found += [("Hold_Types", job.holds or "n"), ("Join_Path", "n"), ("Keep_Files", "n"), ("Mail_Points", "a")]
    found += [("mtime", str(int(job.started or job.submitted))), ("Output_Path", f"{SERVER}:{_path(job, 'o')}")]
    found += [("Priority", "0"), ("qtime", str(int(job.submitted))), ("Rerunable", "True")]
    found += [(f"Resource_List.{name}", value) for name, value in job.resources.items()]
    found.append(("Resource_List.nodect", str(len(schedule.wishes(job)))))
    if privileged:
        found.append(("Resource_List.neednodes", job.resources.get("nodes", "1")))
    found += [("session_id", str(job.session))] if job.session else []
    if privileged:
        found.append(("substate", str(_substate(job, now))))
    found.append(("Variable_List", ",".join(f"{name}={_quoted(value)}" for name, value in job.variables)))
    found += [("euser", job.owner), ("egroup", job.owner)] if privileged else []
    found += [("queue_rank", str(job.number)), ("queue_type", "E")] if privileged else []
    found += [("comment", job.comment)] if job.comment else []
    found.append(("etime", str(int(job.submitted))))
    found += [("exit_status", str(job.exit_status))] if job.exit_status is not None and job.state in "CQ" else []
    found.append(("submit_args", job.arguments))
    if job.index is not None or job.indices:
        found.append(("job_array_request", ranges(job.indices) if job.indices else str(job.index)))
        found += [("job_array_id", str(job.index))] if job.index is not None else []
    found += [("start_time", str(int(job.accepted)))] if job.accepted is not None and job.state in "RSC" else []
    found += _walltime(job, now)
    found += [("start_count", str(job.runs))] if job.runs else []
    found += [("fault_tolerant", "False")]
    found += [("comp_time", str(int(job.completed)))] if job.completed is not None else []
    found += [("job_type", job.jobtype)] if job.jobtype else []
    found += [("submit_host", SERVER)]
    found += [("proxy_user", job.proxy)] if job.proxy else []
    found += [("node_exclusive", "True")] if job.exclusive else []
    found += [("x", job.extension)] if job.extension is not None else []
    return found


def _walltime(job: Job, now: float) -> list[Attribute]:
    limit = schedule.seconds_of(job.resources.get("walltime", ""))
    if limit is None or job.started is None or job.state != "R":
        return []
    left = int(limit - (now - job.started))
    return [("Walltime.Remaining", str(left))] if left >= 0 else [("Walltime.Exceeded", str(left))]


def _substate(job: Job, now: float) -> int:
    if job.state == "R":
        return 42 if job.stage in ("run", "end", "finish") or now - (job.started or now) > 5 else 40
    return {"Q": 10, "H": 20, "W": 30, "S": 42, "C": 59}[job.state]


def _path(job: Job, kind: str) -> str:
    given = job.out if kind == "o" else job.err
    return given or f"{job.directory}/{job.name}.{kind}{job.number}"


def _quoted(value: str) -> str:
    for sign in ("\\", ",", '"', "'", "\n"):
        value = value.replace(sign, f"\\{sign}")
    return value


def escaped(text: str) -> str:
    """Text of an element."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def elements(found: t.Iterable[Attribute]) -> str:
    """A dot in a name becomes a level; neighbours below one name share it."""
    text, group = "", ""
    for name, value in found:
        first, dot, rest = name.partition(".")
        if group and group != first:
            text, group = f"{text}</{group}>", ""
        if dot:
            text += "" if group else f"<{first}>"
            group = first
            text += f"<{rest}>{escaped(value)}</{rest}>"
        else:
            text += f"<{name}>{escaped(value)}</{name}>"
    return f"{text}</{group}>" if group else text


def job_text(name: str, found: t.Iterable[Attribute], *, wrapped: bool) -> str:
    """`qstat -f`: readable, and forged by a value with a newline."""
    lines = [f"Job Id: {name}"]
    for attribute, value in found:
        shown = time.ctime(int(value)) if attribute in _TIMES else value
        line = f"    {attribute} = {shown}"
        while wrapped and len(line) > 79:
            lines.append(line[:79])
            line = "\t" + line[79:]
        lines.append(line)
    return "\n".join(lines) + "\n\n"
