# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prefer nodes of a low performance class, so that nodes of a gang are alike; a label has the class."""

from typing import Final

import numpy as np

from placement.graph.policies.policy import Nodes, Places, Policy, lowest_domains


def alike(nodes: Nodes) -> Places:
    """Return nodes with a slot by their class, and equal ones in the order of the tree."""
    usable = np.flatnonzero(nodes.slots)
    return usable[np.argsort(nodes.classes[usable], kind="stable")]


POLICY: Final = Policy("variation", alike, lowest_domains)
