# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read small files of a host that may not be there, and its table of mounts.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import typing as t

MAX_CHARACTERS = 256 * 1024


def text_of(path: str) -> str:
    """Return a regular or kernel file as text, at most its first MAX_CHARACTERS; "" where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(MAX_CHARACTERS)
    except OSError:
        return ""


def mounts(text: str) -> t.Dict[str, t.Tuple[str, bool]]:
    """Read /proc/self/mounts: file system and if it is read-only, by mount point; the last mount on a point counts."""
    found = {}
    for line in text.splitlines():
        words = line.split(" ")
        if len(words) >= 4:
            point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), words[1])
            found[point] = (words[2], "ro" in words[3].split(","))
    return found


def mount_of(path: str, found: t.Iterable[str]) -> str:
    """Return the mount point that a path lies on."""
    fitting = [point for point in found if point == "/" or path == point or path.startswith(point + "/")]
    return max(fitting, key=len, default="/")
