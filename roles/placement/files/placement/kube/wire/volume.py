# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes, claims and CSI limits as msgspec structs."""

from typing import Final

from msgspec import field

from placement.kube.wire.core import Named, Quantity, Requests, Resources, Wire
from placement.kube.wire.scheduling_rules import LabelSelector, NodeSelector

# The annotation of a claim that tells its provisioner where the volume is wanted.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
# That of a claim whose volume the volume controller has bound, and that of a volume which a controller has chosen.
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
# Where volumes and claims named their class before there was a field for it; it still goes first.
OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"

# The CSI drivers that make and attach for the plugins that Kubernetes once had itself, by the plugin's name.
MIGRATED: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}


class VolumeNodeAffinity(Wire):
    """Which nodes reach a volume."""

    required: NodeSelector | None = None


class CsiSource(Wire):
    """The driver of a volume."""

    driver: str = ""
    volume_handle: str = ""


class InTreeSource(Wire):
    """A disk of a plugin that Kubernetes once had itself; each names it by another field."""

    volume_id: str = field(default="", name="volumeID")
    pd_name: str = ""
    disk_name: str = ""
    volume_path: str = ""


class ClaimRef(Wire):
    """The claim a volume is bound to."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class PersistentVolumeSpec(Wire):
    """The spec of a volume."""

    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None
    aws_elastic_block_store: InTreeSource | None = None
    gce_persistent_disk: InTreeSource | None = None
    azure_disk: InTreeSource | None = None
    cinder: InTreeSource | None = None
    vsphere_volume: InTreeSource | None = None
    portworx_volume: InTreeSource | None = None
    claim_ref: ClaimRef | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    capacity: Resources = None


class VolumePhase(Wire):
    """Where a volume or a claim stands."""

    phase: str | None = None


class PersistentVolume(Named):
    """A volume."""

    spec: PersistentVolumeSpec | None = None
    status: VolumePhase | None = None


class ClaimSpec(Wire):
    """The spec of a claim."""

    volume_name: str | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    selector: LabelSelector | None = None
    resources: Requests | None = None


class PersistentVolumeClaim(Named):
    """A claim."""

    spec: ClaimSpec | None = None
    status: VolumePhase | None = None


class AttachmentSource(Wire):
    """Which volume is attached; one that is written in a pod has no name."""

    persistent_volume_name: str | None = None


class AttachmentSpec(Wire):
    """What is attached where."""

    node_name: str = ""
    source: AttachmentSource | None = None


class VolumeAttachment(Named):
    """A volume on a node."""

    spec: AttachmentSpec | None = None


class Allocatable(Wire):
    """How many volumes a driver attaches."""

    count: int | None = None


class Driver(Wire):
    """A driver on a node."""

    name: str = ""
    allocatable: Allocatable | None = None


class CSINodeSpec(Wire):
    """The drivers of a node."""

    drivers: list[Driver] | None = None


class CSINode(Named):
    """The volume limits of a node."""

    spec: CSINodeSpec | None = None


class CSIDriverSpec(Wire):
    """The spec of a driver."""

    storage_capacity: bool | None = None


class CSIDriver(Named):
    """A driver."""

    spec: CSIDriverSpec | None = None


class StorageCapacity(Named):
    """The room for volumes of a class in one part of the cluster."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None
