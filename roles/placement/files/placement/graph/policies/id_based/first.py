# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take the first nodes in the order of the tree that suffice. Fluxion stops its search there, too."""

from typing import Final

from placement.graph.policies.policy import Policy, lowest_domains, lowest_nodes

POLICY: Final = Policy("first", lowest_nodes, lowest_domains)
