# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""API JSON to the model: every object becomes a record or a `Refusal` that names the field, never an exception.

One bad object must not stop the loop. Identity and node of a refused object are kept, so that it can be answered and so
that nothing is placed on top of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from placement.kube.decode.cluster import decode_namespace, decode_node, decode_priority_class
from placement.kube.decode.device_slices import decode_device_slice
from placement.kube.decode.disruption_budget import decode_budget, decode_storage_class
from placement.kube.decode.node_zones import decode_node_zones
from placement.kube.decode.pod import decode_pod
from placement.kube.decode.storage.capacity import decode_csi_driver, decode_storage_capacity
from placement.kube.decode.storage.volume import decode_attachment, decode_claim, decode_csi_node, decode_volume
from placement.kube.fields.field_error import FieldError, shown
from placement.kube.fields.metadata import Sharing, read_version
from placement.kube.wire import core
from placement.model.device_slices import DeviceSlice
from placement.model.messages.event import Deleted, Event, Object, Relisted, Unreadable, Upserted
from placement.model.messages.refusal import Refusal
from placement.model.node_zones import NodeZones
from placement.model.objects.disruption import DisruptionBudget
from placement.model.objects.node import Node
from placement.model.objects.pod import TERMINAL, Pod
from placement.model.objects.volume import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from placement.model.objects.workload import Namespace, PriorityClass

# What msgspec raises on text that is not the JSON it should be: malformed, of wrong types, not UTF-8, nested too deep.
_BAD_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_MAX_REASON: Final = 300

# Reads one object, or raises FieldError or a msgspec error.
Reader = Callable[[bytes | msgspec.Raw, Sharing], Object]

_DECODERS: Final[Mapping[type[Object], Reader]] = {
    Pod: decode_pod,
    Node: decode_node,
    Namespace: decode_namespace,
    PriorityClass: decode_priority_class,
    PersistentVolume: decode_volume,
    PersistentVolumeClaim: decode_claim,
    CSINode: decode_csi_node,
    VolumeAttachment: decode_attachment,
    DisruptionBudget: decode_budget,
    StorageClass: decode_storage_class,
    CSIDriver: decode_csi_driver,
    StorageCapacity: decode_storage_capacity,
    NodeZones: decode_node_zones,
    DeviceSlice: decode_device_slice,
}


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The watch has seen everything up to this version."""

    version: int


@dataclass(frozen=True, slots=True)
class WatchFailed:
    """The server ended the watch: 410 asks for a new list, a code of 0 is text that is no watch event."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list; the version is that of the whole list."""

    items: tuple[Object, ...]
    refused: tuple[Refusal, ...]
    version: int
    next_page: str


class _WatchEvent(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct, gc=False):
    code: int = 0
    message: str = ""


class _ListMeta(msgspec.Struct, gc=False):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    next_page: str | None = msgspec.field(default=None, name="continue")


class _List(msgspec.Struct, gc=False):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Identity(core.Wire):
    uid: str = ""
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Identified(core.Wire):
    metadata: _Identity


class _OnNode(core.Wire):
    node_name: str | None = None
    scheduler_name: str | None = None


class _Phase(core.Wire):
    phase: str | None = None


class _PlacedPod(core.Wire):
    spec: _OnNode
    status: _Phase | None = None


_watch_event = msgspec.json.Decoder(_WatchEvent)
_status = msgspec.json.Decoder(_Status)
_list = msgspec.json.Decoder(_List)
_identified = msgspec.json.Decoder(_Identified)
_placed_pod = msgspec.json.Decoder(_PlacedPod)


