# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NUMA nodes of a node, as an agent on it publishes them, and what its kubelet does about them."""

from dataclasses import dataclass

from placement.model.amounts.quantity import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """One NUMA node: what it has for pods, and what of that is not in use, both by resource."""

    name: str
    has: Amounts = ()
    free: Amounts = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeZones:
    """A NodeResourceTopology: the NUMA nodes of the Node of its name, in the order of their numbers.

    It is as old as the agent's last look, some seconds to a minute. Where a file says it, `counted` is false: what is
    in use is not known then, and `free` is all that there is.
    """

    uid: str
    name: str
    version: int
    numa_nodes: tuple[NumaNode, ...] = ()
    # Whether the kubelet puts CPUs and devices of a container into one NUMA node where it can, and whether it rejects
    # pods for which it cannot.
    aligns: bool = False
    rejects: bool = False
    counted: bool = True
