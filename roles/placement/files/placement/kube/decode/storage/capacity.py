# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What CSI drivers say of the room for volumes that are yet to be made."""

import msgspec

from placement.kube.decode.scheduling_rules import label_selector
from placement.kube.fields.metadata import Sharing, require_identity
from placement.kube.fields.resources import read_bytes
from placement.kube.wire import volume
from placement.model.objects.volume import CSIDriver, StorageCapacity
from placement.model.rules.selector import NodeSelectorTerm

_driver = msgspec.json.Decoder(volume.CSIDriver)
_capacity = msgspec.json.Decoder(volume.StorageCapacity)


def decode_csi_driver(raw: bytes | msgspec.Raw, _sharing: Sharing) -> CSIDriver:
    """Decode a CSIDriver."""
    item = _driver.decode(raw)
    return CSIDriver(
        uid=item.metadata.uid,
        name=item.metadata.name,
        version=require_identity(item.metadata, namespaced=False),
        tells_capacity=bool(item.spec and item.spec.storage_capacity),
    )


def decode_storage_capacity(raw: bytes | msgspec.Raw, _sharing: Sharing) -> StorageCapacity:
    """Decode the free storage of one part of the cluster; the largest volume counts if the driver names it."""
    item = _capacity.decode(raw)
    field, limit = "capacity", item.capacity
    if item.maximum_volume_size is not None:
        field, limit = "maximumVolumeSize", item.maximum_volume_size
    selector = label_selector(item.node_topology, "nodeTopology")
    topology: tuple[NodeSelectorTerm, ...] | None = ()
    if selector is not None:
        topology = (NodeSelectorTerm(selector.requirements),) if selector.requirements else None
    return StorageCapacity(
        uid=item.metadata.uid,
        namespace=item.metadata.namespace,
        name=item.metadata.name,
        version=require_identity(item.metadata, namespaced=True),
        storage_class=item.storage_class_name,
        largest=0 if limit is None else read_bytes(limit, field),
        topology=topology,
    )
