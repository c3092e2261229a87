# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds and unmounts volumes that pods have in memory: emptyDirs of medium Memory or HugePages, such as most /dev/shm.

They are mounts of the kubelet. Where it was stopped before it could unmount them, what an ended pod has written there
stays in use, is charged to no process, and is missing to the job.
"""

import os
import re
from typing import Callable, Dict, FrozenSet, List, Tuple

IN_MEMORY = ("tmpfs", "hugetlbfs")
UNMOUNT_SECONDS = 15.0  # tens of gigabytes are freed within
_VOLUME = re.compile(
    r"/.*/pods/([0-9A-Za-z-]{1,64})/(?:volumes/kubernetes\.io~empty-dir/[^/]+|volume-subpaths/[^/]+/[^/]+/[0-9]+)",
    re.ASCII,
)
_ESCAPED = re.compile(r"\\([0-7]{3})", re.ASCII)


def find(proc: str) -> Dict[str, Tuple[str, ...]]:
    """Return the mount points of volumes in memory, by the uid of their pod; a subPath of one is a mount as well."""
    found: Dict[str, List[str]] = {}
    with open(os.path.join(proc, "self/mountinfo"), encoding="utf-8", errors="surrogateescape") as stream:
        for line in stream:
            words = line.split(" ")
            where = _VOLUME.fullmatch(words[4]) if len(words) > 6 and "-" in words[6:] else None
            if where and words[words.index("-", 6) + 1] in IN_MEMORY:
                path = _ESCAPED.sub(lambda code: chr(int(code.group(1), 8)), words[4])
                found.setdefault(where.group(1), []).append(path)
    return {uid: tuple(paths) for uid, paths in found.items()}


def unmount(uids: FrozenSet[str], proc: str, *, run: Callable[[Tuple[str, ...], float], object]) -> Tuple[str, ...]:
    """Unmount all volumes in memory of these pods, the innermost first; return the mount points that are left."""

    def left() -> Tuple[str, ...]:
        return tuple(path for uid, paths in find(proc).items() if uid in uids for path in paths)

    paths = left()
    if paths:
        run(("umount", "--", *sorted(paths, key=len, reverse=True)), UNMOUNT_SECONDS)
    return left()
