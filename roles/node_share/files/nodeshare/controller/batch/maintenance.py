# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site may have pods evicted for, and the states of nodes that mean it.

A module of its own, which loads no other: Ansible loads it to judge settings.
"""

from typing import Iterable

# By what the site asks for, the states of Slurm and PBS that mean it.
MAINTENANCE = {
    "drain": frozenset(("DRAIN", "DRAINED", "DRAINING", "offline")),
    "maintenance": frozenset(("MAINT", "MAINTENANCE", "maintenance")),
    "reboot": frozenset(("REBOOT", "REBOOT_REQUESTED", "REBOOT_ISSUED")),
    "power_down": frozenset(("POWER_DOWN", "POWERING_DOWN", "POWERED_DOWN", "sleep")),
}


def is_maintenance(state: str, wanted: Iterable[str]) -> bool:
    """Whether a node's state, as `states` has it, is one that the site has pods evicted for."""
    words = state.partition(":")[0].split("+")
    return any(not MAINTENANCE[name].isdisjoint(words) for name in wanted)
