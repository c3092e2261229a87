# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells systemd that the controller's service lives, as long as each of its loops comes round.

A loop that hangs is silent: no error, no line, and Nodes that are not brought up to date. Without a word for
WatchdogSec systemd restarts the service, which is always safe: what it believes it learns again.
"""

import contextlib
import os
import socket
import time
from typing import Callable, Dict, Tuple

LATE_SECONDS = 900.0  # for one round of a loop; each request and each command in it has a bound of its own
TELL_SECONDS = 10.0

Beat = Callable[[], None]


class Watchdog:
    """May be used by several threads at once. Times are seconds."""

    def __init__(self, *, remark: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.remark = remark
        self.clock = clock
        self.beats: Dict[str, float] = {}
        self.told = -TELL_SECONDS

    def beat_of(self, loop: str) -> Beat:
        """Return the function that this loop calls whenever it comes round; its time runs from now."""

        def beat() -> None:
            self.beats[loop] = self.clock()

        beat()
        return beat

    def late(self) -> Tuple[str, ...]:
        """Name the loops that have not come round for LATE_SECONDS."""
        now = self.clock()
        return tuple(sorted(loop for loop, at in self.beats.items() if now - at > LATE_SECONDS))

    def tell(self) -> None:
        """Tell systemd that all is well, at most every TELL_SECONDS; remark what is late instead."""
        now = self.clock()
        if now - self.told < TELL_SECONDS:
            return
        self.told = now
        late = self.late()
        if late:
            self.remark("{}: not come round for {:g} s; systemd starts us anew".format(", ".join(late), LATE_SECONDS))
        else:
            _notify("WATCHDOG=1")


def _notify(text: str) -> None:
    """Send a line to the service manager, if there is one. What it does not take it misses, and acts on that."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if path:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(1.0)
            sender.sendto(text.encode("ascii"), "\0" + path[1:] if path.startswith("@") else path)
