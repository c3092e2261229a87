# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pbsnodes and qstat answer as XML, read into typed records. Pure.

Of a job, only attributes are read that its owner cannot write, and its name never. Text output is never read: a newline
in an account's name begins a line of an attribute there.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import typing as t

from .. import _quantity
from .._pbs.errors import NoAnswerError
from . import elements

_JOB_ID = re.compile(r"(\d{1,12})(?:\[(\d{0,7})\]|-(\d{1,7}))?((?:\.[A-Za-z0-9._-]+)?)\Z", re.ASCII)
_SLOTS_OF_JOB = re.compile(r"([\d,-]+)/([^,/\s]+)(?:,\s*|\Z)", re.ASCII)
_PLACE = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)/([\d,-]+)\Z", re.ASCII)
_MOST_SLOTS = 100_000


class Node(t.NamedTuple):
    """A node; ``states`` has at least one word, and ``message`` is what its MoM complains of.

    ``slots`` is np, ``used`` how many of them have a job. ``memory`` is what its MoM says it has, in bytes, or None.
    """

    name: str
    states: frozenset[str]
    note: str
    message: str
    slots: int
    used: int
    properties: tuple[str, ...]
    gpus: int
    jobs: tuple[str, ...]
    memory: int | None


class Job(t.NamedTuple):
    """A job, or one element of an array; ``run`` counts its starts.

    Times are seconds since 1970, None where there is none. ``hosts`` says how many slots it has of each, its first host
    first; a job that has ended has none.
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
    nodes: str
    hosts: tuple[dict[str, t.Any], ...]


def nodes(text: str) -> list[Node]:
    """Read `pbsnodes -x`."""
    found = [_node(fields) for fields in elements.records(text, "Node", program="pbsnodes")]
    if not found:
        raise NoAnswerError("pbsnodes printed no node")
    return found


def jobs(text: str) -> list[Job]:
    """Read `qstat -t -x`; elements of arrays one by one. It prints nothing at all where there is no job."""
    if not text.strip():
        return []
    return [_job(fields) for fields in elements.records(text, "Job", program="qstat")]


def _node(fields: elements.Record) -> Node:
    name = fields.get("name", "")
    states = frozenset(word.strip() for word in fields.get("state", "").split(",")) - {""}
    if not name or not states:
        raise NoAnswerError(f"pbsnodes: node {name[:60]!a} has no state")
    status = dict(part.partition("=")[::2] for part in fields.get("status", "").split(","))
    shares = _jobs_of(name, fields.get("jobs", ""))
    return Node(
        name=name,
        states=states,
        note=fields.get("note", ""),
        message=status.get("message", ""),
        slots=_number(fields.get("np")),
        used=sum(shares.values()),
        properties=tuple(word for word in fields.get("properties", "").split(",") if word),
        gpus=_number(fields.get("gpus")),
        jobs=tuple(shares),
        memory=_size(status.get("physmem", "")),
    )


def _jobs_of(name: str, text: str) -> dict[str, int]:
    """Return how many slots each job has, from ``0-1,3/35.srv,2/31[1].srv``."""
    found: dict[str, int] = {}
    at = 0
    while at < len(text):
        match = _SLOTS_OF_JOB.match(text, at)
        if match is None:
            raise NoAnswerError(f"pbsnodes: node {name[:60]!a} has jobs {text[:60]!a}: expected slots/job")
        found[match[2]] = found.get(match[2], 0) + _count(match[1])
        at = match.end()
    return found


def _job(fields: elements.Record) -> Job:
    name, state = fields.get("Job_Id", ""), fields.get("job_state", "")
    match = _JOB_ID.match(name)
    if match is None or not state:
        raise NoAnswerError(f"qstat: {name[:60]!a} is no job with a state")
    index = match[2] or match[3]
    return Job(
        id=name,
        array_id=f"{match[1]}[]{match[4]}" if index else None,
        array_index=int(index) if index else None,
        run=_number(fields.get("start_count")),
        state=state,
        substate=_number(fields.get("substate")),
        user=fields.get("euser") or fields.get("Job_Owner", "").partition("@")[0],
        queue=fields.get("queue", ""),
        submitted=_number(fields.get("qtime")) or None,
        started=_number(fields.get("start_time")) or None,
        nodes=fields.get("Resource_List.nodes", ""),
        # one that has ended keeps its hosts to be looked at
        hosts=() if state == "C" else places(fields.get("exec_host", "")),
    )


def places(exec_host: str) -> tuple[dict[str, t.Any], ...]:
    """Return each host once with its slots, from ``n2/0-3+n1/0``, or ``n2/0+n2/1`` of an older Torque."""
    found: dict[str, int] = {}
    for part in exec_host.split("+") if exec_host else ():
        match = _PLACE.match(part)
        if match is None:
            raise NoAnswerError(f"exec_host {exec_host[:60]!a}: expected host/slots joined by +")
        found[match[1]] = found.get(match[1], 0) + _count(match[2])
    return tuple({"host": host, "slots": slots} for host, slots in found.items())


def _count(text: str) -> int:
    """Return the number of slots in ``0-3,7``."""
    total = 0
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise NoAnswerError(f"slots {text[:60]!a}: expected numbers and ranges")
        total += int(last) - int(first) + 1 if dash else 1
    if not 0 < total <= _MOST_SLOTS:
        raise NoAnswerError(f"slots {text[:60]!a}: expected at most {_MOST_SLOTS}")
    return total


def _number(text: str | None) -> int:
    return int(text) if text is not None and re.match(r"\d{1,15}\Z", text, re.ASCII) else 0


def _size(text: str) -> int | None:
    try:
        return _quantity.pbs_size(text)
    except _quantity.QuantityError:
        return None
