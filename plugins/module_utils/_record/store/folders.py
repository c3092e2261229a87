# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory in which a record lies, made and taken away with it."""

from __future__ import annotations

import errno
import os

from ..host.host import Host, reason
from ..model.errors import RecordError

_OURS = "converged"


def make_root(host: Host, root: str) -> None:
    """Make the record's directory; above it only our own may be missing."""
    above = os.path.dirname(root)
    if os.path.basename(above) == _OURS:
        make_directory(host, above, 0o755)
    elif host.lstat(above) is None:
        raise RecordError(f"record {root}: {above} does not exist: make it or choose another record_dir")
    make_directory(host, root, 0o700)


def remove_root(host: Host, root: str) -> None:
    """Remove the record's directory, and the one above it where that is ours, unless something is kept there."""
    above = os.path.dirname(root)
    for path in (root, above) if os.path.basename(above) == _OURS else (root,):
        if host.lstat(path) is None or host.names(path):
            return
        try:
            host.remove_directory(path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EBUSY):  # somebody else has just begun; a mount of the site
                raise RecordError(f"cannot remove {path}: {reason(error)}") from error


def make_directory(host: Host, path: str, mode: int) -> None:
    """Make a directory unless it is there."""
    if host.lstat(path) is None:
        try:
            host.make_directory(path, mode)
        except OSError as error:
            raise RecordError(f"cannot make {path}: {reason(error)}") from error
