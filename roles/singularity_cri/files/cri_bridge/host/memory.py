# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives the memory of large messages back to the system: the allocator would keep it, and nodes count it."""

from __future__ import annotations

import asyncio
import ctypes
from typing import Final

# A message of this size leaves memory that is worth the work of giving it back.
LARGE: Final = 1024 * 1024
# After the last of several such messages.
REST_SECONDS: Final = 1.0
# mallopt's number for how many arenas there may be (malloc.h).
_M_ARENA_MAX: Final = -8


def use_one_arena() -> None:
    """Have all threads share one arena, so that trimming reaches all memory; call it before there are threads."""
    choose = getattr(ctypes.CDLL(None), "mallopt", None)
    if choose is not None:
        choose(_M_ARENA_MAX, 1)


class Trimmer:
    """Has the allocator trim its memory once large messages have passed."""

    def __init__(self) -> None:
        # Only glibc has it.
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        self._timer: asyncio.TimerHandle | None = None

    def passed(self, size: int) -> None:
        """Note that a message of this many bytes has passed."""
        if size >= LARGE and self._trim is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(REST_SECONDS, self._trim, 0)
