# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time in the double: jobs end, jobs start, and nodes say what is on them."""

from __future__ import annotations

import re
import time

from pbs_double import transitions
from pbs_double.homes import mom_runs
from pbs_double.state import Job, Share, State

_SESSION = 2.0  # seconds from the start to the session
_UNHEARD = 5.0  # seconds from the server's start to the first word of a MoM
_NO_AMOUNTS = ("ncpus", "host", "vnode", "arch")
_DOWN = "node down: communication closed"
_UNIT = {"": 1, "b": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3, "tb": 1024**4, "k": 1024, "m": 1024**2, "g": 1024**3}


def bytes_of(text: str) -> int:
    """A size as PBS writes it."""
    match = re.fullmatch(r"(\d+)([a-z]*)", text.lower())
    return int(match[1]) * _UNIT[match[2]] if match else 0


def seconds_of(text: str) -> int:
    """``3600`` or ``01:00:00``."""
    total = 0
    for part in text.split(":"):
        total = total * 60 + int(part)
    return total


def advance(state: State, now: float) -> None:
    """All that has happened until now; without a server nobody hears of it."""
    if state.server_is_down:
        return
    _look_for_moms(state, now)
    for job in list(state.jobs.values()):
        if job.after or job.started is None or set(job.hosts[:1]) & state.down:
            continue
        if job.state == "S" and job.resuming and all(_has_room_for(state, share) for share in job.shares):
            transitions.resume(state, job)
        if job.state == "R":
            if job.substate == 41 and now - job.started >= _SESSION:
                job.substate = 42
            limit = job.resources.get("walltime")
            over = job.started + seconds_of(limit) if limit else None
            if job.deleted:
                transitions.delete(state, job)
            elif over is not None and job.ends is not None and over < job.ends and now >= over:
                transitions.end(state, job, substate=93, status=-29, said=" and exceeded resource walltime")
            elif job.ends is not None and now >= job.ends:
                transitions.end(state, job, substate=92, status=0, said=" and finished")
    if state.server.get("scheduling") == "True":
        for job in sorted(state.jobs.values(), key=lambda job: (job.number, job.index or 0)):
            if job.state == "Q" and not job.indices and state.queues[job.queue].get("started") == "True":
                _try(state, job)
    _arrays(state)


def _look_for_moms(state: State, now: float) -> None:
    for name, node in state.nodes.items():
        if mom_runs(state.folder, node["Mom"]) == (name not in state.down):
            continue
        node["last_state_change_time"] = str(int(now))
        if name in state.down:
            state.down.remove(name)
            if node.get("comment") == _DOWN:
                del node["comment"]
        else:
            state.down.add(name)
            node.setdefault("comment", _DOWN)


def used(state: State, vnode: str) -> tuple[int, int, list[tuple[str, int]]]:
    """Cores and bytes that are taken of a vnode, and its jobs with their slots."""
    cores = memory = 0
    jobs = []
    for job in state.jobs.values():
        for share in job.shares if job.state in "RE" else []:
            if share.vnode == vnode:
                cores += share.ncpus
                memory += bytes_of(share.amounts.get("mem", "0"))
                jobs.append((job.id, share.slot))
    return cores, memory, sorted(jobs, key=lambda each: each[1])


def node_state(state: State, vnode: str) -> str:
    """The words of its state."""
    attributes = state.nodes[vnode]
    cores, _memory, jobs = used(state, vnode)
    words = ["down"] if vnode in state.down else []
    if time.time() - state.server_started < _UNHEARD:
        words = ["state-unknown", "down"]
    words += ["offline"] if {"offline", "offline_by_mom"} & set(attributes) else []
    if any(_exclusive(job) and job.state == "R" and _is_on(job, vnode) for job in state.jobs.values()):
        words.append("job-exclusive")
    elif jobs and cores >= int(attributes["resources_available.ncpus"]):
        words.append("job-busy")
    return ",".join(words) or "free"


def _try(state: State, job: Job) -> None:
    total = sum(int(node["resources_available.ncpus"]) for node in state.nodes.values())
    asked = sum(int(chunk["ncpus"]) for chunk in job.chunks)
    if asked > total:
        free = total - sum(used(state, vnode)[0] for vnode in state.nodes)
        job.comment = f"Can Never Run: Insufficient amount of resource: ncpus (R: {asked} A: {free} T: {total})"
        return
    shares = _placed(state, job)
    if shares is None:
        job.comment = "Not Running: Not enough free nodes available"
        return
    job.shares, job.state, job.substate = shares, "R", 41
    transitions.begin(state, job)