class Decoder:
    """Decodes for one daemon; what objects share is stored once.

    `readers` add kinds that several APIs define, each in its own way.
    """

    def __init__(self, readers: Mapping[type[Object], Reader] | None = None) -> None:
        self._sharing = Sharing()
        self._readers = {**_DECODERS, **(readers or {})}

    def decode_object(self, kind: type[Object], raw: bytes | msgspec.Raw) -> Object | Refusal:
        """One object of this kind."""
        try:
            return self._readers[kind](raw, self._sharing)
        except FieldError as error:
            return _refusal(kind, raw, error.field, error.reason)
        except _BAD_JSON as error:
            return _refusal(kind, raw, *_explained(error))

    def decode_watch_event(self, kind: type[Object], line: bytes) -> Event | Bookmark | WatchFailed:
        """One line of a watch."""
        try:
            event = _watch_event.decode(line)
            if event.type == "ERROR":
                status = _status.decode(event.object)
                return WatchFailed(status.code, status.message[:_MAX_REASON])
            if event.type == "BOOKMARK":
                meta = _identified.decode(event.object).metadata
                return Bookmark(read_version(meta.resource_version, "metadata.resourceVersion"))
            if event.type == "DELETED":
                # The rest of a deleted object does not matter, so it cannot be refused for it.
                meta = _identified.decode(event.object).metadata
                if not meta.uid:
                    return WatchFailed(0, "a deleted object without UID")
                return Deleted(kind, meta.uid, read_version(meta.resource_version, "metadata.resourceVersion"))
        except FieldError as error:
            return WatchFailed(0, str(error))
        except _BAD_JSON as error:
            return WatchFailed(0, ": ".join(_explained(error)))
        if event.type not in ("ADDED", "MODIFIED"):
            return WatchFailed(0, f"unknown event type {shown(event.type)}")
        item = self.decode_object(kind, event.object)
        return Unreadable(kind, item) if isinstance(item, Refusal) else Upserted(item)

    def decode_page(self, kind: type[Object], body: bytes) -> Page | WatchFailed:
        """One page of a list."""
        try:
            page = _list.decode(body)
            version = read_version(page.metadata.resource_version, "metadata.resourceVersion")
        except FieldError as error:
            return WatchFailed(0, str(error))
        except _BAD_JSON as error:
            return WatchFailed(0, ": ".join(_explained(error)))
        decoded = [self.decode_object(kind, raw) for raw in page.items or ()]
        return Page(
            items=tuple(item for item in decoded if not isinstance(item, Refusal)),
            refused=tuple(item for item in decoded if isinstance(item, Refusal)),
            version=version,
            next_page=page.metadata.next_page or "",
        )


def relisted(kind: type[Object], pages: list[Page]) -> Relisted:
    """Join the pages of one list into one event; all have the version of the first."""
    return Relisted(
        kind,
        tuple(item for page in pages for item in page.items),
        pages[0].version,
        tuple(item for page in pages for item in page.refused),
    )


def _explained(error: Exception) -> tuple[str, str]:
    """Field and reason from msgspec's `Expected ... - at `$.spec.x``."""
    if isinstance(error, RecursionError):
        return "object", "nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return "object", "not UTF-8"
    reason, found, path = str(error).partition(" - at `")
    field = path.removesuffix("`").removeprefix("key in ").removeprefix("$").removeprefix(".")
    return (field if found and field else "object"), reason[:_MAX_REASON]


def _refusal(kind: type[Object], raw: bytes | msgspec.Raw, field: str, reason: str) -> Refusal:
    meta, version, node, scheduler = _Identity(), 0, "", ""
    try:
        meta = _identified.decode(raw).metadata
        version = read_version(meta.resource_version, "metadata.resourceVersion")
    except (FieldError, *_BAD_JSON):
        # Unreadable to the bone: the answer goes to the log only.
        pass
    if kind is Pod:
        node, scheduler = _placed(raw)
    return Refusal(
        kind=kind.__name__,
        field=field,
        reason=reason,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=version,
        node=node,
        scheduler_name=scheduler,
    )


def _placed(raw: bytes | msgspec.Raw) -> tuple[str, str]:
    """Read from a pod its node and its scheduler's name."""
    try:
        pod = _placed_pod.decode(raw)
    except _BAD_JSON:
        return "", ""
    ended = pod.status is not None and pod.status.phase in TERMINAL
    return "" if ended else pod.spec.node_name or "", pod.spec.scheduler_name or ""
