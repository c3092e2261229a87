# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders of the execution hosts, and whether a MoM is alive there."""

from __future__ import annotations

import fcntl
from pathlib import Path


def home(folder: Path, host: str) -> Path:
    """Its PBS_HOME."""
    return folder / "homes" / host


def lock_of(folder: Path, host: str) -> Path:
    """A MoM holds it as long as it lives, and writes its number there."""
    return home(folder, host) / "mom_priv/mom.lock"


def mom_runs(folder: Path, host: str) -> bool:
    """A node without a home is taken for one whose MoM is well."""
    path = lock_of(folder, host)
    if not path.exists():
        return True
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
