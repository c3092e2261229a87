# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files, directories and links: read as a `PathState`, made beside their place, and put there in one step."""

from __future__ import annotations

import os
import stat
import typing as t

from ..host.host import Host, permissions, reason
from ..host.paths import discard, staging
from ..model.errors import RecordError
from ..model.items import ABSENT, DIRECTORY, FILE, LINK, OTHER, PathState

_NAME_FOR_VALIDATE = "%s"
_VALIDATE_SECONDS = 60


def read(host: Host, path: str) -> PathState:
    """Return what is at `path`, without following it."""
    found = host.lstat(path)
    if found is None:
        return PathState(ABSENT)
    try:
        return _read(host, path, found)
    except OSError as error:
        raise RecordError(f"{path}: cannot read it: {reason(error)}") from error


def _read(host: Host, path: str, found: os.stat_result) -> PathState:
    if stat.S_ISLNK(found.st_mode):
        return PathState(LINK, target=host.link_target(path), uid=found.st_uid, gid=found.st_gid)
    xattrs = tuple(sorted((name, value.hex()) for name, value in host.xattrs(path).items()))
    owner: t.Dict[str, t.Any] = {"uid": found.st_uid, "gid": found.st_gid, "mode": permissions(found), "xattrs": xattrs}
    if stat.S_ISDIR(found.st_mode):
        return PathState(DIRECTORY, **owner)
    if stat.S_ISREG(found.st_mode):
        return PathState(
            FILE,
            sha256=host.digest(path),
            size=found.st_size,
            mtime_ns=found.st_mtime_ns,
            nlink=found.st_nlink,
            **owner,
        )
    return PathState(OTHER, **owner)


def stage(host: Host, path: str, want: PathState, chunks: t.Iterable[bytes], *, exact: bool) -> None:
    """Make the new content beside its place, with owner, mode and attributes. `exact` also sets the time."""
    temporary = staging(path)
    discard(host, path)
    found = host.make_file(temporary, chunks)
    if found != want.sha256:
        host.remove(temporary)
        raise RecordError(f"{path}: content arrived with sha256 {found}, expected {want.sha256}: run again")
    set_attributes(host, temporary, want, read(host, temporary))
    if exact:
        host.set_mtime(temporary, want.mtime_ns)


def validate(host: Host, path: str, argv: t.Sequence[str]) -> None:
    """Ask the file's own checker about what is staged."""
    named = [word.replace(_NAME_FOR_VALIDATE, staging(path)) for word in argv]
    try:
        host.ask(named, timeout=_VALIDATE_SECONDS)
    except RecordError as error:
        raise RecordError(f"{path}: its new content is refused: {error}") from error


def commit(host: Host, path: str) -> None:
    """Put what is staged into its place."""
    host.rename(staging(path), path)


def set_attributes(host: Host, path: str, want: PathState, now: PathState) -> None:
    """Set the owner first (clears set-id bits), then mode, then attributes (an ACL sets the mode's group bits, too)."""
    if (want.uid, want.gid) != (now.uid, now.gid):
        host.set_owner(path, want.uid, want.gid)
        now = read(host, path)
    before = dict(now.xattrs)
    wanted = dict(want.xattrs)
    for name in before:
        if name not in wanted and not name.startswith("security."):
            host.remove_xattr(path, name)
    host.set_mode(path, want.mode)
    for name, value in wanted.items():
        if before.get(name) != value:
            host.set_xattr(path, name, bytes.fromhex(value))
    if read_mode(host, path) != want.mode:
        host.set_mode(path, want.mode)


def read_mode(host: Host, path: str) -> int:
    """Return the permission bits as they are now."""
    found = host.lstat(path)
    return permissions(found) if found is not None else 0


def make_directory(host: Host, path: str, want: PathState) -> None:
    """Make a directory with its owner, mode and attributes; give an existing one these alone."""
    if host.lstat(path) is None:
        discard(host, path)
        host.make_directory(staging(path), 0o700)
        set_attributes(host, staging(path), want, read(host, staging(path)))
        commit(host, path)
    else:
        set_attributes(host, path, want, read(host, path))
    host.sync_directory(os.path.dirname(path))


def make_link(host: Host, path: str, want: PathState) -> None:
    """Make a link, new or in place of an older one of ours."""
    discard(host, path)
    host.make_link(staging(path), want.target)
    if (want.uid, want.gid) != host.ids():
        host.set_link_owner(staging(path), want.uid, want.gid)
    commit(host, path)
    host.sync_directory(os.path.dirname(path))


def remove(host: Host, path: str, kind: str) -> bool:
    """Remove a path; return False for a directory that still holds something."""
    if kind == DIRECTORY:
        if host.names(path):
            return False
        host.remove_directory(path)
    else:
        host.remove(path)
    host.sync_directory(os.path.dirname(path))
    return True
