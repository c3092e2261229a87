# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work that searches have done since the loop last had control.

All searches share one budget. Each search alone may end before it would look at the clock, and many such searches would
add up to a slice without an end.
"""

from typing import Final

# Sets of pods and pods in them that are looked at in about a millisecond.
_ENOUGH: Final = 256


class SliceBudget:
    """Count the work of a slice, in pods looked at."""

    def __init__(self) -> None:
        self._spent = 0

    def spend(self, amount: int) -> None:
        """Count work that is done or about to be done."""
        self._spent += amount

    def is_due(self) -> bool:
        """Return whether the caller has to yield now; true starts the count again."""
        if self._spent < _ENOUGH:
            return False
        self._spent = 0
        return True
