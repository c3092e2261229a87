# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Others' jobs of the batch system: which nodes they have or are expected on, and until when.

What a job takes of a node, the node itself says: by a taint, or by a placeholder. That comes a moment after the batch
system has chosen it, and a pod that is bound in between has to leave again. So only the batch system binds pods to a
node from the first read that has a job there until the node has announced that run. It announces it by its annotation,
or by the placeholder, which takes what the job has like any other pod. And where no read says which nodes those are,
every node may be one of them that the batch system knows.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Final

from placement.model.batch import ForeignRun
from placement.model.objects.node import Node
from placement.model.objects.pod import Pod
from placement.model.slicing import Steps, paced
from placement.policy.backing.node_fit import BATCH_NODE_LABEL, SHARE_MODE_LABEL, node_of
from placement.policy.framework.session import Session
from placement.state.nodes.node_columns import LEASED, UNKNOWN

# A node's annotation names no more than this many at a time, so one that does may have any.
_ANNOUNCED_AT_MOST: Final = 100
# Where placeholders are, and what each says of its lease. A kubelet mirrors them; users make no pods there.
# Jobs of one annotation that are named, and characters of each.
_HOLDERS: Final = 64
_LONGEST_KEY: Final = 128
_STEP: Final = 256
# What nodes of the batch system are marked with; where none is, any may be one.
_MARKS: Final = (SHARE_MODE_LABEL, BATCH_NODE_LABEL)


def close_unknown_nodes(session: Session) -> Steps[None]:
    """Close nodes that jobs may have while the last read is too old, or missing; call this in every cycle."""
    batch_jobs, columns = session.batch_jobs, session.cache.cluster.columns
    limit = batch_jobs.settings.holds_good
    doubted = limit is not None and session.now - batch_jobs.read > limit
    now_so = (doubted, columns.generation)
    if now_so == batch_jobs.foreign.doubted or not (doubted or batch_jobs.foreign.doubted[0]):
        return
    nodes = [node for node in columns.nodes if node is not None]
    marked = {node.name for node in nodes if any(name in _MARKS for name, _value in node.labels)}
    for node, pause in paced(nodes, _STEP):
        unknown = doubted and (node.name in marked or not marked)
        session.cache.cluster.close(node.name, UNKNOWN, closed=unknown)
        if pause:
            yield
    if not doubted:
        session.cache.versions.room += 1
        session.unfinished = True
    batch_jobs.foreign.doubted = now_so


def update_foreign_jobs(session: Session) -> Steps[None]:
    """After each read of all jobs."""
    held: dict[str, list[ForeignRun]] = {}
    expected: dict[str, list[ForeignRun]] = {}
    for job, pause in paced(session.batch_jobs.others, _STEP):
        run = ForeignRun(system=job.system, job=job.id, run=job.run, left=job.left, begins=job.begins)
        for name in {node_of(session, host) for host in job.hosts} - {""}:
            (held if job.runs else expected).setdefault(name, []).append(run)
        if pause:
            yield
    foreign, columns = session.batch_jobs.foreign, session.cache.cluster.columns
    foreign.held, foreign.expected = held, expected
    announced: dict[str, set[str]] = {}
    closed = set()
    for (name, there), pause in paced(held.items(), _STEP):
        if pause:
            yield
        keys = {run.key for run in there}
        row = columns.rows.get(name)
        node = columns.nodes[row] if row is not None else None
        named = _announced(node.leases if node is not None else "")
        # A node that does not name a lease any more has ended it before the batch system says so.
        told = named | foreign.announced.get(name, set())
        if not keys <= told:
            told |= set(_placed(session, name))
        announced[name] = keys & told
        if announced[name] != keys and len(named) < _ANNOUNCED_AT_MOST:
            closed.add(name)
    before = foreign.closed
    # If this is interrupted, every node that is closed must be known to be.
    foreign.closed = before | closed
    for name, pause in paced(foreign.closed, _STEP):
        session.cache.cluster.close(name, LEASED, closed=name in closed)
        if pause:
            yield
    if before - closed:
        # Jobs that found no node must look again, which those of this cycle do not.
        session.cache.versions.room += 1
        session.unfinished = True
    foreign.announced, foreign.closed = announced, frozenset(closed)


