# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the dialects' readers have in common: identity, sizes and amounts, each refused with the name of its field."""

from typing import Any

import msgspec

from placement.kube.dialects.dialect import Raw
from placement.kube.fields.field_error import FieldError, demand
from placement.kube.fields.metadata import Sharing, require_identity
from placement.kube.fields.resources import read_resources
from placement.kube.fields.topology_annotations import read_topology
from placement.kube.wire import core
from placement.kube.wire import group as wire_group
from placement.model.amounts.quantity import MAX_AMOUNT, Amounts, round_amounts
from placement.model.objects.workload import PodGroup, Queue
from placement.model.rules.topology import TopologyRequest

# Of queues; Volcano's and ours are in this range too.
MAX_WEIGHT = 2**20
MAX_PRIORITY = 2**31 - 1
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


def member_count(value: int | None) -> int:
    """Return a gang's size as it was written, so that a senseless one is answered by name; nothing said is one."""
    return 1 if value is None else value


def weight(value: int | None) -> int:
    """Return a queue's weight."""
    if value is None:
        return 1
    if not 1 <= value <= MAX_WEIGHT:
        raise FieldError("spec.weight", f"{value} is not from 1 to {MAX_WEIGHT}")
    return value


def priority(value: int | None) -> int:
    """Return a queue's priority."""
    if value is not None and abs(value) > MAX_PRIORITY:
        raise FieldError("spec.priority", f"{value} is not of 32 bits")
    return value or 0


def amounts(resources: core.Resources, field: str, sharing: Sharing) -> Amounts:
    """Amounts of a queue or group; what is more than anything is as much as anything."""
    rounded = round_amounts(read_resources(resources, field))
    return sharing.amounts(tuple((name, min(amount, MAX_AMOUNT)) for name, amount in rounded))


def bounds(resources: core.Resources, field: str, sharing: Sharing) -> Amounts:
    """Return a capability; a zero means that the queue gets nothing of this."""
    nano = read_resources(resources, field)
    zeros = tuple((name, 0) for name, amount in nano.items() if not amount)
    return sharing.amounts(tuple(sorted((*amounts(resources, field, sharing), *zeros))))


def is_object_of(raw: Raw, key: str) -> bool:
    """Return whether this is an object with no other key than this one."""
    try:
        found = _object.decode(raw)
    except msgspec.DecodeError:
        return False
    return found.keys() == {key}


def group(
    meta: core.Metadata,
    dialect: str,
    *,
    min_member: int,
    min_tasks: tuple[tuple[str, int], ...] = (),
    queue: str = "",
    priority_class: str = "",
    min_resources: Amounts = (),
    member_field: str = "spec.minMember",
    phase: str = "",
    priority: int | None = None,
    preempts: bool = True,
    unsupported: tuple[str, ...] = (),
    topology: TopologyRequest | None = None,
) -> PodGroup:
    """Return the group with its identity; `topology` is what its spec asks, and annotations may ask it instead."""
    asked, problems = read_topology(meta.annotations)
    if topology is not None and asked is not None:
        problems = (
            *problems,
            demand(asked.field, asked.required or asked.preferred, f"nothing beside {topology.field}"),
        )
    return PodGroup(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        version=require_identity(meta, namespaced=True),
        dialect=dialect,
        min_member=min_member,
        min_tasks=min_tasks,
        queue=queue,
        priority_class=priority_class,
        created=meta.creation_timestamp or "",
        min_resources=min_resources,
        member_field=member_field,
        phase=phase,
        priority=priority,
        preempts=preempts,
        unsupported=(*unsupported, *problems),
        topology=topology or asked,
    )


def queue(
    meta: core.Metadata,
    dialect: str,
    spec: wire_group.QueueSpec | wire_group.OwnQueueSpec,
    sharing: Sharing,
    **more: Any,
) -> Queue:
    """Return the queue with its identity, its weight and its capability."""
    return Queue(
        uid=meta.uid,
        name=meta.name,
        version=require_identity(meta, namespaced=False),
        dialect=dialect,
        weight=weight(spec.weight),
        capability=bounds(spec.capability, "spec.capability", sharing),
        **more,
    )
