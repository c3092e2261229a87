# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod from its JSON."""

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import msgspec

from placement.kube.decode.scheduling_rules import Affinity, read_affinity, read_spread, read_tolerations
from placement.kube.fields.field_error import FieldError, shown
from placement.kube.fields.metadata import Sharing, require_identity
from placement.kube.fields.resources import read_request
from placement.kube.fields.topology_annotations import read_topology
from placement.kube.wire import core
from placement.model.objects.pod import GRACE, JOB_TAG, HostPort, Phase, Pod, PodSpec
from placement.model.rules.affinity import TopologySpread
from placement.model.rules.selector import LabelPairs, NodeSelector, Toleration
from placement.model.rules.topology import PATH, TopologyRequest
from placement.shared.victims import MIRROR, Owner, is_of_daemon_set

# Annotations that the scheduler reads; the others would only cost memory, or are what a Binding wrote.
_WRITTEN: Final = (JOB_TAG, PATH)
_KEPT_ANNOTATIONS = ("scheduling.", "converged.hpc/", "volcano.sh/", "pod-group.scheduling.")
_NO_STATUS = core.PodStatus()
_NO_AFFINITY = Affinity()
_NO_TOLERATIONS: Final[tuple[Toleration, ...]] = ()
_NO_SPREAD: Final[tuple[TopologySpread, ...]] = ()
# Reasons of a kubelet (1.36) that rejects a pod. First those that are about the node, whatever a pod asks for.
_NODE_REJECTIONS: Final = ("OutOf", "NodeShutdown", "InvalidNodeInfo", "Evicted")
# A pod that has run is evicted with this reason, too; the message tells the two apart.
_EVICTED: Final = "Evicted"
_REJECTED: Final = "Pod was rejected"
# Those that are about the node and such pods together: how their CPUs, memory and devices lie, what the node supports,
# what volumes it can attach, and the plugins of the scheduler that a kubelet runs once more.
_POD_REJECTIONS: Final = frozenset(
    {
        "TopologyAffinityError",
        "SMTAlignmentError",
        "EmptyPodSharedPoolError",
        "UnexpectedAdmissionError",
        "UnexpectedPredicateFailureType",
        "UnknownReason",
        "VolumeAttachmentLimitExceeded",
        "PodFeatureUnsupported",
        "PodLevelResourcesNotSupported",
        "InitContainerRestartPolicyForbidden",
        "SupplementalGroupsPolicyNotSupported",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "AppArmor",
        "SysctlForbidden",
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "TaintToleration",
    }
)
# A UID has fewer characters.
_LONGEST_TAG = 64
_EMPTY_JSON = frozenset({b"", b"null", b"[]", b"{}"})
_RESTART_ALL = b'"RestartAllContainers"'
# Disks that must not be attached twice, without a claim to count them by.
_IN_TREE_DISKS = ("gce_persistent_disk", "aws_elastic_block_store", "iscsi", "rbd")

_decoder = msgspec.json.Decoder(core.Pod)
_T = TypeVar("_T")


def decode_pod(raw: bytes | msgspec.Raw, sharing: Sharing) -> Pod:
    """Decode a Pod. Raise FieldError or a msgspec error."""
    pod = _decoder.decode(raw)
    meta, spec, status = pod.metadata, pod.spec, pod.status or _NO_STATUS
    version = require_identity(meta, namespaced=True)
    labels = sharing.labels(meta.labels)
    annotations = meta.annotations or {}
    kept = {k: v for k, v in annotations.items() if k.startswith(_KEPT_ANNOTATIONS) and k not in _WRITTEN}
    topology, problems = read_topology(annotations, meta.labels) if annotations else (None, ())
    owners = meta.owner_references or ()
    owner = next((item for item in owners if item.controller), None)
    try:
        phase = Phase(status.phase or "Pending")
    except ValueError:
        raise FieldError("status.phase", f"unknown phase {shown(status.phase)}") from None
    claims, namespace = dict(_claims(spec, meta.name)), sharing.text(meta.namespace)
    rejected, unsuited = _rejection(status) if phase is Phase.FAILED else (False, False)
    return Pod(
        uid=meta.uid,
        namespace=namespace,
        name=meta.name,
        version=version,
        spec=_read_spec(spec, namespace, labels, sharing, topology=topology, problems=problems),
        labels=labels,
        annotations=sharing.labels(kept),
        request=sharing.amounts(read_request(spec, status)),
        created=sharing.text(meta.creation_timestamp or ""),
        owner=sharing.text(owner.uid if owner else ""),
        node=sharing.text(spec.node_name or ""),
        nominated_node=sharing.text(status.nominated_node_name or ""),
        started=(status.start_time or "") if spec.active_deadline_seconds else "",
        phase=phase,
        rejected=rejected,
        unsuited=unsuited,
        terminating=meta.deletion_timestamp is not None,
        gated=bytes(spec.scheduling_gates) not in _EMPTY_JSON,
        mirror=MIRROR in annotations,
        daemon=meta.deletion_timestamp is None and is_of_daemon_set([_owner(item) for item in owners]),
        volume_claims=tuple(claims),
        ephemeral_claims=tuple(name for name, ephemeral in claims.items() if ephemeral),
        scheduling_group=sharing.text((spec.scheduling_group and spec.scheduling_group.pod_group_name) or ""),
        tag=sharing.text(annotations.get(JOB_TAG, "")[:_LONGEST_TAG]),
    )


