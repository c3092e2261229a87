# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `qstat -t -f -F json` says, read into jobs. Pure.

Its JSON is made by parsing every value as JSON first, so text that looks like a number comes back as one. With the
server down it is valid and has no jobs. So only fields that can never look so are taken as they are. Whatever else is
of the wrong type is no answer. The caller of the command judges the exit status.
"""

import calendar
import re
import time
from typing import Any, Final

from placement.ledger.identity import USER
from placement.model.batch import BatchJob, HostShare
from placement.shared import pbs_json, quantity

_ID: Final = re.compile(r"(\d+)(?:\[(\d*)\])?\.[A-Za-z0-9_.-]+", re.ASCII)
# What a chunk of exec_host or exec_vnode begins with; vnodes of one host differ in what stands in brackets.
_HOST: Final = re.compile(r"(?:^|[+(])\(?([A-Za-z0-9_.-]+)(?=[\[/:])", re.ASCII)
_DURATION: Final = re.compile(r"(\d{1,9}):(\d\d):(\d\d)", re.ASCII)
# The variable of a job that has its tag. PBS reads values of variables as JSON where it can: a tag cannot be that.
VARIABLE: Final = "CONVERGED_TAG"
PREFIX: Final = "cv-"
# Which daemon's it is, the UID of what it backs, and the namespace of that. Former versions had it in the job's name,
# before the name of the pod or group.
_TAG: Final = re.compile(
    rf"{PREFIX}([0-9a-f]{{8}})_([A-Za-z0-9-]{{1,64}})(?:_(?:([a-z0-9-]{{1,63}})_)?[A-Za-z0-9_.+-]*)?", re.ASCII
)
_ENDING: Final = frozenset("EFXM")
# The substate of a job that runs and whose hosts have not all begun it.
_BEGINNING: Final = 41
# Words of a placement by which a job has its hosts, or vnodes of them, for itself.
_ALONE: Final = frozenset({"excl", "exclhost"})
_MOST_SHARES: Final = 100_000
_KIB: Final = 1024
Json = dict[str, Any]
# Holds the job's place until it is deleted; the work is done by the pods' containers.
HOLDER: Final = ("/bin/sleep", "infinity")
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
AnswerError = pbs_json.AnswerError


def read_jobs(text: str, *, owner: str, queue: str | None = None) -> tuple[BatchJob, ...]:
    """Return all jobs. A job has a tag only if our own user submitted it: no other user can alter it.

    Jobs of other users with a pod's or group's whole UID have one, too, if they do nothing but hold a place. The daemon
    may have submitted them as that user. A user that makes one by hand has at most made a job that ends. The owner of a
    tag is not seen here. With `queue` none has that is in another.
    """
    whole = pbs_json.answer(text, "qstat")
    jobs = pbs_json.section(whole, "Jobs", "qstat", needed=False)
    return tuple(_job(name, fields, whole["timestamp"], owner, queue) for name, fields in jobs.items())


def _job(name: str, fields: Json, now: int, owner: str, queue: str | None) -> BatchJob:
    match = _ID.fullmatch(name)
    if match is None:
        raise AnswerError(f"qstat: {name[:60]!a} is no job")
    state = fields.get("job_state")
    if not isinstance(state, str) or not state:
        raise AnswerError(f"qstat: job {name} has no state")
    placed = fields.get("exec_vnode")
    runs = state == "R" and placed is not None
    # No other user can submit as ours, so a tag alone makes no job one of ours.
    user = str(fields.get("Job_Owner", "")).partition("@")[0]
    tag = _tag(fields) if match[2] is None else None
    elsewhere = queue is not None and fields.get("queue") != queue
    if tag is not None and user != owner and (elsewhere or not _only_holds(user, tag[2], fields)):
        tag = None
    shares: tuple[HostShare, ...] = ()
    # While it begins its hosts have not heard of it yet, or are making room.
    begins_now = runs and fields.get("substate") == _BEGINNING
    if runs and (tag is not None or begins_now):
        try:
            shares = _shares(name, placed, fields.get("exec_host"))
        except AnswerError:
            if tag is not None and user == owner:
                raise
            # A user's own job may be of a form that none of ours has, and must not blind us to all others.
            tag = None
    estimated = fields.get("estimated") if state == "Q" else None
    estimated = estimated if isinstance(estimated, dict) else {}
    begins = _seconds_until(estimated.get("start_time"), now)
    return BatchJob(
        id=name,
        run=pbs_json.run_of(fields) or 0,
        state=state,
        system="pbs",
        runs=runs,
        ends=state in _ENDING,
        tag=tag[2] if tag is not None else "",
        mark=tag[1] if tag is not None else "",
        namespace=(tag[3] or "") if tag is not None else "",
        owner=user if tag is not None and user != owner else "",
        queue=str(fields.get("queue", "")),
        shares=shares,
        whole=begins_now and not _ALONE.isdisjoint(_placement(fields).split(":")),
        hosts=_hosts(fields.get("exec_host") if runs else estimated.get("exec_vnode")),
        left=_left(fields, now) if runs else None,
        begins=max(0.0, begins) if begins is not None else None,
        comment=str(fields.get("comment", ""))[:300],
    )


def _tag(fields: Json) -> re.Match[str] | None:
    """Return the tag in the job's variables, or, of a job of a former version, in its name."""
    variables = fields.get("Variable_List")
    tag = variables.get(VARIABLE) if isinstance(variables, dict) else None
    return _TAG.fullmatch(str(fields.get("Job_Name", "") if tag is None else tag))


