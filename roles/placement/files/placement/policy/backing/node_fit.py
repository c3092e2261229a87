# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a pod may be on the node that a batch system chose for it, by everything that allocate goes by, too."""

from collections.abc import Iterable
from math import inf
from typing import Final

from placement.policy.framework.session import Session
from placement.policy.jobs.job import Task
from placement.state.nodes.node_columns import RESTING
from placement.state.nodes.vectors import MEMORY_INDEX

# What the batch system calls the node, where that is not the node's own name or the first part of it.
BATCH_NODE_LABEL: Final = "node-restriction.kubernetes.io/converged-batch-node"
# How the node is shared; its kubelet can say neither itself.
SHARE_MODE_LABEL: Final = "node-restriction.kubernetes.io/converged-share-mode"
# What keeps pods off the cores of jobs there.
SHARE_FENCE_LABEL: Final = "node-restriction.kubernetes.io/converged-share-fence"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"


def node_of(session: Session, host: str) -> str:
    """Return the node of a host of the batch system; empty if there is none."""
    return host if host in session.cache.cluster.columns.rows else session.batch_jobs.aliases.get(host, "")


def aliases(session: Session) -> dict[str, str]:
    """Nodes by the batch system's name of them: the label that says so, else their short name.

    A host that is several nodes by that is none: pods of its jobs would come to a stranger.
    """
    named: dict[str, str] = {}
    short: dict[str, str] = {}
    for node in session.cache.cluster.columns.nodes:
        if node is not None:
            label = next((value for key, value in node.labels if key == BATCH_NODE_LABEL), "")
            found, host = (named, label) if label else (short, node.name.partition(".")[0])
            found[host] = "" if host in found else node.name
    return {**short, **named}


def hosts(session: Session) -> dict[str, str]:
    """Return the batch system's names of hosts, by the names and hostname labels of their nodes."""
    found: dict[str, str] = {}
    for node in session.cache.cluster.columns.nodes:
        if node is not None:
            labels = dict(node.labels)
            host = labels.get(BATCH_NODE_LABEL) or node.name.partition(".")[0]
            found.update(dict.fromkeys((node.name, labels.get(HOSTNAME_LABEL, node.name)), host))
    return found


def largest(session: Session) -> int:
    """KiB of memory that the largest node has."""
    return int(session.cache.cluster.columns.allocatable[MEMORY_INDEX].max()) // 1024


def is_resting(session: Session, name: str, tasks: Iterable[Task]) -> bool:
    """Return whether the node turned pods away a moment ago, or such pods as these; it will be tried again soon."""
    cluster = session.cache.cluster
    row = cluster.columns.rows.get(name)
    if row is None:
        return False
    return bool(cluster.columns.flags[row] & RESTING) or any(name in cluster.unsuiting(task.pod) for task in tasks)


def why_not(session: Session, task: Task, name: str) -> str:
    """Return the first rule that keeps the pod off the node; empty if none does."""
    return session.feasibility.why_backed(task, name, _end(session, task))


def is_kept(session: Session, task: Task, name: str) -> bool:
    """Return whether too little of the node would be left for the heads of other queues."""
    row = session.cache.cluster.columns.rows.get(name)
    kept = session.reservations.mask(task, _end(session, task))
    return row is not None and kept is not None and not kept[row]


def _end(session: Session, task: Task) -> float:
    """Return when the job of the batch system that backs the pod ends at the latest, in monotonic seconds."""
    batch_job = session.batch_jobs.job_of(task)
    return session.batch_jobs.read + batch_job.left if batch_job is not None and batch_job.left is not None else inf
