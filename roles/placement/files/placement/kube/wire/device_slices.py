# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ResourceSlice as msgspec structs, of `v1` and of its beta versions."""

from msgspec import field

from placement.kube.wire.core import Named, Quantity, Wire


class Attribute(Wire):
    """One attribute of a device; those of other types are not read."""

    number: int | None = field(name="int", default=None)
    text: str | None = field(name="string", default=None)


class Capacity(Wire):
    """An amount that a device has."""

    value: Quantity = 0


class Body(Wire):
    """What is said of a device; `v1beta1` says it one level deeper."""

    attributes: dict[str, Attribute] | None = None
    capacity: dict[str, Capacity] | None = None
    node_name: str | None = None


class Device(Body):
    """A device."""

    name: str = ""
    basic: Body | None = None


class Pool(Wire):
    """Which slices belong together."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class Spec(Wire):
    """The spec of a slice."""

    driver: str = ""
    pool: Pool | None = None
    node_name: str | None = None
    devices: list[Device] | None = None


class ResourceSlice(Named):
    """The object."""

    spec: Spec | None = None