def _placed(state: State, job: Job) -> list[Share] | None:
    """The first hosts that fit; ``scatter`` takes each only once, ``pack`` one for all."""
    taken: dict[str, tuple[int, int]] = {}
    shares: list[Share] = []
    for number, chunk in enumerate(job.chunks):
        for host in sorted({node["Mom"] for node in state.nodes.values()}):
            before = {share.host for share in shares}
            if chunk.get("host", host) != host or ("scatter" in job.place and host in before):
                continue
            if "pack" in job.place and before and host not in before:
                continue
            vnodes = [name for name in sorted(state.nodes) if state.nodes[name]["Mom"] == host]
            parts = _split(state, job, chunk, [name for name in vnodes if chunk.get("vnode", name) == name], taken)
            if not parts:
                continue
            slots = {slot for vnode in vnodes for _id, slot in used(state, vnode)[2]}
            slots |= {share.slot for share in shares if share.host == host}
            slot = next(number for number in range(len(slots) + 1) if number not in slots)
            for vnode, cores, memory, amounts in parts:
                before_here = taken.get(vnode, (0, 0))
                taken[vnode] = (before_here[0] + cores, before_here[1] + memory)
                shares.append(Share(vnode, cores, amounts, slot, host, number))
            break
        else:
            return None
    return shares


def _split(
    state: State, job: Job, chunk: dict[str, str], vnodes: list[str], taken: dict[str, tuple[int, int]]
) -> list[tuple[str, int, int, dict[str, str]]]:
    """A chunk on the first vnode that has room for all of it, otherwise over as many as it needs; or nowhere."""
    cores, memory = int(chunk["ncpus"]), bytes_of(chunk.get("mem", "0"))
    amounts = {name: _in_kb(value) for name, value in chunk.items() if name not in _NO_AMOUNTS}
    free = {vnode: _free(state, job, vnode, taken.get(vnode, (0, 0))) for vnode in vnodes}
    for vnode, room in free.items():
        if room is not None and cores <= room[0] and memory <= room[1]:
            return [(vnode, cores, memory, amounts)]
    parts = []
    for vnode, room in free.items():
        here = (min(cores, room[0]), min(memory, room[1])) if room is not None else (0, 0)
        if any(here):
            parts.append((vnode, *here, {"mem": f"{here[1] // 1024}kb"} if here[1] else {}))
            cores, memory = cores - here[0], memory - here[1]
    return parts if (cores, memory) == (0, 0) else []


def _free(state: State, job: Job, vnode: str, taken: tuple[int, int]) -> tuple[int, int] | None:
    """Cores and bytes that this job could have of a vnode; None: it may have none."""
    attributes = state.nodes[vnode]
    cores, memory, jobs = used(state, vnode)
    bound = attributes.get("queue")
    words = set(node_state(state, vnode).split(","))
    if words & {"down", "offline", "job-exclusive"} or (_exclusive(job) and jobs):
        return None
    if (bound or job.queue) != job.queue or (not bound and _has_nodes(state, job.queue)):
        return None
    total = int(attributes["resources_available.ncpus"]), bytes_of(attributes["resources_available.mem"])
    return total[0] - cores - taken[0], total[1] - memory - taken[1]


def _arrays(state: State) -> None:
    for parent in [job for job in state.jobs.values() if job.indices]:
        parts = [job for job in state.jobs.values() if job.number == parent.number and job.index is not None]
        begun = [job.started for job in parts if job.started is not None]
        if begun and parent.started is None:
            parent.started, parent.state, parent.substate = min(begun), "B", 70
            parent.comment = f"Job Array Began at {time.strftime('%a %b %d at %H:%M', time.localtime(parent.started))}"
        if parent.state == "B" and all(job.state == "F" for job in parts):
            parent.state = "F"
            parent.substate, parent.exit_status = (91, 271) if parent.deleted else (92, 0)
            for job in [] if state.history else [parent, *parts]:
                del state.jobs[job.id]


def _has_room_for(state: State, share: Share) -> bool:
    free = int(state.nodes[share.vnode]["resources_available.ncpus"]) - used(state, share.vnode)[0]
    return share.ncpus <= free


def _has_nodes(state: State, queue: str) -> bool:
    return any(node.get("queue") == queue for node in state.nodes.values())


def _exclusive(job: Job) -> bool:
    return "excl" in job.place


def _is_on(job: Job, vnode: str) -> bool:
    return any(share.vnode == vnode for share in job.shares)


def _in_kb(value: str) -> str:
    match = re.fullmatch(r"\d+(b|[kmgt]b?)", value.lower())
    return f"{-(-bytes_of(value) // 1024)}kb" if match else value
