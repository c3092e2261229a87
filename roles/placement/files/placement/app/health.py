# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the daemon lives, and whether it has seen everything: what `/healthz` and `/readyz` answer, and why not."""

import time
from typing import Final

from placement.app.assembly import Assembly

_DEAD_SECONDS: Final = 30.0
Verdict = tuple[bool, str]


def healthy(parts: Assembly) -> Verdict:
    """Alive is who still turns the loop."""
    silent = time.monotonic() - parts.loop.beat
    good = silent < _DEAD_SECONDS and parts.switches.crash is None
    return good, "ok\n" if good else f"the loop has not turned for {silent:.0f} s\n"


def ready(parts: Assembly) -> Verdict:
    """Ready is who has seen everything and keeps up, leader or not."""
    unsynced = (item for item in parts.reflectors if not item.health.synced)
    missing = [f"{item.source.name}: {item.health.error or 'listing'}" for item in unsynced]
    missing = missing or [f"{name}: silent" for name in parts.silent()]
    return not missing, "\n".join(missing or ["ok"]) + "\n"
