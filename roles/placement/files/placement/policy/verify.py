# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a pod may be on the node that a batch system chose for it, by everything that allocate goes by, too."""

from collections.abc import Iterable
from math import inf
from typing import Final

import numpy as np

from placement.model.selector import BACKED_TAINT, UNSCHEDULABLE_TAINT, Effect, Taint, untolerated
from placement.policy.jobs import Task
from placement.policy.session import Session
from placement.state.columns import HELD, RESTING, UNREADABLE
from placement.state.vectors import MEMORY_INDEX

# What the batch system calls the node, where that is not the node's own name or the first part of it.
BATCH_NODE_LABEL: Final = "node-restriction.kubernetes.io/converged-batch-node"
# How the node is shared; its kubelet can say neither itself.
SHARE_MODE_LABEL: Final = "node-restriction.kubernetes.io/converged-share-mode"
# What keeps pods off the cores of jobs there.
SHARE_FENCE_LABEL: Final = "node-restriction.kubernetes.io/converged-share-fence"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
_CORDON: Final = Taint(UNSCHEDULABLE_TAINT, "", Effect.NO_SCHEDULE)


def node_of(session: Session, host: str) -> str:
    """The node that a host of the batch system is; empty where there is none."""
    return host if host in session.book.cluster.columns.rows else session.backing.aliases.get(host, "")


def aliases(session: Session) -> dict[str, str]:
    """Nodes by the batch system's name of them: the label that says so, else their short name.

    A host that is several nodes by that is none: pods of its jobs would come to a stranger.
    """
    named: dict[str, str] = {}
    short: dict[str, str] = {}
    for node in session.book.cluster.columns.nodes:
        if node is not None:
            said = next((value for key, value in node.labels if key == BATCH_NODE_LABEL), "")
            found, host = (named, said) if said else (short, node.name.partition(".")[0])
            found[host] = "" if host in found else node.name
    return {**short, **named}


def hosts(session: Session) -> dict[str, str]:
    """The batch system's names of hosts, by the names of their nodes and by their labels of the hostname."""
    found: dict[str, str] = {}
    for node in session.book.cluster.columns.nodes:
        if node is not None:
            labels = dict(node.labels)
            host = labels.get(BATCH_NODE_LABEL) or node.name.partition(".")[0]
            found.update(dict.fromkeys((node.name, labels.get(HOSTNAME_LABEL, node.name)), host))
    return found


def largest(session: Session) -> int:
    """KiB of memory that the largest node has."""
    return int(session.book.cluster.columns.alloc[MEMORY_INDEX].max()) // 1024


def is_resting(session: Session, name: str, tasks: Iterable[Task]) -> bool:
    """Return whether the node turned pods away a moment ago, or such pods as these; it will be tried again soon."""
    cluster = session.book.cluster
    row = cluster.columns.rows.get(name)
    if row is None:
        return False
    return bool(cluster.columns.flags[row] & RESTING) or any(name in cluster.unsuiting(task.pod) for task in tasks)


def why_not(session: Session, task: Task, name: str) -> str:
    """The first rule that keeps the pod off the node; empty where none does."""
    cluster, spec = session.book.cluster, task.pod.spec
    columns = cluster.columns
    row = columns.rows.get(name, -1)
    node = columns.nodes[row] if row >= 0 else None
    if node is None:
        return f"there is no node {name}"
    if columns.flags[row] & (HELD | UNREADABLE):
        return f"node {name} is held by batch jobs, or cannot be read"
    if is_resting(session, name, (task,)):
        return f"node {name} turned pods away a moment ago"
    taints = tuple(taint for taint in node.taints if taint.key != BACKED_TAINT)
    taint = untolerated((*taints, *((_CORDON,) if node.unschedulable else ())), spec.tolerations)
    if taint is not None:
        return f"node {name} has taint {taint.key}, which the pod does not tolerate"
    if not spec.selector.matches(name, dict(node.labels)):
        return f"node {name} is not matched by the pod's node selector or affinity"
    if spec.host_ports and row in cluster.ports.clashing_rows(spec.host_ports):
        return f"node {name} has no free host port for it"
    vector = columns.axis.request(task.pod.request)
    if vector.unknown or not np.all(columns.free[: len(vector.least), row] >= vector.least[:, 0]):
        return f"node {name} has too little left for it"
    allowed = session.chooser.by_rules(task)
    if allowed is not None and not allowed[row]:
        return f"node {name} is refused by its volumes or by rules about other pods"
    if is_kept(session, task, name):
        return f"node {name} is kept for a job that comes before"
    return ""


def is_kept(session: Session, task: Task, name: str) -> bool:
    """Return whether too little of the node would be left for the heads of other queues."""
    row, batch = session.book.cluster.columns.rows.get(name), session.backing.job_of(task)
    end = session.backing.read + batch.left if batch is not None and batch.left is not None else inf
    kept = session.reservations.mask(task, end)
    return row is not None and kept is not None and not kept[row]
