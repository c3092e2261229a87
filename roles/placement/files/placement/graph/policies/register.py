# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The policies by name."""

from typing import Final

from placement.graph.policies import locality, numa, variation
from placement.graph.policies.id_based import first, firstnodex, high, hinode, hinodex, lonode, lonodex, low
from placement.graph.policies.policy import Policy
from placement.graph.request import RequestError

POLICIES: Final[dict[str, Policy]] = {
    module.POLICY.name: module.POLICY
    for module in (first, firstnodex, low, high, lonode, hinode, lonodex, hinodex, locality, variation, numa)
}


def policy_named(name: str) -> Policy:
    """Return the policy of this name; RequestError lists the names that there are."""
    policy = POLICIES.get(name)
    if policy is None:
        raise RequestError(f"match policy {name[:60]!a} is unknown, the policies are {', '.join(POLICIES)}")
    return policy
