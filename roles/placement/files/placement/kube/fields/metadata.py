# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Identity and version of an object, and values that many objects share."""

from typing import TypeVar

from placement.kube.fields.field_error import FieldError, shown
from placement.kube.wire import core
from placement.model.amounts.quantity import Amounts
from placement.model.device_slices import Device
from placement.model.objects.pod import PodSpec
from placement.model.rules.selector import LabelPairs

T = TypeVar("T")

# When a table of shared values has grown to this, it starts afresh: sharing saves memory and is never needed.
_TABLE_LIMIT = 1 << 16
# Names and UIDs come and go with their objects, and each takes as much as the reference that is spared.
_TEXT_LIMIT = 1 << 14
# Resource versions are decimal numbers of 64 bits.
_MAX_VERSION_DIGITS = 20


class Sharing:
    """Equal label sets, requests, specs and names are stored once per daemon.

    Names are not interned: Python 3.12 keeps an interned string until the process ends.
    """

    def __init__(self) -> None:
        self._labels: dict[LabelPairs, LabelPairs] = {}
        self._pairs: dict[tuple[str, str], tuple[str, str]] = {}
        self._amounts: dict[Amounts, Amounts] = {}
        self._specs: dict[PodSpec, PodSpec] = {}
        self._texts: dict[str, str] = {}
        self._devices: dict[tuple[Device, ...], tuple[Device, ...]] = {}

    def labels(self, labels: core.Labels) -> LabelPairs:
        """Return the label set as sorted pairs; equal sets, and equal pairs, are one object each."""
        if not labels:
            return ()
        pairs = tuple(sorted(labels.items()))
        known = self._labels.get(pairs)
        return known or _shared(self._labels, tuple([_shared(self._pairs, pair) for pair in pairs]))

    def amounts(self, amounts: Amounts) -> Amounts:
        """Return the one shared copy of an equal request."""
        return _shared(self._amounts, amounts)

    def devices(self, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        """Return the one shared copy of equal devices, which many nodes have."""
        return _shared(self._devices, devices)

    def spec(self, spec: PodSpec) -> PodSpec:
        """Return the one shared copy of an equal spec."""
        return _shared(self._specs, spec)

    def text(self, text: str) -> str:
        """Return the one shared copy of an equal name, UID or time."""
        return _shared(self._texts, text, _TEXT_LIMIT)


def _shared(table: dict[T, T], value: T, limit: int = _TABLE_LIMIT) -> T:
    if len(table) >= limit:
        table.clear()
    return table.setdefault(value, value)


def require_identity(meta: core.Metadata, *, namespaced: bool) -> int:
    """Check UID and name; return the resource version as a number, which API servers of today guarantee it to be."""
    for field, value in (("uid", meta.uid), ("name", meta.name), ("namespace", meta.namespace)):
        if not value and (namespaced or field != "namespace"):
            raise FieldError(f"metadata.{field}", "is missing")
    return read_version(meta.resource_version, "metadata.resourceVersion")


def read_version(text: str, field: str) -> int:
    """Parse a resource version; only equality and order of versions mean anything."""
    if len(text) > _MAX_VERSION_DIGITS or not (text.isascii() and text.isdigit()):
        raise FieldError(field, f"{shown(text)} is not a decimal number")
    return int(text)