def _announced(text: str) -> set[str]:
    """Return the keys in a node's annotation. A forged annotation can open this node alone."""
    try:
        found = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return set()
    return {key for key in found if isinstance(key, str)} if isinstance(found, list) else set()


def _placed(session: Session, node: str) -> Iterator[str]:
    """Yield the keys of leases whose placeholders the node's kubelet has let in."""
    for entry in session.cache.cluster.pods.at_node(node):
        key = lease_of(entry.pod) if entry.charged else ""
        if key:
            yield key


def lease_of(pod: Pod) -> str:
    """Return the key of the lease that the pod is the placeholder of; empty if it is none."""
    try:
        found = json.loads(pod.lease) if pod.lease else None
    except (ValueError, RecursionError):
        return ""
    return "/".join(str(found.get(field)) for field in ("wlm", "job", "run")) if isinstance(found, dict) else ""


def holders_of(node: Node, *, now: float | None) -> Iterator[tuple[float, str]]:
    """Yield each job that has the node by its annotations, in one sentence, behind the seconds until it ends.

    `now` is in seconds since 1970, None if that is not known. These annotations are the controllers'. They name jobs of
    Slurm, too, which the daemon asks nothing, and need not name all jobs. Of many or long names the first are read.
    """
    ends = dict(word.partition("=")[::2] for word in _words(node.held_until))
    for key in filter(None, map(str.strip, _words(node.held_by))):
        system, _slash, job = printable(key).rpartition("/")[0].partition("/")
        name = f"job {job} of {system}" if job else f"job {printable(key)}"
        left = _seconds_until(ends.get(key, ""), now)
        yield left, name if left == inf else f"{name} ends in {_shown(left)} at the latest"


def names_more_holders(node: Node) -> bool:
    """Return whether the annotation names more jobs than `holders_of` reads."""
    return node.held_by.count(",") >= _HOLDERS


def _words(text: str) -> list[str]:
    return text.split(",", _HOLDERS)[:_HOLDERS]


def printable(text: str) -> str:
    """Return a name from outside for a message: cut, and with question marks for what cannot be printed."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_LONGEST_KEY])


def _seconds_until(text: str, now: float | None) -> float:
    """Return the seconds until a time with its zone, none once it is past; infinity where that is not known."""
    try:
        at = datetime.fromisoformat(text) if text and now is not None else None
        return max(0.0, at.timestamp() - now) if at is not None and at.tzinfo is not None and now is not None else inf
    except (ValueError, OverflowError):
        return inf


def sentences(runs: Mapping[str, Sequence[ForeignRun]], *, since: float) -> Iterator[str]:
    """Describe runs of jobs on nodes, `since` seconds after the read that they are from; the next events first."""
    known = [(_order(run), node, run) for node, there in runs.items() for run in there]
    for _unused, node, run in sorted(known, key=lambda item: (item[0], item[1], item[2].key)):
        yield f"on node {node} {describe_job(run.job, left=run.left, begins=run.begins, since=since)}"


def describe_job(job: str, *, left: float | None, begins: float | None, since: float) -> str:
    """Describe one job in one sentence."""
    if begins is not None:
        return f"job {job} is expected to start in {_shown(begins - since)}"
    if left is None:
        return f"job {job} has no walltime"
    return f"job {job} ends in {_shown(left - since)} at the latest"


def _order(run: ForeignRun) -> float:
    return next((time for time in (run.begins, run.left) if time is not None), float("inf"))


def _shown(seconds: float) -> str:
    whole = max(0, round(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
