# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes, namespaces, priority classes and volumes from their JSON."""

import msgspec

from placement.kube import wire, wire_volume
from placement.kube.field_error import FieldError, shown
from placement.kube.metadata import Sharing, require_identity
from placement.kube.resources import read_allocatable, read_bytes
from placement.kube.rules import node_terms
from placement.model.node import Node
from placement.model.selector import Effect, Taint
from placement.model.volume import CSINode, PersistentVolume, PersistentVolumeClaim
from placement.model.workload import Namespace, PriorityClass

HELD_BY_ANNOTATION = "converged.hpc/held-by"
LEASES_ANNOTATION = "converged.hpc/leases"

_node = msgspec.json.Decoder(wire.Node)
_named = msgspec.json.Decoder(wire.Named)
_priority_class = msgspec.json.Decoder(wire.PriorityClass)
_volume = msgspec.json.Decoder(wire_volume.PersistentVolume)
_claim = msgspec.json.Decoder(wire_volume.PersistentVolumeClaim)
_csi_node = msgspec.json.Decoder(wire_volume.CSINode)


def decode_node(raw: bytes | msgspec.Raw, sharing: Sharing) -> Node:
    """The node, or FieldError or a msgspec error; so below."""
    node = _node.decode(raw)
    version = require_identity(node.metadata, namespaced=False)
    spec, status = node.spec or wire.NodeSpec(), node.status or wire.NodeStatus()
    annotations = node.metadata.annotations or {}
    return Node(
        uid=node.metadata.uid,
        name=node.metadata.name,
        version=version,
        labels=sharing.labels(node.metadata.labels),
        taints=tuple(_taint(item) for item in spec.taints or ()),
        unschedulable=bool(spec.unschedulable),
        allocatable=sharing.amounts(read_allocatable(status.allocatable)),
        held_by=annotations.get(HELD_BY_ANNOTATION, ""),
        leases=annotations.get(LEASES_ANNOTATION, ""),
    )


def _taint(item: wire.Taint) -> Taint:
    try:
        return Taint(item.key, item.value or "", Effect(item.effect))
    except ValueError:
        raise FieldError("spec.taints.effect", f"unknown effect {shown(item.effect)}") from None


def decode_namespace(raw: bytes | msgspec.Raw, sharing: Sharing) -> Namespace:
    """The namespace."""
    meta = _named.decode(raw).metadata
    version = require_identity(meta, namespaced=False)
    return Namespace(uid=meta.uid, name=meta.name, version=version, labels=sharing.labels(meta.labels))


def decode_priority_class(raw: bytes | msgspec.Raw, _sharing: Sharing) -> PriorityClass:
    """The priority class."""
    item = _priority_class.decode(raw)
    return PriorityClass(
        uid=item.metadata.uid,
        name=item.metadata.name,
        version=require_identity(item.metadata, namespaced=False),
        value=item.value,
        is_default=bool(item.global_default),
        preempts=item.preemption_policy != "Never",
    )


def decode_volume(raw: bytes | msgspec.Raw, _sharing: Sharing) -> PersistentVolume:
    """The persistent volume."""
    item = _volume.decode(raw)
    spec = item.spec or wire_volume.PersistentVolumeSpec()
    required = spec.node_affinity.required if spec.node_affinity else None
    return PersistentVolume(
        uid=item.metadata.uid,
        name=item.metadata.name,
        version=require_identity(item.metadata, namespaced=False),
        node_terms=None if required is None else node_terms(required),
        driver=spec.csi.driver if spec.csi else "",
        claim_uid=spec.claim_ref.uid if spec.claim_ref else "",
    )


def decode_claim(raw: bytes | msgspec.Raw, _sharing: Sharing) -> PersistentVolumeClaim:
    """The persistent volume claim."""
    item = _claim.decode(raw)
    spec = item.spec or wire_volume.ClaimSpec()
    return PersistentVolumeClaim(
        uid=item.metadata.uid,
        namespace=item.metadata.namespace,
        name=item.metadata.name,
        version=require_identity(item.metadata, namespaced=True),
        volume=spec.volume_name or "",
        storage_class=spec.storage_class_name or "",
        size=_size(spec),
        once_per_pod="ReadWriteOncePod" in (spec.access_modes or ()),
        selected_node=(item.metadata.annotations or {}).get(wire_volume.SELECTED_NODE, ""),
    )


def _size(spec: wire_volume.ClaimSpec) -> int:
    wanted = ((spec.resources and spec.resources.requests) or {}).get("storage")
    return 0 if wanted is None else read_bytes(wanted, "spec.resources.requests[storage]")


def decode_csi_node(raw: bytes | msgspec.Raw, _sharing: Sharing) -> CSINode:
    """The attach limits of a node; a driver without a count has none."""
    item = _csi_node.decode(raw)
    drivers = (item.spec.drivers if item.spec else None) or ()
    limits = tuple(
        (driver.name, driver.allocatable.count)
        for driver in drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    )
    version = require_identity(item.metadata, namespaced=False)
    return CSINode(uid=item.metadata.uid, name=item.metadata.name, version=version, limits=limits)
