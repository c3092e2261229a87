# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the site had made of a file of ours before it was written again or put back: removing the record leaves it."""

from __future__ import annotations

import os
import stat
import typing as t

from ..host.host import Host, reason
from ..host.paths import discard, parents, staging
from ..model.errors import RecordError
from .folders import make_directory


def kept_files(host: Host, root: str) -> t.List[str]:
    """Return all files that were put aside for the site."""
    folders, found = [f"{root}/kept"], []
    while folders:
        folder = folders.pop()
        for name in host.names(folder):
            path = f"{folder}/{name}"
            state = host.lstat(path)
            if state is not None and stat.S_ISDIR(state.st_mode):
                folders.append(path)
            elif not name.endswith(".converged-new"):
                found.append(path)
    return sorted(found)


def keep(host: Host, root: str, path: str, sha256: str) -> None:
    """Put the site's version of a file aside, where the end of the record leaves it."""
    kept = f"{root}/kept/{sha256}{path}"
    if host.lstat(kept) is not None:
        return
    folder = os.path.dirname(kept)
    for parent in reversed(parents(kept)):
        if parent.startswith(f"{root}/"):
            make_directory(host, parent, 0o700)
    discard(host, kept)
    try:
        host.make_file(staging(kept), host.chunks(path))
    except OSError as error:
        raise RecordError(f"{path}: cannot put your version of it aside: {reason(error)}") from error
    host.rename(staging(kept), kept)
    host.sync_directory(folder)
