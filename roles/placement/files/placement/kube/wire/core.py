# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fields of API objects that the scheduler reads, as msgspec structs.

msgspec checks the types while it parses and skips everything that is not named here, which is what makes decoding a
watch event cost microseconds. Every list and map may be null: the API says so, and controllers do it.
`Raw` parts are decoded on demand, by functions that remember the text, because most pods repeat their controller's.
"""

from msgspec import Raw, Struct, field

# A quantity may also come as a JSON number.
Quantity = str | int | float
Resources = dict[str, Quantity] | None
Labels = dict[str, str] | None
ABSENT = Raw()


class Wire(Struct, gc=False, rename="camel"):
    """Base of all: no cyclic garbage, names as in the API."""


class OwnerReference(Wire):
    """The object's owner."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(Wire):
    """Identity, version and labels."""

    uid: str = ""
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Labels = None
    annotations: Labels = None
    owner_references: list[OwnerReference] | None = None


class Requests(Wire):
    """`resources` of a container, a pod or their status."""

    requests: Resources = None


class Port(Wire):
    """A container's port; only those of the host matter."""

    host_port: int | None = None
    host_ip: str | None = field(default=None, name="hostIP")
    protocol: str | None = None


class Container(Wire):
    """What of a container decides where it fits."""

    name: str = ""
    resources: Requests | None = None
    ports: list[Port] | None = None
    restart_policy: str | None = None
    restart_policy_rules: Raw = ABSENT


class Claim(Wire):
    """A volume's claim."""

    claim_name: str = ""


class Volume(Wire):
    """Where a volume comes from; the in-tree disks are those that cannot be attached twice."""

    name: str = ""
    persistent_volume_claim: Claim | None = None
    ephemeral: Raw = ABSENT
    gce_persistent_disk: Raw = ABSENT
    aws_elastic_block_store: Raw = ABSENT
    iscsi: Raw = ABSENT
    rbd: Raw = ABSENT


class SchedulingGroup(Wire):
    """The upstream gang a pod belongs to."""

    pod_group_name: str | None = None


class PodSpec(Wire):
    """The spec of a pod."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Resources = None
    resources: Requests | None = None
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    scheduling_group: SchedulingGroup | None = None
    volumes: list[Volume] | None = None
    node_selector: Labels = None
    affinity: Raw = ABSENT
    tolerations: Raw = ABSENT
    topology_spread_constraints: Raw = ABSENT
    scheduling_gates: Raw = ABSENT
    resource_claims: Raw = ABSENT
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int | None = None
    host_network: bool | None = None
    host_users: bool | None = None


class ContainerStatus(Wire):
    """What the kubelet has promised and put in force."""

    name: str = ""
    allocated_resources: Resources = None
    resources: Requests | None = None


class Condition(Wire):
    """A condition's type and reason."""

    type: str = ""
    reason: str | None = None


class RequestMapping(Wire):
    """A container's extended resource that a resource claim of the pod stands for."""

    container_name: str = ""
    resource_name: str = ""


class ExtendedResourceClaim(Wire):
    """The claim that kube-scheduler has made for a pod's extended resources."""

    request_mappings: list[RequestMapping] | None = None


class PodStatus(Wire):
    """The status of a pod."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    start_time: str | None = None
    nominated_node_name: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    allocated_resources: Resources = None
    resources: Requests | None = None
    extended_resource_claim_status: ExtendedResourceClaim | None = None


class Pod(Wire):
    """A pod."""

    metadata: Metadata
    spec: PodSpec
    status: PodStatus | None = None


class Taint(Wire):
    """A node's taint."""

    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(Wire):
    """The spec of a node."""

    taints: list[Taint] | None = None
    unschedulable: bool | None = None


class NodeStatus(Wire):
    """The status of a node."""

    allocatable: Resources = None
    declared_features: list[str] | None = None


class Node(Wire):
    """A node."""

    metadata: Metadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Named(Wire):
    """Any object whose metadata says all."""

    metadata: Metadata


class PriorityClass(Named):
    """A priority class."""

    value: int = 0
    global_default: bool | None = None
    preemption_policy: str | None = None
