# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that a batch job holds and that nobody serves any more: their group was deleted, or is in another queue now.

Both are in the hands of the pods' owner, and neither takes a container off its node. So the job stays, and they leave.
"""

from typing import Final

from placement.policy.backing import NEVER, Unit
from placement.policy.jobs import HOLDING, Job, Task
from placement.policy.session import Session
from placement.policy.verify import node_of

_NO_GROUP: Final = "UnknownGroup"


def is_served(session: Session, job: Job) -> bool:
    """Whether its pods are what the batch system backs."""
    queue = session.book.tree.by_name.get(job.queue)
    return queue is not None and bool(queue.record.backed_by) and (job.group is not None or not job.key.named)


def strays(session: Session, unit: Unit, known: Job | None) -> list[Task]:
    """Those of a unit whose job, as far as there is one, is not served."""
    tasks = session.book.tasks
    found = [tasks[uid] for uid in unit.held if uid in tasks]
    if not unit.held and unit.settled == NEVER and unit.job is not None:
        # It is from before our time.
        nodes = {node_of(session, share.host) for share in unit.job.shares}
        found = [task for task in _perhaps(session, unit, known, nodes) if task.node in nodes]
    return [task for task in found if task.status in HOLDING]


def is_certain(unit: Unit, task: Task) -> bool:
    """Whether it is the unit's, and not perhaps one of a gang that only its pods describe, which was never backed."""
    job = task.job
    described = job.key.named and job.group is None and (job.problem is None or job.problem.reason != _NO_GROUP)
    return task.uid in unit.held or task.uid == unit.uid or not described


def _perhaps(session: Session, unit: Unit, known: Job | None, nodes: set[str]) -> list[Task]:
    """Whose job it may be; where the group is gone, pods on its nodes without the group that they name."""
    book = session.book
    if unit.uid in book.tasks:
        return [book.tasks[unit.uid]]
    if known is not None:
        return list(known.tasks.values())
    there = [entry.pod.uid for node in nodes for entry in book.cluster.pods.at_node(node)]
    found = [book.tasks[uid] for uid in there if uid in book.tasks]
    return [task for task in found if task.job.group is None and task.job.key.named]
