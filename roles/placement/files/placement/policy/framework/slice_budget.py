# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effort: how much has been searched since others may last have had a turn.

All searches share one. A search that looks at the clock for itself does so seldom, so many that end before that would
add up to a slice without any end.
"""

from typing import Final

# About a millisecond: sets of pods that are looked at, and pods in them.
_ENOUGH: Final = 256


class SliceBudget:
    """What has been done, in pods looked at."""

    def __init__(self) -> None:
        self._spent = 0

    def spend(self, amount: int) -> None:
        """So much has been done, or is about to be."""
        self._spent += amount

    def is_due(self) -> bool:
        """Whether it is time for a look at the clock; whoever asks takes it."""
        if self._spent < _ENOUGH:
            return False
        self._spent = 0
        return True
