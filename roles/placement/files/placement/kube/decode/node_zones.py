# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeResourceTopology objects, which NFD's topology-updater and other agents write for each Node."""

from typing import Final

import msgspec

from placement.kube.fields.metadata import Sharing, require_identity
from placement.kube.fields.resources import read_resources
from placement.kube.wire import node_zones as wire
from placement.model.amounts.quantity import MAX_AMOUNT, Amounts, round_amounts
from placement.model.node_zones import NodeZones, NumaNode

_topology = msgspec.json.Decoder(wire.NodeResourceTopology)
_NUMA_NODE: Final = "Node"
_POLICY: Final = "topologyManagerPolicy"
# Both spellings without capitals and hyphens; the older one has the scope behind the policy.
_REJECTING: Final = "singlenumanode"
_ALIGNING: Final = ("besteffort", "restricted", _REJECTING)


def decode_node_zones(raw: bytes | msgspec.Raw, sharing: Sharing) -> NodeZones:
    """Decode the NUMA nodes of one Node; zones of other types, such as sockets, are left out."""
    item = _topology.decode(raw)
    policies = [attribute.value for attribute in item.attributes or () if attribute.name == _POLICY]
    policy = [*policies, *(item.topology_policies or ()), ""][0].lower().replace("-", "")
    return NodeZones(
        uid=item.metadata.uid,
        name=item.metadata.name,
        version=require_identity(item.metadata, namespaced=False),
        numa_nodes=tuple(_numa_node(zone, sharing) for zone in item.zones or () if zone.type == _NUMA_NODE),
        aligns=policy.startswith(_ALIGNING),
        rejects=policy.startswith(_REJECTING),
    )


def _numa_node(zone: wire.Zone, sharing: Sharing) -> NumaNode:
    resources = zone.resources or ()
    has = {each.name: each.allocatable for each in resources if each.allocatable is not None}
    # Where nobody says what is in use, nothing is taken to be.
    free = {each.name: each.available for each in resources if each.available is not None}
    field = f"zones[{zone.name[:60]}].resources"
    return NumaNode(
        name=zone.name,
        has=sharing.amounts(_bounded(has, field)),
        free=_bounded({**has, **free}, field),
    )


def _bounded(resources: dict[str, str | int | float], field: str) -> Amounts:
    """Read amounts, each cut to what a column can hold, like amounts of Nodes."""
    return tuple((name, min(amount, MAX_AMOUNT)) for name, amount in round_amounts(read_resources(resources, field)))
