# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prefer high names: rack r2 before r1, node n10 before n2."""

from typing import Final

from placement.graph.policies.policy import Policy, highest_domains, highest_nodes

POLICY: Final = Policy("high", highest_nodes, highest_domains)
