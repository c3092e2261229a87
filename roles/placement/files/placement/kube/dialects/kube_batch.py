# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-batch: PodGroups and Queues of two API groups that say the same.

A group gets `phase`, one condition `Unschedulable` with reason NotEnoughResources or NotEnoughTasks, and the numbers
of its pods; a queue gets the numbers of its groups.
"""

from functools import partial
from typing import Final

import msgspec

from placement.kube.dialects import reading
from placement.kube.dialects.dialect import Dialect, Json, Raw
from placement.kube.fields.metadata import Sharing
from placement.kube.wire import group as wire_group
from placement.model.messages.action import GroupPhase, GroupStatus, QueueStatus
from placement.model.objects.workload import INCUBATOR, SIGS, PodGroup, Queue

_group = msgspec.json.Decoder(wire_group.Group)
_queue = msgspec.json.Decoder(wire_group.Queue)
_NO_GROUP: Final = wire_group.GroupSpec()
_NO_QUEUE: Final = wire_group.QueueSpec()
# It knows no Inqueue, and a group that has ended stays Running there, or without its minimum Pending.
_PHASES: Final = {
    GroupPhase.INQUEUE: GroupPhase.PENDING,
    GroupPhase.FINISHED: GroupPhase.RUNNING,
    GroupPhase.FAILED: GroupPhase.PENDING,
}


def read_group(dialect: str, raw: Raw, _sharing: Sharing) -> PodGroup:
    """Return the group."""
    found = _group.decode(raw)
    spec = found.spec or _NO_GROUP
    return reading.group(
        found.metadata,
        dialect,
        min_member=reading.member_count(spec.min_member),
        queue=spec.queue or "",
        priority_class=spec.priority_class_name or "",
        phase=(found.status.phase if found.status else None) or "",
    )


def read_queue(dialect: str, raw: Raw, sharing: Sharing) -> Queue:
    """Return the queue."""
    found = _queue.decode(raw)
    return reading.queue(found.metadata, dialect, found.spec or _NO_QUEUE, sharing)


def group_status(status: GroupStatus, now: str) -> Json:
    """Return the status as kube-batch's API has it."""
    conditions = unschedulable(status, now)
    if status.phase is None:
        return {"conditions": conditions}
    return {
        "phase": str(_PHASES.get(status.phase, status.phase)),
        "running": status.running,
        "succeeded": status.succeeded,
        "failed": status.failed,
        "conditions": conditions,
    }


def unschedulable(status: GroupStatus, now: str) -> list[Json]:
    """Return the one condition of kube-batch and Volcano; a group that has its nodes has none."""
    if status.scheduled or not status.reason:
        return []
    return [
        {
            "type": "Unschedulable",
            "status": "True",
            "transitionID": f"{status.uid}-{now}",
            "lastTransitionTime": now,
            "reason": status.reason,
            "message": status.message,
        }
    ]


def queue_status(status: QueueStatus, _now: str) -> Json:
    """Numbers of groups."""
    if not status.readable:
        return {}
    return {"pending": status.pending + status.inqueue, "running": status.running, "unknown": status.unknown}


def _dialect(name: str) -> Dialect:
    return Dialect(
        name=name,
        read_group=partial(read_group, name),
        read_queue=partial(read_queue, name),
        group_status=group_status,
        queue_status=queue_status,
    )


INCUBATOR_DIALECT: Final = _dialect(INCUBATOR)
SIGS_DIALECT: Final = _dialect(SIGS)
