# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small files that survive a crash whole, and a lock whose wait is bounded.

Everything that nodeshare must still know after a kill or a power cut goes through `write`: temporary file, fsync,
rename, fsync of the directory. A reader sees the old content or the new one, never a part.
"""

import contextlib
import errno
import fcntl
import os
import time
from types import TracebackType
from typing import Callable, Optional, Type

CHUNK = 1 << 16


class StoreError(Exception):
    """The node's own records cannot be read or written; the message names the file and the reason."""


def make_private_dir(path: str) -> None:
    """Make a directory that only root may enter, parents included; refuse a symbolic link in its place."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        if os.path.islink(path):
            raise StoreError("{}: is a symbolic link; a real directory is needed".format(path))
        os.chmod(path, 0o700)
    except OSError as error:
        raise StoreError("{}: cannot make the directory: {}".format(path, error.strerror)) from error


def sync_dir(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write(path: str, content: bytes, *, synced: bool = True) -> None:
    """Replace a file as a whole. The temporary name is fixed, so that a killed writer leaves at most one behind.

    What is not `synced` outlives every kill, and a power cut perhaps not: milliseconds less for who waits.
    """
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, ".new." + name)
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view) :]
            if synced:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
        if synced:
            sync_dir(directory)
    except OSError as error:
        with contextlib.suppress(OSError):  # it was never made, or the disk is gone: the error below says so
            os.unlink(temporary)
        raise StoreError("{}: cannot write: {}".format(path, error.strerror)) from error


def read(path: str, limit: int = 1 << 20) -> Optional[bytes]:
    """The content, or None where there is no such file."""
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


def remove(path: str) -> bool:
    """Remove a file for good; False where it was not there."""
    try:
        os.unlink(path)
        sync_dir(os.path.dirname(path))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError("{}: cannot remove: {}".format(path, error.strerror)) from error
    return True


class Lock:
    """An exclusive flock, waited for at most `seconds`. The kernel frees it when its holder dies."""

    def __init__(self, path: str, *, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.seconds = seconds
        self.clock = clock
        self.fd = -1

    def __enter__(self) -> "Lock":
        try:
            self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError("{}: cannot open the lock: {}".format(self.path, error.strerror)) from error
        give_up = self.clock() + self.seconds
        pause = 0.001
        while True:
            try:
                fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return self
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EINTR) or self.clock() >= give_up:
                    self._close()
                    raise StoreError(
                        "{}: not free within {:g} s ({})".format(self.path, self.seconds, error.strerror)
                    ) from error
            time.sleep(pause)
            pause = min(pause * 2, 0.05)

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._close()

    def _close(self) -> None:
        os.close(self.fd)
        self.fd = -1
