# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""As `first`, and each node is given whole."""

from typing import Final

from placement.graph.policies.policy import Policy, lowest_domains, lowest_nodes

POLICY: Final = Policy("firstnodex", lowest_nodes, lowest_domains, exclusive=True)
