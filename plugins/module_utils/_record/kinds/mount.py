# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Directories that are mounted on themselves, as a kubelet does with its own where mounts are not shared.

Nothing below a mount point is looked at: a look into an automount mounts it.
"""

from __future__ import annotations

import os
import re
import typing as t

from ..host.host import Host

MOUNTS = "/proc/self/mountinfo"
_OCTAL = re.compile(r"\\([0-7]{3})")
_SECONDS = 60


class Mount(t.NamedTuple):
    """A line of mountinfo."""

    parent: str
    device: str
    root: str
    point: str


def read(host: Host, path: str) -> str:
    """Return how often a directory is mounted on itself, as a number in digits."""
    return str(mounted_on_itself(host.read(MOUNTS).decode("utf-8", "surrogateescape"), path))


def mounted_on_itself(mountinfo: str, path: str) -> int:
    """Count the mounts at `path` that show the very directory that lies there without them."""
    mounts = dict(map(_parse, mountinfo.splitlines()))
    return sum(_is_on_itself(mount, mounts.get(mount.parent)) for mount in mounts.values() if mount.point == path)


def _parse(line: str) -> t.Tuple[str, Mount]:
    number, parent, device, root, point = line.split()[:5]
    return number, Mount(parent, device, _decoded(root), _decoded(point))


def _decoded(word: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), word)


def _is_on_itself(mount: Mount, below: t.Optional[Mount]) -> bool:
    if below is None or mount.device != below.device:
        return False
    return mount.root == os.path.normpath(os.path.join(below.root, os.path.relpath(mount.point, below.point)))


def unmount(host: Host, path: str, times: int) -> None:
    """Take away the last mounts at a path."""
    for _time in range(times):
        host.run(["umount", "--", path], timeout=_SECONDS)
