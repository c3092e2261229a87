# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that are lost with their node: they are deleted, but no kubelet is left to say that they have ended. Pure.

Such a pod stays in the API, and would hold its job of the batch system for ever. It is taken for lost when two
witnesses agree, independently of each other. Kubernetes marks the node unreachable, which it does when the kubelet's
Lease and status are silent, and has done so for the time of the settings. Then the batch system says that the host is
down. Anything else is no proof, and neither is silence of the batch system: the pod holds its job.

A lost pod no longer counts for its job, which ends if no other pod holds it. The pod itself is left to the API. A pod
whose node is back before that holds its job again.
"""

from typing import Final

from placement.model.messages.action import AskHosts, PodLost
from placement.policy.backing.orphans import OPEN
from placement.policy.backing.release import job_of
from placement.policy.framework.session import Session
from placement.policy.jobs.job import Task

# The taint that the node controller of Kubernetes sets. A kubelet may not change the taints of its node.
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
# Seconds between two questions to the batch system, and for which its answer holds good.
_PAUSE: Final = 10.0
_GOOD: Final = 60.0


def look_for_lost(session: Session) -> None:
    """Find the pods that are lost with their nodes, and ask the batch system about nodes that may be down."""
    batch_jobs, now = session.batch_jobs, session.now
    hanging = [task for task in session.cache.releasing.values() if _hangs(session, task)]
    batch_jobs.silent = {task.node: batch_jobs.silent.get(task.node, now) for task in hanging}
    lost: dict[str, str] = {}
    asked: set[str] = set()
    for task in hanging:
        due, host = batch_jobs.silent[task.node] + batch_jobs.settings.lost, batch_jobs.hosts.get(task.node, "")
        if now < due or not host:
            continue
        if not batch_jobs.live(session.cache.tags.of[task.uid]):
            # There is no job to end: what was found out before is enough.
            lost |= {task.uid: host} if task.uid in batch_jobs.lost else {}
            continue
        asked.add(host)
        if host in batch_jobs.down and batch_jobs.heard >= due and now - batch_jobs.heard <= _GOOD:
            lost[task.uid] = host
    for uid in [uid for uid in batch_jobs.lost if uid not in lost]:
        _found_again(session, uid)
    for uid, host in lost.items():
        if uid not in batch_jobs.lost:
            _lose(session, session.cache.jobs.tasks[uid], host)
    if asked and now >= batch_jobs.ask_hosts:
        batch_jobs.ask_hosts = now + _PAUSE
        session.actions.append(AskHosts(hosts=tuple(sorted(asked))))


def _hangs(session: Session, task: Task) -> bool:
    """Return whether the pod of a job is deleted, and its node is there and marked unreachable."""
    columns = session.cache.cluster.columns
    row = columns.rows.get(task.node)
    node = columns.nodes[row] if row is not None else None
    if node is None or not task.pod.terminating or task.uid not in session.cache.tags.of:
        return False
    return any(taint.key == UNREACHABLE for taint in node.taints)


def _lose(session: Session, task: Task, host: str) -> None:
    batch_jobs, pod = session.batch_jobs, task.pod
    batch_jobs.lost[task.uid] = host
    seconds = session.now - batch_jobs.silent[task.node]
    message = (
        f"node {task.node} has been unreachable for {seconds:.0f} s and host {host} is down: "
        "the pod no longer holds its job of the batch system"
    )
    session.actions.append(PodLost(uid=pod.uid, namespace=pod.namespace, name=pod.name, message=message))
    _serve_again(session, task.uid)


def _found_again(session: Session, uid: str) -> None:
    """Let the pod hold its job again, if it is still there."""
    batch_jobs = session.batch_jobs
    del batch_jobs.lost[uid]
    task = session.cache.jobs.tasks.get(uid)
    unit = batch_jobs.units.get(session.cache.tags.of.get(uid, ""))
    if task is not None and unit is not None and uid in unit.pods_until:
        unit.pods_until[uid] = OPEN
    _serve_again(session, uid)


def _serve_again(session: Session, uid: str) -> None:
    tag = session.cache.tags.of.get(uid, "")
    job, unit = job_of(session, tag), session.batch_jobs.units.get(tag)
    if unit is not None:
        unit.done_status = -1
    if job is not None:
        session.cache.queue.to_reconcile[job.key] = job
