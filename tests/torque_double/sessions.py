# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of a job: a session, as the kernel lists it."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def end(session: int, number: int = signal.SIGKILL) -> None:
    """End every process of a session, as the MoM does by the kernel's list."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(words[3]) == session:
                    os.kill(int(entry.name), number)
            except (OSError, ValueError, IndexError):
                continue
