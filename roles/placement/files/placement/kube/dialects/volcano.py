# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volcano: kube-batch's shapes, with `Inqueue` and `Completed`, least resources, and queues that can be closed."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from placement.kube.dialects import reading
from placement.kube.dialects.dialect import Dialect, Json, Raw
from placement.kube.dialects.kube_batch import unschedulable
from placement.kube.fields.field_error import demand
from placement.kube.fields.metadata import Sharing
from placement.kube.wire import group as wire_group
from placement.model.amounts.quantity import Amounts, format_amount
from placement.model.messages.action import GroupPhase, GroupStatus, QueueStatus
from placement.model.objects.workload import VOLCANO, PodGroup, Queue
from placement.model.rules.topology import TopologyRequest

_group = msgspec.json.Decoder(wire_group.Group)
_queue = msgspec.json.Decoder(wire_group.Queue)
_NO_GROUP: Final = wire_group.GroupSpec()
_NO_QUEUE: Final = wire_group.QueueSpec()
_NO_AFFINITY: Final = wire_group.QueueAffinity()
_CLOSED: Final = frozenset({"Closed", "Closing"})
_TIER: Final = "spec.networkTopology.highestTierAllowed"
# No tree has so many tiers.
_ANY_TIER: Final = 1 << 10


def read_group(dialect: str, raw: Raw, sharing: Sharing) -> PodGroup:
    """Return the group."""
    found = _group.decode(raw)
    spec = found.spec or _NO_GROUP
    return reading.group(
        found.metadata,
        dialect,
        min_member=reading.member_count(spec.min_member),
        min_tasks=_min_tasks(spec),
        queue=spec.queue or "",
        priority_class=spec.priority_class_name or "",
        min_resources=reading.amounts(spec.min_resources, "spec.minResources", sharing),
        phase=(found.status.phase if found.status else None) or "",
        unsupported=tuple(_group_demands(spec)),
        topology=_topology(spec.network_topology),
    )


def _min_tasks(spec: wire_group.GroupSpec) -> tuple[tuple[str, int], ...]:
    """Return the least number of each task; Volcano disregards all of them if they add up to more than `minMember`.

    Its controller writes such numbers for each Job whose `minAvailable` is less than all of its pods.
    """
    least = tuple(sorted((name, number) for name, number in (spec.min_task_member or {}).items() if number > 0))
    return least if sum(number for _name, number in least) <= reading.member_count(spec.min_member) else ()


def _topology(wish: wire_group.NetworkTopology | None) -> TopologyRequest | None:
    """Return the wish for one domain of a tier; without a word of the tier a hard one is for the innermost."""
    if wish is None:
        return None
    hard = wish.mode != "soft"
    if wish.highest_tier_name:
        levels, field = (wish.highest_tier_name,), "spec.networkTopology.highestTierName"
        return TopologyRequest(required=levels if hard else (), preferred=() if hard else levels, field=field)
    tier = wish.highest_tier_allowed
    if tier is None:
        tier = 1 if hard else _ANY_TIER
    return TopologyRequest(tier=max(1, tier), tier_required=hard, field=_TIER)


def read_queue(dialect: str, raw: Raw, sharing: Sharing) -> Queue:
    """Return the queue."""
    found = _queue.decode(raw)
    spec = found.spec or _NO_QUEUE
    guarantee = spec.guarantee.resource if spec.guarantee else None
    return reading.queue(
        found.metadata,
        dialect,
        spec,
        sharing,
        guarantee=reading.amounts(guarantee, "spec.guarantee.resource", sharing),
        reclaimable=spec.reclaimable is not False,
        # Volcano's webhook makes every queue without a parent a child of `root`, which need not exist here.
        parent="" if spec.parent == "root" else spec.parent or "",
        is_open=(found.status.state if found.status else None) not in _CLOSED,
        priority=reading.priority(spec.priority),
        unsupported=tuple(_queue_demands(spec)),
    )


def _group_demands(spec: wire_group.GroupSpec) -> Iterator[str]:
    negative = {name: number for name, number in (spec.min_task_member or {}).items() if number < 0}
    if negative:
        yield demand("spec.minTaskMember", negative, "numbers from 0")
    topology = spec.network_topology
    if topology is not None and topology.mode not in (None, "", "hard", "soft"):
        yield demand("spec.networkTopology.mode", topology.mode, "hard or soft")
    if topology is not None and topology.highest_tier_name and topology.highest_tier_allowed is not None:
        yield demand(_TIER, topology.highest_tier_allowed, "nothing beside spec.networkTopology.highestTierName")
    if topology is not None and topology.highest_tier_allowed is not None and topology.highest_tier_allowed < 1:
        yield demand(_TIER, topology.highest_tier_allowed, "a number from 1")
    if spec.sub_group_policy:
        yield demand("spec.subGroupPolicy", [item.name for item in spec.sub_group_policy])


def _queue_demands(spec: wire_group.QueueSpec) -> Iterator[str]:
    if spec.deserved:
        yield demand("spec.deserved", spec.deserved, "nothing: a queue deserves a part by its weight")
    affinity = spec.affinity or _NO_AFFINITY
    for name, groups in (
        ("nodeGroupAffinity", affinity.node_group_affinity),
        ("nodeGroupAntiAffinity", affinity.node_group_anti_affinity),
    ):
        if groups is not None and groups.required:
            field = f"spec.affinity.{name}.requiredDuringSchedulingIgnoredDuringExecution"
            yield demand(field, groups.required)
    if spec.extend_clusters:
        yield demand("spec.extendClusters", [item.name for item in spec.extend_clusters])
    if spec.dequeue_strategy not in (None, "", "traverse"):
        yield demand("spec.dequeueStrategy", spec.dequeue_strategy, "traverse")


def group_status(status: GroupStatus, now: str) -> Json:
    """Return the status as Volcano's API has it; its conditions are replaced."""
    conditions = unschedulable(status, now)
    if status.phase is None:
        return {"conditions": conditions}
    if status.scheduled:
        conditions = [
            {
                "type": "Scheduled",
                "status": "True",
                "transitionID": f"{status.uid}-{now}",
                "lastTransitionTime": now,
                "reason": "tasks in the gang are ready to be scheduled",
                "message": status.message,
            }
        ]
    return {
        # One that has ended without its minimum waits for others in its place.
        "phase": str(GroupPhase.PENDING if status.phase is GroupPhase.FAILED else status.phase),
        "running": status.running,
        "succeeded": status.succeeded,
        "failed": status.failed,
        "conditions": conditions,
    }


def queue_status(status: QueueStatus, _now: str) -> Json:
    """Return numbers of groups and what they have; Volcano itself writes whether a queue is open."""
    if not status.readable:
        return {}
    return {
        "pending": status.pending,
        "inqueue": status.inqueue,
        "running": status.running,
        "unknown": status.unknown,
        "allocated": written(status.allocated),
        "deserved": written(status.deserved),
    }


def written(amounts: Amounts) -> dict[str, str]:
    """Amounts as the API writes them."""
    return {name: format_amount(name, amount) for name, amount in amounts}


DIALECT: Final = Dialect(
    name=VOLCANO,
    read_group=partial(read_group, VOLCANO),
    read_queue=partial(read_queue, VOLCANO),
    group_status=group_status,
    queue_status=queue_status,
    may_lack_subresource=True,
)