def read_down(text: str) -> frozenset[str]:
    """Return the hosts that an answer of `pbsnodes -F json` says are down.

    A server that has only just started says `state-unknown,down` of all hosts, which is no knowledge.
    """
    nodes = pbs_json.section(pbs_json.answer(text, "pbsnodes"), "nodes", "pbsnodes", needed=True)
    states = {name: str(node.get("state", "")) for name, node in nodes.items()}
    words = {name: {word.strip() for word in state.split(",")} for name, state in states.items()}
    return frozenset(name for name, said in words.items() if "down" in said and "state-unknown" not in said)


def _placement(fields: Json) -> str:
    resources = fields.get("Resource_List")
    return str(resources.get("place", "")) if isinstance(resources, dict) else ""


def _only_holds(user: str, tag: str, fields: Json) -> bool:
    """Return whether nothing is lost with the job, whatever user made it."""
    words = str(fields.get("Submit_arguments", "")).split()
    return bool(USER.fullmatch(user) and _UUID.fullmatch(tag)) and tuple(words[-3:]) == ("--", *HOLDER)


def _shares(name: str, exec_vnode: Any, exec_host: Any) -> tuple[HostShare, ...]:
    """`(a:ncpus=2:mem=1kb)+(b[0]:ncpus=1+b[1]:ncpus=1)` on `a/0*2+b/0*0`: what the job has of each host."""
    if not isinstance(exec_vnode, str) or not isinstance(exec_host, str):
        raise AnswerError(f"qstat: job {name} runs nowhere")
    chunks, hosts = pbs_json.chunks(exec_vnode), exec_host.split("+")
    if len(chunks) != len(hosts) or len(hosts) > _MOST_SHARES:
        raise AnswerError(f"qstat: job {name} runs on {exec_vnode[:80]!a} at {exec_host[:80]!a}")
    return tuple(_share(name, chunk, host) for chunk, host in zip(chunks, hosts, strict=True))


def _share(name: str, chunk: tuple[pbs_json.Vnode, ...], host: str) -> HostShare:
    totals: dict[str, int] = {}
    for resource, value in (amount for _vnode, amounts in chunk for amount in amounts):
        try:
            amount = quantity.pbs_size(value)
        except quantity.QuantityError:
            continue
        if resource == "mem":
            amount = -(-amount // _KIB)
        totals[resource] = totals.get(resource, 0) + amount
    name_of_host, slash, _slot = host.partition("/")
    if not slash or "ncpus" not in totals:
        raise AnswerError(f"qstat: job {name} has {str(chunk)[:80]!a} of {host[:80]!a}")
    cores, memory = totals.pop("ncpus"), totals.pop("mem", 0)
    return HostShare(host=name_of_host, cores=cores, memory=memory, devices=tuple(sorted(totals.items())))


def _hosts(placed: Any) -> tuple[str, ...]:
    """Those of `a/0*2+b/0`, or of `(a:ncpus=2)+(b[0]:ncpus=1+b[1]:ncpus=1)`, where PBS says only vnodes."""
    return tuple(dict.fromkeys(_HOST.findall(placed))) if isinstance(placed, str) else ()


def _left(fields: Json, now: int) -> float | None:
    """Return the seconds until the walltime is over, or None without a walltime.

    PBS shows a job as running once it was sent for execution, and its start time when its hosts have taken it up. Until
    then all of its walltime is left.
    """
    resources = fields.get("Resource_List")
    limit = _DURATION.fullmatch(str(resources.get("walltime"))) if isinstance(resources, dict) else None
    if limit is None:
        return None
    begun = _seconds_until(fields["stime"], now) if "stime" in fields else 0.0
    hours, minutes, seconds = (int(part) for part in limit.groups())
    return begun + hours * 3600 + minutes * 60 + seconds if begun is not None else None


def _seconds_until(date: Any, now: int) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(str(date), "%a %b %d %H:%M:%S %Y")) - now)
    except ValueError:
        return None
