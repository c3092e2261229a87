# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The coscheduling plugin of kubernetes-sigs/scheduler-plugins: groups without queues, pods name theirs by a label."""

from functools import partial
from typing import Final

import msgspec

from placement.kube.dialects import reading
from placement.kube.dialects.dialect import Dialect, Json, Raw
from placement.kube.fields.metadata import Sharing
from placement.kube.wire import group as wire_group
from placement.model.messages.action import GroupPhase, GroupStatus
from placement.model.objects.workload import COSCHEDULING, PodGroup

_group = msgspec.json.Decoder(wire_group.Group)
_NO_GROUP: Final = wire_group.GroupSpec()
_PHASES: Final = {
    GroupPhase.PENDING: "Pending",
    GroupPhase.INQUEUE: "Scheduling",
    GroupPhase.RUNNING: "Running",
    GroupPhase.UNKNOWN: "Unknown",
    GroupPhase.FINISHED: "Finished",
    GroupPhase.FAILED: "Failed",
}


def read_group(dialect: str, raw: Raw, sharing: Sharing) -> PodGroup:
    """Return the group."""
    found = _group.decode(raw)
    spec = found.spec or _NO_GROUP
    return reading.group(
        found.metadata,
        dialect,
        min_member=reading.member_count(spec.min_member),
        min_resources=reading.amounts(spec.min_resources, "spec.minResources", sharing),
        phase=(found.status.phase if found.status else None) or "",
    )


def group_status(status: GroupStatus, _now: str) -> Json:
    """Phase and numbers: this API has no conditions."""
    if status.phase is None:
        return {}
    phase = _PHASES[status.phase]
    if status.scheduled and status.phase in (GroupPhase.PENDING, GroupPhase.INQUEUE):
        phase = "Scheduled"
    return {"phase": phase, "running": status.running, "succeeded": status.succeeded, "failed": status.failed}


DIALECT: Final = Dialect(
    name=COSCHEDULING,
    read_group=partial(read_group, COSCHEDULING),
    group_status=group_status,
    may_lack_subresource=True,
)
