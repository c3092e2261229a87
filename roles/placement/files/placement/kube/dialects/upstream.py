# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Upstream's own PodGroup (1.36): pods name it in `spec.schedulingGroup`, and its status has conditions only."""

from functools import partial
from typing import Final

import msgspec

from placement.kube.dialects import reading, wire_group
from placement.kube.dialects.dialect import STRATEGIC_PATCH, Dialect, Json, Raw
from placement.kube.metadata import Sharing
from placement.model.action import GroupPhase, GroupStatus
from placement.model.workload import UPSTREAM, PodGroup

MEMBER_FIELD: Final = "spec.schedulingPolicy.gang.minCount"
_group = msgspec.json.Decoder(wire_group.UpstreamGroup)
_NO_GROUP: Final = wire_group.UpstreamSpec()
_NO_POLICY: Final = wire_group.Policy()
_SCHEDULED: Final = "PodGroupScheduled"


def read_group(dialect: str, raw: Raw, _sharing: Sharing) -> PodGroup:
    """The group; with the `basic` policy its pods are scheduled one by one."""
    found = _group.decode(raw)
    spec = found.spec or _NO_GROUP
    gang = (spec.scheduling_policy or _NO_POLICY).gang
    return reading.group(
        found.metadata,
        dialect,
        min_member=1 if gang is None else reading.member_count(gang.min_count),
        priority_class=spec.priority_class_name or "",
        member_field=MEMBER_FIELD,
        phase=GroupPhase.RUNNING if _is_scheduled(found) else "",
    )


def _is_scheduled(found: wire_group.UpstreamGroup) -> bool:
    conditions = (found.status.conditions if found.status else None) or ()
    return any((condition.type, condition.status) == (_SCHEDULED, "True") for condition in conditions)


def group_status(status: GroupStatus, now: str) -> Json:
    """The condition PodGroupScheduled; its reasons are named by the API."""
    if status.scheduled:
        said = {"status": "True", "reason": "Scheduled", "message": status.message}
    else:
        # Our own reasons are finer; they begin the message.
        message = f"{status.reason}: {status.message}" if status.reason else status.message
        said = {"status": "False", "reason": "Unschedulable", "message": message}
    return {"conditions": [{"type": _SCHEDULED, "lastTransitionTime": now, **said}]}


DIALECT: Final = Dialect(
    name=UPSTREAM, read_group=partial(read_group, UPSTREAM), group_status=group_status, patch=STRATEGIC_PATCH
)
