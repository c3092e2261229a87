# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our own Queue, with everything that queues can say here; groups come in the other dialects."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from placement.kube.dialects import reading
from placement.kube.dialects.dialect import Dialect, Json, Raw
from placement.kube.dialects.volcano import written
from placement.kube.fields.field_error import FieldError, demand, shown
from placement.kube.fields.metadata import Sharing
from placement.kube.wire import group as wire_group
from placement.model.messages.action import QueueStatus
from placement.model.objects.workload import COLUMNS, CONVERGED, PBS, PLACERS, Queue
from placement.model.rules.topology import MATCH_POLICIES

_queue = msgspec.json.Decoder(wire_group.OwnQueue)
_NO_QUEUE: Final = wire_group.OwnQueueSpec()


def read_queue(dialect: str, raw: Raw, sharing: Sharing) -> Queue:
    """Return the queue."""
    found = _queue.decode(raw)
    spec = found.spec or _NO_QUEUE
    placed_by = _placer(spec)
    return reading.queue(
        found.metadata,
        dialect,
        spec,
        sharing,
        guarantee=reading.amounts(spec.guarantee, "spec.guarantee", sharing),
        # What backed pods hold is the batch system's to take back.
        reclaimable=spec.reclaimable is not False and placed_by != PBS,
        parent=spec.parent or "",
        is_open=spec.is_open is not False,
        priority=reading.priority(spec.priority),
        namespaces=None if spec.namespaces is None else frozenset(spec.namespaces),
        placed_by=placed_by,
        match_policy=_policy(spec.match_policy),
        unsupported=tuple(_unsupported(spec, placed_by)),
    )


def _unsupported(spec: wire_group.OwnQueueSpec, placed_by: str) -> Iterator[str]:
    """Yield what contradicts a batch system that chooses the nodes; a queue is reclaimable by the API's default."""
    if placed_by == PBS and spec.match_policy:
        yield demand(
            "spec.matchPolicy", spec.match_policy, f"nothing where spec.placedBy is {PBS}, which chooses nodes itself"
        )


def _placer(spec: wire_group.OwnQueueSpec) -> str:
    """Return what chooses the nodes; `backedBy` is the older field for a batch system."""
    system, placer = spec.backed_by or "", spec.placed_by or ""
    if system not in ("", PBS):
        raise FieldError("spec.backedBy", f"{shown(system)} is no batch system that is known; pbs is")
    if placer and placer not in PLACERS:
        raise FieldError("spec.placedBy", f"{shown(placer)} is not one of {', '.join(PLACERS)}")
    if system and placer and placer != system:
        raise FieldError("spec.placedBy", f"{shown(placer)} contradicts spec.backedBy, which is {shown(system)}")
    return placer or system or COLUMNS


def _policy(name: str | None) -> str:
    if name and name not in MATCH_POLICIES:
        raise FieldError("spec.matchPolicy", f"{shown(name)} is not one of {', '.join(MATCH_POLICIES)}")
    return name or ""


def queue_status(status: QueueStatus, now: str) -> Json:
    """Numbers of groups, shares, and whether the spec is in order."""
    condition = {
        "type": "Accepted",
        "status": "False" if status.reason else "True",
        "reason": status.reason or "Accepted",
        "message": status.message,
        "lastTransitionTime": now,
    }
    figures = {
        "pending": status.pending,
        "inqueue": status.inqueue,
        "running": status.running,
        "unknown": status.unknown,
        "allocated": written(status.allocated),
        "deserved": written(status.deserved),
    }
    return {**(figures if status.readable else {}), "conditions": [condition]}


DIALECT: Final = Dialect(name=CONVERGED, read_queue=partial(read_queue, CONVERGED), queue_status=queue_status)
