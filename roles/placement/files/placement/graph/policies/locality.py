# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prefer neighbours: nodes of the longest run of adjacent usable nodes first, as Fluxion does by intervals of IDs.

Among domains the tightest comes first, so that large gaps stay whole for large gangs.
"""

from typing import Final

import numpy as np

from placement.graph.policies.policy import Nodes, Places, Policy, tightest_domains


def neighbours(nodes: Nodes) -> Places:
    """Return nodes with a slot, those of the longest run first, and equal runs in the order of the tree."""
    usable = np.flatnonzero(nodes.slots)
    if not len(usable):
        return usable
    begins = np.concatenate(([True], np.diff(nodes.places[usable]) != 1))
    run = np.cumsum(begins) - 1
    lengths = np.bincount(run)
    return usable[np.argsort(-lengths[run], kind="stable")]


POLICY: Final = Policy("locality", neighbours, tightest_domains)
