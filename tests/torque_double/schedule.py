# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes a job gets, and what becomes of jobs and nodes as time passes, as pbs_server and pbs_sched do it."""

from __future__ import annotations

import re
import time
import typing as t

from torque_double import life
from torque_double.state import Job, Node, Refused, State, last_seen

_NO_ANSWER = 40  # seconds that the server waits beyond node_check_rate


class Wish(t.NamedTuple):
    """One host that a job wants."""

    name: str
    slots: int
    gpus: int
    properties: frozenset[str]


def wishes(job: Job) -> list[Wish]:
    """``2:ppn=4``, ``n2:ppn=2+n1``, ``1:gpus=1:fast``; what else is asked for means nothing here."""
    found: list[Wish] = []
    for part in job.resources.get("nodes", "1").split("+"):
        first, *rest = part.split(":")
        amounts = dict(word.split("=", 1) for word in rest if "=" in word)
        properties = frozenset(word for word in rest if "=" not in word)
        slots, gpus = int(amounts.get("ppn", 1)), int(amounts.get("gpus", 0))
        number, name = (int(first), "") if first.isdigit() else (1, first)
        found += [Wish(name, slots, gpus, properties)] * number
    return found


def check_feasible(state: State, job: Job) -> None:
    """Refuse what no set of nodes could give."""
    free = {name: node.np for name, node in state.nodes.items()}
    if _chosen(state, wishes(job), free) is None:
        text = "cannot locate feasible nodes (nodes file is empty, all systems are busy, or no nodes have the requested"
        raise Refused(15038, f"Job exceeds queue resource limits MSG={text} feature)")


def _chosen(state: State, wanted: list[Wish], free: dict[str, int]) -> list[tuple[str, int]] | None:
    order = list(free) if len(wanted) == 1 else list(reversed(free))
    found: list[tuple[str, int]] = []
    for wish in wanted:
        fits = [
            name
            for name in order
            if wish.name in ("", name)
            and wish.slots <= free[name]
            and wish.gpus <= state.nodes[name].gpus
            and wish.properties <= {*state.nodes[name].properties.split(",")}
            and name not in [taken for taken, _slots in found]
        ]
        if not fits:
            return None
        found.append((fits[0], wish.slots))
    return found


def used(state: State, host: str) -> dict[int, Job]:
    """Slot → job; a suspended job has given its slots away."""
    jobs = [job for job in state.jobs.values() if job.state == "R" and not job.forgotten]
    return {slot: job for job in jobs for name, slots in job.slots if name == host for slot in slots}


def is_full(state: State, host: str) -> bool:
    """Whether a node takes no more jobs, as all slots are given or one job has it alone."""
    taken = used(state, host)
    return len(taken) >= state.nodes[host].np or any(job.exclusive for job in taken.values())


def node_words(state: State, host: str, now: float) -> list[str]:
    """The words of a node's state; one that is nothing else is free."""
    node = state.nodes[host]
    words = ["down"] if is_down(state, host, node, now) else []
    words += ["offline"] if node.offline else []
    words += ["job-exclusive"] if is_full(state, host) else []
    return words or ["free"]


def is_down(state: State, host: str, node: Node, now: float) -> bool:
    """A node is down by its MoM's message, or as its MoM has been silent for long."""
    silent = now - last_seen(state, host) > int(state.server.get("node_check_rate", 150)) + _NO_ANSWER
    return node.reset or silent or bool(node.message and state.server.get("down_on_error") != "False")


def seconds_of(text: str) -> float | None:
    """``01:00:00`` or ``60``; None for none."""
    if not re.fullmatch(r"(?:\d+:){0,3}\d+", text):
        return None
    found = 0
    for part in text.split(":"):
        found = found * 60 + int(part)
    return float(found)


def advance(state: State, now: float) -> None:
    """Let the time pass: jobs that are over long enough go, and those that can start do."""
    keep = int(state.server.get("keep_completed", 300))
    for name, job in list(state.jobs.items()):
        if job.state == "C" and job.completed is not None and now - job.completed > keep:
            del state.jobs[name]
    for job in [job for job in state.jobs.values() if job.indices]:
        _advance_array(state, job)
    if state.server.get("scheduling") != "True":
        return
    for job in [job for job in state.jobs.values() if job.state == "Q" and not job.indices]:
        _try(state, job, now)


def _try(state: State, job: Job, now: float) -> None:
    if state.queues.get(job.queue, {}).get("started") != "True":
        return
    if "procs" in job.resources:
        job.comment = "Not Running: PBS Error: Unknown node MSG=no node matches"
        return
    free = {
        name: state.nodes[name].np - len(used(state, name))
        for name in state.nodes
        if node_words(state, name, now) == ["free"] and not (job.exclusive and used(state, name))
    }
    chosen = _chosen(state, wishes(job), free)
    if chosen is None:
        job.comment = "Not Running: Not enough of the right type of nodes available"
        return
    slots = []
    for host, count in chosen:
        taken = used(state, host)
        slots.append((host, [slot for slot in range(state.nodes[host].np) if slot not in taken][:count]))
    life.start(state, job, slots, now)


def _advance_array(state: State, parent: Job) -> None:
    """Elements held by the array's limit go on as others end; the parent ends with its last element."""
    elements = [job for job in state.jobs.values() if job.number == parent.number and job.index is not None]
    if parent.at_once:
        room = parent.at_once - sum(job.state in "QR" for job in elements)
        for job in [job for job in elements if job.state == "H" and job.holds == "l"][: max(room, 0)]:
            job.state, job.holds = "Q", ""
    if all(job.state == "C" for job in elements) and parent.state != "C":
        parent.state, parent.completed = "C", time.time()
    elif parent.state != "C":
        parent.state = "R" if any(job.state == "R" for job in elements) else "Q"
