# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Garbage collection: never through everything that is known while there is work.

What the daemon knows of pods and nodes is freed by its reference counts; only what is in a cycle, such as an exception
with its traceback, needs the collector. It looks at young objects as always, which takes a millisecond. It looks at the
old ones at rest, and at each of them once an hour at most. With 50,000 pods known a look at all takes longer than
placing a hundred.
"""

import ctypes
import gc
import time
from collections.abc import Callable
from typing import Final

# Objects made and not freed between two looks at the youngest, and such looks between two at those that outlived one.
_YOUNG: Final = 1_000
_MIDDLE: Final = 10
_NEVER: Final = 1 << 30
# Looks at the middle generation after which the old ones are worth one.
_WORTH: Final = 3
_REST_SECONDS: Final = 2.0
# What was in use at the last look may be garbage by now: after this time a look is at all objects.
_WHOLE_SECONDS: Final = 3600.0


def begin() -> None:
    """From now on old objects are looked at only by `collect`."""
    gc.set_threshold(_YOUNG, _MIDDLE, _NEVER)


def collect() -> None:
    """Frees what is garbage, and does not look again at what stays."""
    gc.collect()
    gc.freeze()
    # The C library keeps what is freed below what is still in use: after a list of 50,000 pods several MiB.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Rest:
    """When to collect: once the daemon has been idle for a while, if much has come since the last time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._busy = clock()
        self._looked_at_all = clock()

    def due(self, *, idle: bool) -> bool:
        """To be asked every now and then."""
        now = self._clock()
        if not idle:
            self._busy = now
        return now - self._busy >= _REST_SECONDS and gc.get_count()[2] >= _WORTH

    def collect(self) -> None:
        """Collect; once an hour among all objects, for what an earlier look has left."""
        now = self._clock()
        if now - self._looked_at_all >= _WHOLE_SECONDS:
            self._looked_at_all = now
            gc.unfreeze()
        collect()
