# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes as far as they decide where a pod may run."""

from dataclasses import dataclass

from placement.model.rules.selector import LabelPairs, LabelSelector, NodeSelectorTerm


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentVolume:
    """A volume; `node_terms=None` means every node reaches it."""

    uid: str
    name: str
    version: int
    labels: LabelPairs = ()
    node_terms: tuple[NodeSelectorTerm, ...] | None = None
    # The CSI driver that attaches it, and what the volume is to that.
    driver: str = ""
    handle: str = ""
    storage_class: str = ""
    attributes_class: str = ""
    modes: tuple[str, ...] = ()
    block: bool = False
    # In bytes.
    size: int = 0
    # Namespace and name of the claim it is for; the UID is empty until they are bound.
    claim: tuple[str, str] | None = None
    claim_uid: str = ""
    available: bool = False
    terminating: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentVolumeClaim:
    """A claim; `volume` is empty until one is chosen for it."""

    uid: str
    namespace: str
    name: str
    version: int
    volume: str = ""
    # Whether a volume is chosen, and the volume controller has not bound it yet.
    binding: bool = False
    # Whether the volume it was bound to is no more.
    lost: bool = False
    terminating: bool = False
    # Whom it belongs to: the pod, where it is that of an ephemeral volume.
    owner: str = ""
    storage_class: str = ""
    attributes_class: str = ""
    modes: tuple[str, ...] = ()
    block: bool = False
    # Which volumes may be chosen among those that are there.
    selector: LabelSelector | None = None
    # Where its volume is being made; a provisioner that cannot make it there takes this back.
    selected_node: str = ""
    # In bytes; 0 where it says nothing.
    size: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def once_per_pod(self) -> bool:
        """Whether a single pod may use it."""
        return "ReadWriteOncePod" in self.modes


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeAttachment:
    """A volume that is attached to a node, or is to be, whether a pod uses it there or not; both by name."""

    uid: str
    name: str
    version: int
    node: str = ""
    volume: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CSINode:
    """How many volumes of each driver a node can attach."""

    uid: str
    name: str
    version: int
    limits: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass:
    """How volumes of a class are made; `waits` is WaitForFirstConsumer, `topology=None` means on every node."""

    uid: str
    name: str
    version: int
    provisioner: str = ""
    waits: bool = False
    topology: tuple[NodeSelectorTerm, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CSIDriver:
    """A driver, and whether it says how much room there is for volumes that are yet to be made."""

    uid: str
    name: str
    version: int
    tells_capacity: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageCapacity:
    """The largest volume of a class that can be made for nodes of this topology; `topology=None` means all nodes."""

    uid: str
    namespace: str
    name: str
    version: int
    storage_class: str = ""
    largest: int = 0
    topology: tuple[NodeSelectorTerm, ...] | None = None
