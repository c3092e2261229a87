# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a group or its pods ask of the zones, racks and switches of their nodes, whatever API they came from."""

from dataclasses import dataclass
from typing import Final

# The annotation that a Binding writes on a pod placed by the graph: the names of its node's domains, outermost first.
PATH: Final = "converged.hpc/topology-path"
# The names of the match policies, which are Fluxion's but for the last.
MATCH_POLICIES: Final = (
    "first",
    "firstnodex",
    "low",
    "high",
    "lonode",
    "hinode",
    "lonodex",
    "hinodex",
    "locality",
    "variation",
    "numa",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRequest:
    """Where pods are to be together.

    A level is called by its name, or by the label of nodes that it is made of. A tier is a level by its number, 1 for
    the innermost.
    """

    # All pods within one domain of one of these levels, or wait.
    required: tuple[str, ...] = ()
    # All pods within one domain of one of these levels if one has the room.
    preferred: tuple[str, ...] = ()
    # Within one domain of this tier or a lower one; 0 for no such wish.
    tier: int = 0
    tier_required: bool = False
    # Only nodes that have no other pods when the group starts.
    exclusive: bool = False
    # Exactly so many pods on each node, only the last may have fewer; 0 for no such wish.
    per_node: int = 0
    # Spread over the nodes so that the fullest has as few as possible.
    even: bool = False
    # The name of a match policy; empty for that of the queue.
    policy: str = ""
    # What the pods of one part of the group have in common, such as launcher or workers.
    sub_group: str = ""
    # The field that says where pods are to be together, for conditions.
    field: str = ""

    @property
    def strict(self) -> bool:
        """Whether pods had better wait than be placed otherwise."""
        needs_level = bool(self.required) or (self.tier > 0 and self.tier_required)
        return needs_level or self.exclusive or bool(self.per_node)
