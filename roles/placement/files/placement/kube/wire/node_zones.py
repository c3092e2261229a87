# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeResourceTopology as msgspec structs."""

from placement.kube.wire.core import Named, Quantity, Wire


class ResourceInfo(Wire):
    """One resource of a zone."""

    name: str = ""
    allocatable: Quantity | None = None
    available: Quantity | None = None


class Zone(Wire):
    """A zone; those of type Node are NUMA nodes."""

    name: str = ""
    type: str = ""
    resources: list[ResourceInfo] | None = None


class Attribute(Wire):
    """A property of the node, such as the policy of the kubelet's topology manager."""

    name: str = ""
    value: str = ""


class NodeResourceTopology(Named):
    """The object; `topologyPolicies` is the older way to say the attribute."""

    zones: list[Zone] | None = None
    attributes: list[Attribute] | None = None
    topology_policies: list[str] | None = None
