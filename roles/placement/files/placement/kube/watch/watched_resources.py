# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that the daemon lists and watches.

A dialect that the API does not serve answers 404, and is asked again less and less often, down to twice a minute: it
may be installed later. Resources that an older ClusterRole of the daemon has no right to are dispensable: it goes on
without them, and asks again in the same way. Of a dialect with several versions the newest that is served is read,
chosen at every list.
"""

from typing import Final

from placement.kube.dialects import DIALECTS, Dialect
from placement.kube.watch.reflector import Source
from placement.model.device_slices import DeviceSlice
from placement.model.node_zones import NodeZones
from placement.model.objects.disruption import DisruptionBudget
from placement.model.objects.node import Node
from placement.model.objects.pod import Pod
from placement.model.objects.volume import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from placement.model.objects.workload import Namespace, PodGroup, PriorityClass, Queue


def _device_slices(newest: str, *older: str) -> Source:
    return Source(
        "resourceslices",
        DeviceSlice,
        f"/apis/resource.k8s.io/{newest}/resourceslices",
        shared=True,
        dispensable=True,
        older=_device_slices(*older) if older else None,
    )


# Nodes first: what is on a node that is not known yet has to wait for it.
BUILT_IN: Final = (
    Source("nodes", Node, "/api/v1/nodes"),
    Source("pods", Pod, "/api/v1/pods"),
    Source("namespaces", Namespace, "/api/v1/namespaces"),
    Source("priorityclasses", PriorityClass, "/apis/scheduling.k8s.io/v1/priorityclasses"),
    Source("poddisruptionbudgets", DisruptionBudget, "/apis/policy/v1/poddisruptionbudgets"),
    Source("persistentvolumes", PersistentVolume, "/api/v1/persistentvolumes"),
    Source("persistentvolumeclaims", PersistentVolumeClaim, "/api/v1/persistentvolumeclaims"),
    Source("storageclasses", StorageClass, "/apis/storage.k8s.io/v1/storageclasses"),
    Source("csinodes", CSINode, "/apis/storage.k8s.io/v1/csinodes"),
    Source(
        "volumeattachments",
        VolumeAttachment,
        "/apis/storage.k8s.io/v1/volumeattachments",
        shared=True,
        dispensable=True,
    ),
    Source("csidrivers", CSIDriver, "/apis/storage.k8s.io/v1/csidrivers"),
    Source("csistoragecapacities", StorageCapacity, "/apis/storage.k8s.io/v1/csistoragecapacities"),
)
# What other projects define and may be there or not; `shared`, for it can cease to be served.
OPTIONAL: Final = (
    Source(
        "noderesourcetopologies",
        NodeZones,
        "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
        shared=True,
        dispensable=True,
    ),
    _device_slices("v1", "v1beta2", "v1beta1"),
)


def sources() -> tuple[Source, ...]:
    """List the built-in APIs, the optional ones, and those of all dialects."""
    found = [*BUILT_IN, *OPTIONAL]
    older = {id(dialect.older) for dialect in DIALECTS}
    for dialect in (item for item in DIALECTS if id(item) not in older):
        if dialect.read_group is not None:
            found.append(_groups(dialect))
        if dialect.read_queue is not None:
            path = f"{dialect.path}/queues"
            found.append(Source(f"queues.{dialect.name}", Queue, path, dialect.read_queue, shared=True))
    return tuple(found)


def _groups(dialect: Dialect) -> Source:
    older = _groups(dialect.older) if dialect.older is not None else None
    path = f"{dialect.path}/podgroups"
    return Source(f"podgroups.{dialect.name}", PodGroup, path, dialect.read_group, shared=True, older=older)