def _owner(item: core.OwnerReference) -> Owner:
    return Owner(item.api_version, item.kind, item.name, is_controller=item.controller is True)


def _rejection(status: core.PodStatus) -> tuple[bool, bool]:
    """Return whether a kubelet rejected the failed pod, and whether for what it asks for, not for the node's state."""
    reason = status.reason or ""
    about_node = reason.startswith(_NODE_REJECTIONS)
    named = reason in _POD_REJECTIONS or (about_node and reason != _EVICTED)
    rejected = named or (status.message or "").startswith(_REJECTED)
    return rejected, rejected and not about_node


def _read_spec(
    spec: core.PodSpec,
    namespace: str,
    labels: LabelPairs,
    sharing: Sharing,
    *,
    topology: TopologyRequest | None,
    problems: tuple[str, ...],
) -> PodSpec:
    affinity_text, tolerations_text = bytes(spec.affinity), bytes(spec.tolerations)
    spread_text = bytes(spec.topology_spread_constraints)
    placed = bool(spec.node_name)
    affinity, tolerations, spread = _NO_AFFINITY, _NO_TOLERATIONS, _NO_SPREAD
    if affinity_text not in _EMPTY_JSON:
        affinity = _rules(lambda: read_affinity(affinity_text, namespace), _NO_AFFINITY, placed=placed)
    if tolerations_text not in _EMPTY_JSON:
        tolerations = _rules(lambda: read_tolerations(tolerations_text), _NO_TOLERATIONS, placed=placed)
    if spread_text not in _EMPTY_JSON:
        spread = _rules(lambda: read_spread(spread_text, namespace, labels), _NO_SPREAD, placed=placed)
    return sharing.spec(
        PodSpec(
            scheduler_name=spec.scheduler_name or "default-scheduler",
            priority=spec.priority or 0,
            priority_class=spec.priority_class_name or "",
            preempts=spec.preemption_policy != "Never",
            selector=NodeSelector(sharing.labels(spec.node_selector), affinity.node_terms),
            preferred_nodes=affinity.preferred_nodes,
            tolerations=tolerations,
            affinity=affinity.pods,
            anti_affinity=affinity.anti_pods,
            preferred_pods=affinity.preferred_pods,
            spread=spread,
            host_ports=tuple(sorted(set(_host_ports(spec)))),
            features=tuple(_features(spec)),
            deadline=spec.active_deadline_seconds,
            grace=GRACE if spec.termination_grace_period_seconds is None else spec.termination_grace_period_seconds,
            topology=topology,
            unsupported=(*_unsupported(spec), *problems),
        )
    )


def _rules(read: Callable[[], _T], none: _T, *, placed: bool) -> _T:
    """Return a part of the spec; of a pod that has a node, none of it where it cannot be read.

    What such a pod takes of its node is known all the same, and the pods of any user could otherwise close nodes.
    """
    try:
        return read()
    except (FieldError, msgspec.DecodeError):
        if not placed:
            raise
        return none


def _host_ports(spec: core.PodSpec) -> Iterator[HostPort]:
    sidecars = (item for item in spec.init_containers or () if item.restart_policy == "Always")
    for container in (*sidecars, *(spec.containers or ())):
        for port in container.ports or ():
            if port.host_port is not None and port.host_port > 0:
                yield HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)


def _claims(spec: core.PodSpec, pod: str) -> Iterator[tuple[str, bool]]:
    """Names of claims, some of them more than once, and whether they are made for the pod."""
    for volume in spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name, False
        elif bytes(volume.ephemeral) not in _EMPTY_JSON:
            # The claim of a generic ephemeral volume is named after pod and volume.
            yield f"{pod}-{volume.name}", True


def _unsupported(spec: core.PodSpec) -> Iterator[str]:
    if bytes(spec.resource_claims) not in _EMPTY_JSON:
        yield "spec.resourceClaims (dynamic resource allocation)"
    if any(bytes(getattr(volume, disk)) not in _EMPTY_JSON for volume in spec.volumes or () for disk in _IN_TREE_DISKS):
        yield "spec.volumes of in-tree disks"


def _features(spec: core.PodSpec) -> Iterator[str]:
    """Yield the features that kube-scheduler infers for its filter NodeDeclaredFeatures, in the order of their names.

    A kubelet that does not declare them rejects such a pod.
    """
    containers = (*(spec.init_containers or ()), *(spec.containers or ()))
    if any(_RESTART_ALL in bytes(container.restart_policy_rules) for container in containers):
        yield "RestartAllContainersOnContainerExits"
    if spec.host_network and spec.host_users is False:
        yield "UserNamespacesHostNetworkSupport"
