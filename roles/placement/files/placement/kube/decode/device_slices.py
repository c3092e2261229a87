# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ResourceSlices, in which drivers of dynamic resource allocation publish the devices of nodes.

Of the attributes only those are kept that say where a device is and what it is. So equal devices of many nodes are
stored once, and nothing that a driver invents takes memory.
"""

import re
from typing import Final

import msgspec

from placement.kube.fields.field_error import FieldError, shown
from placement.kube.fields.metadata import Sharing, require_identity
from placement.kube.fields.resources import read_bytes
from placement.kube.wire import device_slices as wire
from placement.model.amounts.quantity import MAX_AMOUNT
from placement.model.device_slices import DEVICE, GPU, NO_NUMA_NODE, Device, DeviceSlice

_slice = msgspec.json.Decoder(wire.ResourceSlice)
# The API allows no more in one slice.
MOST_DEVICES: Final = 128
_LONGEST_POOL: Final = 253
# Attributes are called `DOMAIN/NAME`, or `NAME` in the driver's own domain.
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,63}", re.ASCII)
_NODE: Final = re.compile(r"[A-Za-z0-9._-]{1,253}", re.ASCII)
_PCIE_ROOT: Final = re.compile(r"[A-Za-z0-9._:-]{1,63}", re.ASCII)
_STANDARD: Final = "resource.kubernetes.io/"
# No standard name yet: what drivers call it, without capitals, hyphens and underscores.
_NUMA: Final = frozenset({"numa", "numanode", "numanodeid", "numaid"})
# Linux has no more NUMA nodes.
_NUMA_NODES: Final = 1024
# What drivers of GPUs call a whole one.
_GPU_TYPES: Final = frozenset({"gpu", "amdgpu"})


def decode_device_slice(raw: bytes | msgspec.Raw, sharing: Sharing) -> DeviceSlice:
    """Decode a slice; devices that are not in one node belong to it without one."""
    item = _slice.decode(raw)
    version = require_identity(item.metadata, namespaced=False)
    spec = item.spec or wire.Spec()
    pool, devices = spec.pool or wire.Pool(), spec.devices or []
    if len(pool.name) > _LONGEST_POOL or not all(_NODE.fullmatch(piece) for piece in pool.name.split("/")):
        raise FieldError("spec.pool.name", f"{shown(pool.name)} is no name of a pool")
    if not 0 <= pool.generation <= 2**63 - 1 or not 1 <= pool.resource_slice_count <= 2**31 - 1:
        raise FieldError("spec.pool", "generation or resourceSliceCount is out of range")
    if len(devices) > MOST_DEVICES:
        raise FieldError("spec.devices", f"{len(devices)} devices, at most {MOST_DEVICES} are read")
    driver = _checked(spec.driver, "spec.driver")
    return DeviceSlice(
        uid=item.metadata.uid,
        name=item.metadata.name,
        version=version,
        driver=driver,
        pool=pool.name,
        generation=pool.generation,
        of=pool.resource_slice_count,
        node=_node(spec.node_name, "spec.nodeName"),
        devices=sharing.devices(tuple(_device(each, driver, index) for index, each in enumerate(devices))),
    )


def _device(device: wire.Device, driver: str, index: int) -> Device:
    field = f"spec.devices[{index}]"
    body = device.basic or device
    attributes = sorted((body.attributes or {}).items(), key=lambda each: (not each[0].startswith(_STANDARD), each[0]))
    named = [
        (name.rpartition("/")[2].lower().replace("-", "").replace("_", ""), attribute) for name, attribute in attributes
    ]
    kind = next((attribute.text for name, attribute in named if name == "type" and attribute.text), "")
    root = next((attribute.text or "" for name, attribute in attributes if name == f"{_STANDARD}pcieRoot"), "")
    memory = [held for name, held in (body.capacity or {}).items() if name.rpartition("/")[2] == "memory"]
    return Device(
        name=_checked(device.name, f"{field}.name"),
        kind=_kind(kind, driver),
        type=kind if _NAME.fullmatch(kind) else "",
        numa=next((_numa(attribute) for name, attribute in named if name in _NUMA), NO_NUMA_NODE),
        pcie_root=root if _PCIE_ROOT.fullmatch(root) else "",
        memory=min(read_bytes(memory[0].value, f"{field}.capacity[memory]"), MAX_AMOUNT) if memory else 0,
        node=_node(body.node_name, f"{field}.nodeName"),
    )


def _kind(found: str, driver: str) -> str:
    """Return the type of the vertex; a part of a GPU, which has a type of its own, is none."""
    whole = found.lower() in _GPU_TYPES if found else any("gpu" in label for label in driver.lower().split("."))
    return GPU if whole else DEVICE


def _numa(attribute: wire.Attribute) -> int:
    """Return the number; Linux says -1 where a device belongs to no NUMA node."""
    text = attribute.text or ""
    number = (
        attribute.number if attribute.number is not None else int(text) if text.isdecimal() and len(text) < 5 else -1
    )
    return number if 0 <= number < _NUMA_NODES else NO_NUMA_NODE


def _node(name: str | None, field: str) -> str:
    if name and not _NODE.fullmatch(name):
        raise FieldError(field, f"{shown(name)} is no name of a node")
    return name or ""


def _checked(name: str, field: str) -> str:
    if not _NAME.fullmatch(name):
        raise FieldError(field, f"{shown(name)} is no name")
    return name
