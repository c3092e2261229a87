# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells the person who waits what is going on and for how long: one line at the start of a step, one at its end."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

HEARTBEAT_SECONDS = 15.0


def say(text: str) -> None:
    """One line to the person; stderr, because stdout belongs to inventories and JSON."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def step(text: str) -> Iterator[None]:
    """Announce `text`, then its elapsed time; a sign of life every 15 seconds between."""
    begun = time.monotonic()
    over = threading.Event()

    def beat() -> None:
        while not over.wait(HEARTBEAT_SECONDS):
            say(f"      {text}: {time.monotonic() - begun:.0f} s so far")

    say(f"  ..  {text}")
    ticker = threading.Thread(target=beat, daemon=True)
    ticker.start()
    try:
        yield
    except BaseException:
        say(f"  !!  {text}: failed after {time.monotonic() - begun:.1f} s")
        raise
    finally:
        over.set()
        ticker.join()
    say(f"  ok  {text}: {time.monotonic() - begun:.1f} s")
