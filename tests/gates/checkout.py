# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run has left in the checkout: nothing, because whatever tools and root write has a folder of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path


def strays(checkout: Path) -> set[str]:
    """What git ignores, which is what tools leave, and what belongs to another user than the checkout itself.

    New files that git does not ignore are somebody's work and no business of ours.
    """
    argv = ["git", "-C", str(checkout), "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"]
    listed = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
    return {*filter(None, listed.split("\0")), *foreign(checkout)}


def foreign(checkout: Path) -> set[str]:
    """Files and folders of other users."""
    owner = checkout.stat().st_uid
    found = set()
    for folder, names, files in os.walk(checkout):
        for name in (*names, *files):
            path = Path(folder, name)
            with contextlib.suppress(FileNotFoundError):  # git and editors remove files at any time
                if path.lstat().st_uid != owner:
                    found.add(f"{path.relative_to(checkout)} (of another user)")
    return found
