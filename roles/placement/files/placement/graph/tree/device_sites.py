# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the devices of a node are: in which of its NUMA nodes, or in none of them.

NUMA nodes come from one publisher and devices from another, so they are matched by number: `node-1` of the one is NUMA
node 1 of the other. Which devices are in use is not known here: that is in ResourceClaims, which kube-scheduler writes.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from placement.graph.topology import natural_key
from placement.model.amounts.quantity import Amounts
from placement.model.device_slices import GPU, NO_NUMA_NODE, Device, DevicesOfPool
from placement.model.node_zones import NodeZones, NumaNode

_NUMBERED: Final = re.compile(r"(?:numa|node|numa-?node)[-_]?([0-9]{1,4})", re.ASCII | re.IGNORECASE)
_GIB: Final = 2**30


class PooledDevice(NamedTuple):
    """A device, and which driver and pool it belongs to."""

    driver: str
    pool: str
    device: Device

    def title(self) -> str:
        """Return the device as a line names it."""
        device = self.device
        words = [f"{device.kind} {device.name}"]
        words += [f"memory {device.memory / _GIB:.0f} GiB"] if device.memory else []
        words += [f"type {device.type}"] if device.type and device.type != device.kind else []
        words += [f"pcie {device.pcie_root}"] if device.pcie_root else []
        return "  ".join([*words, self.driver])

    def properties(self) -> dict[str, str]:
        """Return what a file says of the device beside its type and name."""
        device = self.device
        details = {"type": device.type, "pcieRoot": device.pcie_root, "memory": str(device.memory or "")}
        return {"driver": self.driver, "pool": self.pool, **{name: text for name, text in details.items() if text}}


class DeviceSite(NamedTuple):
    """A NUMA node of a node, or with an empty name the node itself; `held` are its devices."""

    name: str
    numa_node: NumaNode | None
    held: tuple[PooledDevice, ...]


def match_devices(known: NodeZones | None, pools: Iterable[DevicesOfPool]) -> list[DeviceSite]:
    """Return the NUMA nodes of a node, then the node itself with the devices that are in none of them."""
    by_number: dict[int, list[PooledDevice]] = {}
    for driver, pool, devices in pools:
        for device in devices:
            by_number.setdefault(device.numa, []).append(PooledDevice(driver, pool, device))
    for there in by_number.values():
        there.sort(key=lambda each: (each.driver, each.pool, natural_key(each.device.name)))
    found = []
    for numa_node in known.numa_nodes if known is not None else ():
        match = _NUMBERED.fullmatch(numa_node.name)
        held = by_number.pop(int(match[1]), []) if match else []
        found.append(DeviceSite(numa_node.name, numa_node, tuple(held)))
    own = by_number.pop(NO_NUMA_NODE, [])
    # These NUMA nodes are known from the driver alone.
    found += [DeviceSite(f"node-{number}", None, tuple(held)) for number, held in sorted(by_number.items())]
    return [*found, DeviceSite("", None, tuple(own))]


def resources(found: list[DeviceSite], own: Amounts, gpu: str) -> list[Amounts]:
    """Return what each site has beside its devices. The node itself comes last, and has `own`.

    A GPU that is both counted as a resource and published as a device is one GPU, and not two.
    """
    left = sum(each.device.kind == GPU for site in found for each in site.held)
    amounts: list[Amounts] = []
    for site in found[:-1]:
        has = site.numa_node.has if site.numa_node is not None else ()
        both = min(dict(has).get(gpu, 0), sum(each.device.kind == GPU for each in site.held))
        left -= both
        amounts.append(_less(has, gpu, both))
    # An agent may have counted a GPU in a NUMA node that the driver does not name.
    rest = max(0, left - dict(own).get(gpu, 0))
    for index, has in enumerate(amounts):
        both = min(dict(has).get(gpu, 0), rest)
        rest -= both
        amounts[index] = _less(has, gpu, both)
    return [*amounts, _less(own, gpu, left)]


def _less(amounts: Amounts, resource: str, number: int) -> Amounts:
    return tuple((name, max(0, amount - number) if name == resource else amount) for name, amount in amounts)
