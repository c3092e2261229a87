# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small files that survive a crash whole, and a lock whose wait is bounded.

Everything that nodeshare must still know after a kill goes through `write`: temporary file and rename. So a reader sees
the old content or the new one, never a part. What must outlive a power cut as well is `synced`.
"""

import contextlib
import errno
import os
import stat
from typing import Optional

CHUNK = 1 << 16
PAGE = 4096


class StoreError(Exception):
    """The node's own records cannot be read or written; the message names the file and the reason."""


def make_private_dir(path: str) -> None:
    """Make a directory that only its owner, root, may enter; parents that are not there get mode 0755.

    Refuse a symbolic link in its place, and a directory of another user. If all users may write in a parent of our own,
    any of them could move the directory away, so it is closed to others. A sticky one such as /tmp is left alone.
    """
    parent = os.path.dirname(path)
    try:
        for directory, mode in ((parent, 0o755), (path, 0o700)):
            if not os.path.lexists(directory):
                _make(directory, mode)
        found = os.lstat(parent)
        lax = stat.S_ISDIR(found.st_mode) and found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
        if lax and found.st_uid == os.geteuid():
            os.chmod(parent, stat.S_IMODE(found.st_mode) & ~0o022)
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode):
            raise StoreError("{}: is a symbolic link or a file; a real directory is needed".format(path))
        if found.st_uid != os.geteuid():
            raise StoreError("{}: belongs to user {}; it must be root's".format(path, found.st_uid))
        if stat.S_IMODE(found.st_mode) != 0o700:
            os.chmod(path, 0o700)
    except OSError as error:
        raise StoreError("{}: cannot make the directory: {}".format(path, error.strerror)) from error


def _make(path: str, mode: int) -> None:
    """Make a directory of this mode whatever the umask; another process may make it at the same time."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, mode)
        os.chmod(path, mode)


def sync_dir(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_with_room(path: str, content: bytes) -> None:
    """Replace a file in memory as a whole, also where the file system has become full since the last time.

    The temporary file stays behind with the pages of the next write; blanks fill the file up to whole pages.
    """
    content += b" " * (-len(content) % PAGE)
    _write(path, content, synced=False, anew=False)
    with contextlib.suppress(OSError):  # no room, or none of this kind here: the next write may fail then
        fd = _open_temporary(path, os.O_TRUNC)
        try:
            os.posix_fallocate(fd, 0, len(content))
        finally:
            os.close(fd)


def claim(path: str) -> bool:
    """Make an empty file, which needs no room in memory; False where one is there or none can be made."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError:
        return False
    return True


def write(path: str, content: bytes, *, synced: bool = True) -> None:
    """Replace a file as a whole. The temporary name is fixed, so that a killed writer leaves at most one behind.

    What is not `synced` outlives every kill, and a power cut perhaps not. A sync of a busy disk takes minutes.
    """
    _write(path, content, synced=synced, anew=True)


def _temporary(path: str) -> str:
    directory, name = os.path.split(path)
    return os.path.join(directory, ".new." + name)


def _open_temporary(path: str, flags: int) -> int:
    return os.open(_temporary(path), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)


def _write(path: str, content: bytes, *, synced: bool, anew: bool) -> None:
    temporary = _temporary(path)
    try:
        fd = _open_temporary(path, os.O_TRUNC if anew else 0)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view) :]
            if not anew:
                os.ftruncate(fd, len(content))
            if synced:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
        if synced:
            sync_dir(os.path.dirname(path))
    except OSError as error:
        with contextlib.suppress(OSError):  # it was never made, or the disk is gone: the error below says so
            os.unlink(temporary)
        raise StoreError("{}: cannot write: {}".format(path, error.strerror)) from error


def read(path: str, limit: int = 1 << 20) -> Optional[bytes]:
    """Return the content, or None if there is no such file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        raise StoreError("{}: cannot read: {}".format(path, error.strerror)) from error
    try:
        content = part = os.read(fd, CHUNK)
        while len(part) == CHUNK and len(content) <= limit:
            part = os.read(fd, CHUNK)
            content += part
    finally:
        os.close(fd)
    if len(content) > limit:
        raise StoreError("{}: larger than {} bytes".format(path, limit))
    return content


def remove(path: str, *, synced: bool = False) -> bool:
    """Remove a file; False where it was not there. `synced`: a power cut does not bring it back."""
    try:
        os.unlink(path)
        if synced:
            sync_dir(os.path.dirname(path))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError("{}: cannot remove: {}".format(path, error.strerror)) from error
    return True
