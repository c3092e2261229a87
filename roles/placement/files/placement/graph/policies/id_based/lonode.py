# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prefer nodes of low names. Fluxion then prefers low cores; here this is `low`."""

from typing import Final

from placement.graph.policies.policy import Policy, lowest_domains, lowest_nodes

POLICY: Final = Policy("lonode", lowest_nodes, lowest_domains)
