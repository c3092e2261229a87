# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prefer nodes of high names. Fluxion then prefers high cores; here this is `high`."""

from typing import Final

from placement.graph.policies.policy import Policy, highest_domains, highest_nodes

POLICY: Final = Policy("hinode", highest_nodes, highest_domains)
