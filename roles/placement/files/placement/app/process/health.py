# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the daemon lives, and whether it has seen everything: what `/healthz` and `/readyz` answer, and why not."""

import time
from typing import Final

from placement.app.process.wiring import Assembly

_DEAD_SECONDS: Final = 30.0
# A machine that stood still makes everything look old at once: the loop has had so many looks' time to turn since then.
LOOKS: Final = 100
Verdict = tuple[bool, str]


class Stuck(Exception):
    """The loop does not turn."""


def healthy(parts: Assembly) -> Verdict:
    """Judge liveness: the loop still turns."""
    silent = time.monotonic() - parts.loop.beat
    good = silent < _DEAD_SECONDS and parts.switches.crash is None
    return good, "ok\n" if good else f"the loop has not turned for {silent:.0f} s\n"


def ready(parts: Assembly) -> Verdict:
    """Judge readiness: all is listed and the daemon keeps up, as leader or not."""
    unsynced = (item for item in parts.reflectors if not item.health.synced)
    missing = [f"{item.source.name}: {item.health.error or 'listing'}" for item in unsynced]
    missing = missing or [f"{name}: silent" for name in parts.silent()]
    return not missing, "\n".join(missing or ["ok"]) + "\n"


class Watchdog:
    """Knows from looks one after another, a tenth of a second apart, that the loop will not turn any more."""

    def __init__(self, parts: Assembly, *, looks: int = LOOKS) -> None:
        self._parts = parts
        self._looks = looks
        self._bad = 0

    def look(self) -> bool:
        """Whether all is well; has the daemon end where nothing has been for long."""
        good, report = healthy(self._parts)
        self._bad = 0 if good else self._bad + 1
        if self._bad >= self._looks:
            self._parts.crashed(Stuck(report.strip()))
        return good
