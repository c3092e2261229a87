# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long to wait before asking again, so that many that began together do not ask together.

A share of randomness is in each wait. No decision depends on it, only the moment of a request.
"""

SHARE = 0.25


def spread(seconds: float) -> float:
    """Return these seconds, more or less by up to a quarter."""
    import random

    return seconds * random.uniform(1 - SHARE, 1 + SHARE)


class Backoff:
    """Waits that double from `first` to `longest` seconds while something fails, each spread."""

    def __init__(self, first: float, longest: float) -> None:
        self.first = first
        self.longest = longest
        self.next = first

    def failed(self) -> float:
        """Return the seconds to wait after one more failure."""
        seconds, self.next = self.next, min(self.longest, 2 * self.next)
        return spread(seconds)

    def reset(self) -> None:
        """Begin with the first wait again, as it has worked."""
        self.next = self.first
