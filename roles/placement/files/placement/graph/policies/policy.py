# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a match policy is: which of several domains, and which of several nodes, comes first.

The graph decides what is possible, a policy only in which order it is tried. Fluxion's policies also order the cores of
a node. Here a node's kubelet chooses those, so policies that differ by cores only are the same here.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Places = NDArray[np.intp]


class Nodes(NamedTuple):
    """Nodes of one domain in the order of the tree: their places in it, slots, and performance classes."""

    places: Places
    slots: Int64s
    classes: Int64s


class Policy(NamedTuple):
    """One match policy. Both functions return indices, the preferred one first."""

    name: str
    # Which nodes with a slot come first.
    nodes: Callable[[Nodes], Places]
    # Which of the domains that may do comes first, by the slots that each would have left; in the order of the tree.
    domains: Callable[[Int64s], Places]
    # Whether nodes are given whole.
    exclusive: bool = False


def lowest_nodes(nodes: Nodes) -> Places:
    """Return nodes with a slot in the order of the tree: n2 before n10, rack r1 before r2."""
    return np.flatnonzero(nodes.slots)


def highest_nodes(nodes: Nodes) -> Places:
    """Return nodes with a slot against the order of the tree."""
    return np.flatnonzero(nodes.slots)[::-1]


def lowest_domains(spare: Int64s) -> Places:
    """Return domains in the order of the tree."""
    return np.arange(len(spare))


def highest_domains(spare: Int64s) -> Places:
    """Return domains against the order of the tree."""
    return np.arange(len(spare))[::-1]


def tightest_domains(spare: Int64s) -> Places:
    """Return domains by what they would have left, least first, so that large gaps stay whole."""
    return np.argsort(spare, kind="stable")
