# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes, claims and the attach limits of nodes from their JSON."""

import msgspec

from placement.kube.decode.scheduling_rules import label_selector, node_terms
from placement.kube.fields.metadata import Sharing, require_identity
from placement.kube.fields.resources import read_bytes
from placement.kube.wire import core
from placement.kube.wire import volume as wire_volume
from placement.model.objects.volume import CSINode, PersistentVolume, PersistentVolumeClaim, VolumeAttachment

_volume = msgspec.json.Decoder(wire_volume.PersistentVolume)
_claim = msgspec.json.Decoder(wire_volume.PersistentVolumeClaim)
_attachment = msgspec.json.Decoder(wire_volume.VolumeAttachment)
_csi_node = msgspec.json.Decoder(wire_volume.CSINode)
_NO_PHASE = wire_volume.VolumePhase()
# The CSI drivers that attach what once was in-tree, by the field of the volume: they count it for their limits.
_MIGRATED = {
    "aws_elastic_block_store": wire_volume.MIGRATED["kubernetes.io/aws-ebs"],
    "gce_persistent_disk": wire_volume.MIGRATED["kubernetes.io/gce-pd"],
    "azure_disk": wire_volume.MIGRATED["kubernetes.io/azure-disk"],
    "cinder": wire_volume.MIGRATED["kubernetes.io/cinder"],
    "vsphere_volume": wire_volume.MIGRATED["kubernetes.io/vsphere-volume"],
    "portworx_volume": wire_volume.MIGRATED["kubernetes.io/portworx-volume"],
}


def decode_volume(raw: bytes | msgspec.Raw, sharing: Sharing) -> PersistentVolume:
    """Decode a PersistentVolume. Raise FieldError or a msgspec error; the functions below raise the same."""
    item = _volume.decode(raw)
    meta, spec = item.metadata, item.spec or wire_volume.PersistentVolumeSpec()
    required = spec.node_affinity.required if spec.node_affinity else None
    owner = spec.claim_ref
    driver, handle = _attached(spec)
    return PersistentVolume(
        uid=meta.uid,
        name=meta.name,
        version=require_identity(meta, namespaced=False),
        labels=sharing.labels(meta.labels),
        node_terms=None if required is None else node_terms(required),
        driver=driver,
        handle=handle,
        storage_class=_class(meta, spec),
        attributes_class=spec.volume_attributes_class_name or "",
        modes=tuple(spec.access_modes or ()),
        block=spec.volume_mode == "Block",
        size=_storage(spec.capacity, "spec.capacity"),
        claim=(owner.namespace, owner.name) if owner else None,
        claim_uid=owner.uid if owner else "",
        available=(item.status or _NO_PHASE).phase == "Available",
        terminating=meta.deletion_timestamp is not None,
    )


def _attached(spec: wire_volume.PersistentVolumeSpec) -> tuple[str, str]:
    """Return the CSI driver that attaches the volume, and its handle there; empty if no driver does."""
    if spec.csi is not None:
        return spec.csi.driver, spec.csi.volume_handle
    for field, driver in _MIGRATED.items():
        disk: wire_volume.InTreeSource | None = getattr(spec, field)
        if disk is not None:
            return driver, disk.volume_id or disk.pd_name or disk.disk_name or disk.volume_path
    return "", ""


def decode_claim(raw: bytes | msgspec.Raw, _sharing: Sharing) -> PersistentVolumeClaim:
    """Decode a PersistentVolumeClaim."""
    item = _claim.decode(raw)
    meta, spec = item.metadata, item.spec or wire_volume.ClaimSpec()
    annotations, volume = meta.annotations or {}, spec.volume_name or ""
    return PersistentVolumeClaim(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        version=require_identity(meta, namespaced=True),
        volume=volume,
        binding=bool(volume) and wire_volume.BIND_COMPLETED not in annotations,
        lost=(item.status or _NO_PHASE).phase == "Lost",
        terminating=meta.deletion_timestamp is not None,
        owner=next((owner.uid for owner in meta.owner_references or () if owner.controller), ""),
        storage_class=_class(meta, spec),
        attributes_class=spec.volume_attributes_class_name or "",
        modes=tuple(spec.access_modes or ()),
        block=spec.volume_mode == "Block",
        selector=label_selector(spec.selector, "spec.selector"),
        selected_node=annotations.get(wire_volume.SELECTED_NODE, ""),
        size=_storage(spec.resources.requests if spec.resources else None, "spec.resources.requests"),
    )


def _class(meta: core.Metadata, spec: wire_volume.PersistentVolumeSpec | wire_volume.ClaimSpec) -> str:
    old = (meta.annotations or {}).get(wire_volume.OLD_CLASS)
    return spec.storage_class_name or "" if old is None else old


def _storage(resources: core.Resources, field: str) -> int:
    amount = (resources or {}).get("storage")
    return 0 if amount is None else read_bytes(amount, f"{field}[storage]")


def decode_csi_node(raw: bytes | msgspec.Raw, _sharing: Sharing) -> CSINode:
    """Decode the attach limits of a node; a driver without a count has none."""
    item = _csi_node.decode(raw)
    drivers = (item.spec.drivers if item.spec else None) or ()
    limits = tuple(
        (driver.name, driver.allocatable.count)
        for driver in drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    )
    version = require_identity(item.metadata, namespaced=False)
    return CSINode(uid=item.metadata.uid, name=item.metadata.name, version=version, limits=limits)


def decode_attachment(raw: bytes | msgspec.Raw, _sharing: Sharing) -> VolumeAttachment:
    """Decode which volume is attached to which node."""
    item = _attachment.decode(raw)
    spec = item.spec or wire_volume.AttachmentSpec()
    return VolumeAttachment(
        uid=item.metadata.uid,
        name=item.metadata.name,
        version=require_identity(item.metadata, namespaced=False),
        node=spec.node_name,
        volume=(spec.source.persistent_volume_name if spec.source else None) or "",
    )
