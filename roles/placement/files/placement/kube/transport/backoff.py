# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long to wait before trying again: longer each time, never in step with others, and as long as the server asks."""

import random
import threading
from collections.abc import Callable
from typing import Final

FIRST_SECONDS: Final = 0.05
LONGEST_SECONDS: Final = 10.0
# A server that asks for more than this is asked again all the same.
_LONGEST_ASKED: Final = 60.0


class Backoff:
    """Waits between the tries of one thread."""

    def __init__(self, stop: threading.Event, *, draw: Callable[[], float] = random.random) -> None:
        self._stop = stop
        self._draw = draw
        self._next = FIRST_SECONDS

    def reset(self) -> None:
        """Begin with the shortest wait again, after a success."""
        self._next = FIRST_SECONDS

    def delay(self, asked: float = 0.0, *, longest: float = LONGEST_SECONDS) -> float:
        """Return the next wait in seconds: between half and all of a limit that doubles, but no less than `asked`."""
        limit, self._next = self._next, min(2 * self._next, longest)
        return max(limit * (0.5 + 0.5 * self._draw()), min(asked, _LONGEST_ASKED))

    def wait(self, asked: float = 0.0, *, longest: float = LONGEST_SECONDS) -> bool:
        """Wait for the next delay; return False when everything stops."""
        return not self._stop.wait(self.delay(asked, longest=longest))
