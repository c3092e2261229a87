# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeResourceTopology objects, which NFD's topology-updater and other agents write for each Node."""

import re
from typing import Final

import msgspec

from placement.kube.fields.field_error import FieldError, shown
from placement.kube.fields.metadata import Sharing, require_identity
from placement.kube.fields.resources import read_resources
from placement.kube.wire import node_zones as wire
from placement.model.amounts.quantity import MAX_AMOUNT, Amounts, round_amounts
from placement.model.node_zones import NodeZones, NumaNode

_topology = msgspec.json.Decoder(wire.NodeResourceTopology)
# Zones of one node, and resources of one zone, that are read.
_MAX_ZONES: Final = 1024
_MAX_RESOURCES: Final = 64
# The names are shown on terminals, and those of zones stand in the annotations of pods.
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,63}")
_RESOURCE_NAME: Final = re.compile(r"[A-Za-z0-9._/-]{1,317}")
_NUMA_NODE: Final = "Node"
_POLICY: Final = "topologyManagerPolicy"
# Both spellings without capitals and hyphens; the older one has the scope behind the policy.
_REJECTING: Final = "singlenumanode"
_ALIGNING: Final = ("besteffort", "restricted", _REJECTING)


def decode_node_zones(raw: bytes | msgspec.Raw, sharing: Sharing) -> NodeZones:
    """Decode the NUMA nodes of one Node; zones of other types, such as sockets, are left out.

    Raise FieldError for an object with too many zones or a name that is none.
    """
    item = _topology.decode(raw)
    policies = [attribute.value for attribute in item.attributes or () if attribute.name == _POLICY]
    policy = [*policies, *(item.topology_policies or ()), ""][0].lower().replace("-", "")
    zones = item.zones or ()
    _require_at_most(_MAX_ZONES, len(zones), "zones")
    return NodeZones(
        uid=item.metadata.uid,
        name=item.metadata.name,
        version=require_identity(item.metadata, namespaced=False),
        numa_nodes=tuple(
            _numa_node(zone, f"zones[{index}]", sharing) for index, zone in enumerate(zones) if zone.type == _NUMA_NODE
        ),
        aligns=policy.startswith(_ALIGNING),
        rejects=policy.startswith(_REJECTING),
    )


def _numa_node(zone: wire.Zone, field: str, sharing: Sharing) -> NumaNode:
    resources = zone.resources or ()
    _require_name(_NAME, zone.name, f"{field}.name")
    _require_at_most(_MAX_RESOURCES, len(resources), f"{field}.resources")
    for index, each in enumerate(resources):
        _require_name(_RESOURCE_NAME, each.name, f"{field}.resources[{index}].name")
    has = {each.name: each.allocatable for each in resources if each.allocatable is not None}
    # A resource without an amount that is available counts as not in use.
    free = {each.name: each.available for each in resources if each.available is not None}
    return NumaNode(
        name=zone.name,
        has=sharing.amounts(_bounded(has, f"{field}.resources")),
        free=_bounded({**has, **free}, f"{field}.resources"),
    )


def _require_at_most(most: int, number: int, field: str) -> None:
    if number > most:
        raise FieldError(field, f"found {number}, expected at most {most}")


def _require_name(expected: re.Pattern[str], name: str, field: str) -> None:
    if not expected.fullmatch(name):
        raise FieldError(field, f"found {shown(name)}, expected {expected.pattern}")


def _bounded(resources: dict[str, str | int | float], field: str) -> Amounts:
    """Read amounts, each cut to what a column can hold, like amounts of Nodes."""
    return tuple((name, min(amount, MAX_AMOUNT)) for name, amount in round_amounts(read_resources(resources, field)))
