# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prefer nodes on which each pod fits into one NUMA node, as an agent there says; the kubelet decides."""

from typing import Final

from placement.graph.policies.policy import Policy, lowest_domains
from placement.graph.policies.variation import alike

# Nodes come by `NumaNodes.rate` in place of a performance class.
POLICY: Final = Policy("numa", alike, lowest_domains)
