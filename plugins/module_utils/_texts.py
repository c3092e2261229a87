# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a small file of a host that may not be there.

PRIVATE to the collection.
"""

from __future__ import annotations

MAX_CHARACTERS = 256 * 1024


def text_of(path: str) -> str:
    """Return a regular or kernel file as text, at most its first MAX_CHARACTERS; "" where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(MAX_CHARACTERS)
    except OSError:
        return ""
