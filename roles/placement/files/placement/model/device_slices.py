# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices of nodes, such as GPUs, as drivers of dynamic resource allocation (DRA) publish them."""

from dataclasses import dataclass
from typing import Final, NamedTuple

# Types of vertices for devices; Fluxion counts the first.
GPU: Final = "gpu"
DEVICE: Final = "device"
NO_NUMA_NODE: Final = -1


class Device(NamedTuple):
    """One device of a pool: what its driver says of it, as far as it matters here."""

    name: str
    kind: str = DEVICE
    # The driver's own word for what it is, such as `mig`.
    type: str = ""
    # The number of its NUMA node.
    numa: int = NO_NUMA_NODE
    pcie_root: str = ""
    # Bytes of its memory; 0 where the driver does not say it.
    memory: int = 0
    # Its node, where the slice says none for all of its devices.
    node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSlice:
    """A ResourceSlice: a part of a pool. A pool is whole when it has `of` slices of its newest generation."""

    uid: str
    name: str
    version: int
    driver: str
    pool: str
    generation: int
    of: int
    node: str = ""
    devices: tuple[Device, ...] = ()

    @property
    def nodes(self) -> frozenset[str]:
        """Names of the nodes that have a device of it; none for devices that several nodes reach."""
        if self.node:
            return frozenset((self.node,))
        return frozenset(device.node for device in self.devices if device.node)


class DevicesOfPool(NamedTuple):
    """What a node has of one whole pool."""

    driver: str
    pool: str
    devices: tuple[Device, ...]
