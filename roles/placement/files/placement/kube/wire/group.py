# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PodGroups and Queues of all dialects as msgspec structs; each dialect reads the fields that its API has.

Fields that demand what is not served are among them, so that they are refused by name.
"""

from typing import Any

from msgspec import Raw, field

from placement.kube.wire.core import ABSENT, Named, Resources, Wire


class Titled(Wire):
    """An element of a list by its name."""

    name: str | None = None


class NetworkTopology(Wire):
    """Volcano's demand that a gang stays within one tier of the network."""

    mode: str | None = None
    highest_tier_allowed: int | None = None
    highest_tier_name: str | None = None


class GroupSpec(Wire):
    """The spec of a group, in the field names of kube-batch, Volcano and the coscheduling plugin."""

    min_member: int | None = None
    min_task_member: dict[str, int] | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    min_resources: Resources = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[Titled] | None = None


class Phase(Wire):
    """The phase in a status."""

    phase: str | None = None


class Group(Named):
    """A group."""

    spec: GroupSpec | None = None
    status: Phase | None = None


class Gang(Wire):
    """Upstream's gang."""

    min_count: int | None = None


class Policy(Wire):
    """Upstream's choice between pods by themselves and a gang."""

    basic: dict[str, Raw] | None = None
    gang: Gang | None = None


class TopologyConstraint(Wire):
    """Upstream's demand that a group stays within one domain of this label."""

    key: str = ""


class Constraints(Wire):
    """Upstream's demands of a group's nodes together."""

    topology: list[TopologyConstraint] | None = None


class UpstreamSpec(Wire):
    """The spec of an upstream group."""

    scheduling_policy: Policy | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    scheduling_constraints: Constraints | None = None
    disruption_mode: Raw = ABSENT
    resource_claims: list[Titled] | None = None
    parent_composite_pod_group_name: str | None = None


class UpstreamCondition(Wire):
    """Whether something is true of an upstream group."""

    type: str | None = None
    status: str | None = None


class UpstreamStatus(Wire):
    """The status of an upstream group."""

    conditions: list[UpstreamCondition] | None = None


class UpstreamGroup(Named):
    """An upstream group."""

    spec: UpstreamSpec | None = None
    status: UpstreamStatus | None = None


class Members(Wire):
    """The spec of a group as the API has it, with members that are not known here."""

    spec: dict[str, Any] | None = None


class QueueStatus(Wire):
    """Volcano keeps a queue's state in its status."""

    state: str | None = None


class Guarantee(Wire):
    """Volcano's guarantee has a level more."""

    resource: Resources = None


class NodeGroups(Wire):
    """The node groups that pods of one of Volcano's queues have to be on, or off."""

    required: list[str] | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class QueueAffinity(Wire):
    """What nodes Volcano gives a queue."""

    node_group_affinity: NodeGroups | None = None
    node_group_anti_affinity: NodeGroups | None = None


class QueueSpec(Wire):
    """The spec of a queue of kube-batch and Volcano."""

    weight: int | None = None
    capability: Resources = None
    reclaimable: bool | None = None
    parent: str | None = None
    priority: int | None = None
    guarantee: Guarantee | None = None
    deserved: Resources = None
    affinity: QueueAffinity | None = None
    extend_clusters: list[Titled] | None = None
    dequeue_strategy: str | None = None


class Queue(Named):
    """A queue."""

    spec: QueueSpec | None = None
    status: QueueStatus | None = None


class OwnQueueSpec(Wire):
    """The spec of our own queue."""

    weight: int | None = None
    capability: Resources = None
    guarantee: Resources = None
    reclaimable: bool | None = None
    parent: str | None = None
    is_open: bool | None = field(default=None, name="open")
    priority: int | None = None
    namespaces: list[str] | None = None
    backed_by: str | None = None
    placed_by: str | None = None
    match_policy: str | None = None


class OwnQueue(Named):
    """Our own queue."""

    spec: OwnQueueSpec | None = None
