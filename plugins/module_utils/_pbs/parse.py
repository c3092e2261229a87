# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pbsnodes and qstat answer as JSON, read into typed records. Pure.

Their JSON is made by parsing every value as JSON first: text that looks like a number, a list or null comes back as
one, in another spelling. So text is taken only from fields whose values can never look so, or is turned back into text
and known to be inexact (comments). Of a job, no field is read that its owner writes freely.

An answer that lacks what every answer has is no answer (`NoAnswerError`): with the server down, qstat prints valid JSON
without jobs.

PRIVATE to the collection.
"""

from __future__ import annotations

import calendar
import json
import re
import time
import typing as t

from .. import _quantity
from .._shared import pbs_json
from .errors import NoAnswerError

_NAMES = frozenset(["arch", "host", "vnode"])
_JOB_ID = re.compile(r"(\d+)(?:\[(\d*)\])?(\.\S+)\Z", re.ASCII)


class Node(t.NamedTuple):
    """A vnode. ``host`` is the machine it is on, which may have several; ``states`` has at least one word."""

    name: str
    host: str
    mom: str
    states: frozenset[str]
    comment: str
    queue: str
    sharing: str
    version: str
    jobs: tuple[str, ...]
    available: dict[str, t.Any]
    assigned: dict[str, t.Any]


class Job(t.NamedTuple):
    """A job, or one sub-job of an array; ``run`` counts its starts.

    Times are seconds since 1970, None where there is none. ``chunks`` is what it has of each vnode, a vnode once for
    each time it is named.
    """

    id: str
    array_id: str | None
    array_index: int | None
    run: int
    state: str
    substate: int
    user: str
    queue: str
    submitted: int | None
    started: int | None
    placement: str
    chunks: tuple[dict[str, t.Any], ...]


class Queue(t.NamedTuple):
    """A queue; one that does not execute jobs hands them on to others."""

    name: str
    execution: bool


def queues(text: str) -> list[Queue]:
    """Read `qstat -Q -f -F json`."""
    found = _section(text, "qstat", "Queue", needed=False)
    return [Queue(name, fields.get("queue_type") == "Execution") for name, fields in found.items()]


def server_host(text: str) -> str:
    """Return the machine that the server is on, from `qstat -B -f -F json`."""
    for name, fields in _section(text, "qstat", "Server", needed=True).items():
        return _text(fields.get("server_host", name))
    raise NoAnswerError("qstat -B showed no server")


def nodes(text: str) -> list[Node]:
    """Read `pbsnodes -av -F json`."""
    return [_node(name, fields) for name, fields in _section(text, "pbsnodes", "nodes", needed=True).items()]


def jobs(text: str) -> list[Job]:
    """Read `qstat -t -f -F json`, printed with UTC as the time zone; the parent of an array is one of them."""
    return [_job(name, fields) for name, fields in _section(text, "qstat", "Jobs", needed=False).items()]


def chunks(exec_vnode: str) -> tuple[dict[str, t.Any], ...]:
    """Return what is taken of each vnode, sizes in bytes: ``(a:ncpus=2:mem=1gb)+(b[0]:ncpus=1+b[1]:ncpus=1)``."""
    try:
        found = pbs_json.chunks(exec_vnode)
    except pbs_json.AnswerError as error:
        raise NoAnswerError(str(error)) from error
    return tuple(
        {"vnode": vnode, "resources": {name: _amount(value) for name, value in amounts}}
        for chunk in found
        for vnode, amounts in chunk
    )


def _amount(value: str) -> int | str:
    """Return a count or a size in bytes; anything else stays text."""
    try:
        return _quantity.pbs_size(value)
    except _quantity.QuantityError:
        return value


def _section(text: str, program: str, key: str, *, needed: bool) -> dict[str, dict[str, t.Any]]:
    try:
        return pbs_json.section(pbs_json.answer(text, program), key, program, needed=needed)
    except pbs_json.AnswerError as error:
        raise NoAnswerError(str(error)) from error


def _node(name: str, fields: dict[str, t.Any]) -> Node:
    available = _resources(fields.get("resources_available"))
    states = frozenset(str(fields.get("state", "")).split(",")) - {""}
    if not states:
        raise NoAnswerError(f"pbsnodes: node {name[:60]!a} has no state")
    jobs = fields.get("jobs", [])
    return Node(
        name=name,
        host=str(available.get("host") or fields.get("Mom", name)),
        mom=str(fields.get("Mom", "")),
        states=states,
        comment=_text(fields.get("comment", "")),
        queue=_text(fields.get("queue", "")),
        sharing=str(fields.get("sharing", "")),
        version=str(fields.get("pbs_version", "")),
        jobs=tuple(dict.fromkeys(str(job) for job in jobs)) if isinstance(jobs, list) else (),
        available=available,
        assigned=_resources(fields.get("resources_assigned")),
    )


def _resources(values: t.Any) -> dict[str, t.Any]:
    """Return sizes in bytes; a name stays one, though it may look like a size or have been read as a number."""
    found = values if isinstance(values, dict) else {}
    return {
        name: _text(value) if name in _NAMES else _amount(value) if isinstance(value, str) else value
        for name, value in found.items()
    }


def _job(name: str, fields: dict[str, t.Any]) -> Job:
    match = _JOB_ID.match(name)
    state = fields.get("job_state")
    if match is None or not isinstance(state, str):
        raise NoAnswerError(f"qstat: {name[:60]!a} is no job with a state")
    placed, run = fields.get("exec_vnode"), pbs_json.run_of(fields) or 0
    if placed is not None and not isinstance(placed, str):
        raise NoAnswerError(f"qstat: job {name[:60]!a} has exec_vnode {placed!a}")
    resources = fields.get("Resource_List")
    return Job(
        id=name,
        # a sub-job that has not run yet shows neither its array nor its index, and what it shows is its array's
        array_id=f"{match[1]}[]{match[3]}" if match[2] else None,
        array_index=int(match[2]) if match[2] else None,
        run=run,
        state=state,
        substate=_number(fields.get("substate")),
        # the owner is user@host; euser is known once the job is queued
        user=_text(fields.get("euser") or str(fields.get("Job_Owner", "")).partition("@")[0]),
        queue=_text(fields.get("queue", "")),
        submitted=_time(fields.get("qtime")),
        started=_time(fields.get("stime")) if run else None,
        placement=_text(resources.get("place", "")) if isinstance(resources, dict) else "",
        chunks=chunks(placed) if placed else (),
    )


def _number(value: t.Any) -> int:
    return value if isinstance(value, int) else 0


def _text(value: t.Any) -> str:
    """Return a value as text that may have been read as a number; one that PBS has bent already stays bent."""
    return value if isinstance(value, str) else json.dumps(value)


def _time(text: t.Any) -> int | None:
    """Read a text of ctime, printed in UTC and in English."""
    try:
        return calendar.timegm(time.strptime(text, "%a %b %d %H:%M:%S %Y"))
    except (TypeError, ValueError):
        return None
