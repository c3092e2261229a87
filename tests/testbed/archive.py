# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files for a node as one tar archive, with owners, so that one command puts them in before it boots."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeFile:
    """A file on a node; a folder when `content` is None; a symbolic link when `target` is set."""

    path: str
    content: str | bytes | None = None
    mode: int = 0o644
    owner: str = "root"
    target: str = ""


def enabled(unit: str) -> NodeFile:
    """The link by which systemd starts a unit at boot."""
    return NodeFile(f"/etc/systemd/system/multi-user.target.wants/{unit}", target=f"/lib/systemd/system/{unit}")


def pack(files: Iterable[NodeFile], *, account: Callable[[str], tuple[int, int]], mtime: float) -> bytes:
    """A tar archive of `files`; `account` gives the numeric user and group of a name."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for file in files:
            entry = tarfile.TarInfo(file.path.lstrip("/"))
            entry.uid, entry.gid = account(file.owner)
            entry.mode, entry.mtime = file.mode, mtime
            content = file.content.encode() if isinstance(file.content, str) else file.content
            if file.target:
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, file.target, 0o777
            elif content is None:
                entry.type = tarfile.DIRTYPE
            else:
                entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content or b""))
    return buffer.getvalue()
