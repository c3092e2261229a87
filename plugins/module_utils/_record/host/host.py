# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every read from and every effect on a node: one small class, so that an effect can be counted, refused or simulated.

A method below "Effects" is one indivisible change. Nothing else in this package touches the node.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import grp
import hashlib
import os
import pwd
import stat
import struct
import time
import typing as t

from ..._command import CommandError, Completed, run
from ..model.errors import RecordError

CHUNK = 1 << 20
_FS_IOC_GETFLAGS = 0x80086601
_IMMUTABLE = 0x10

_REASONS = {
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "no space left on the file system",
    errno.EDQUOT: "the disk quota is used up",
    errno.EPERM: "not permitted (immutable attribute, or a mount that forbids it)",
}


class Host:
    """A node, or the tree of one below `root`."""

    def __init__(self, root: str = "/") -> None:
        self._root = root.rstrip("/")
        self._lock: t.Tuple[int, ...] = ()

    def at(self, path: str) -> str:
        """Return where the node's `path` lies for this process."""
        return self._root + path

    # Reads

    def now(self) -> float:
        """Return seconds since the epoch; only shown to people."""
        return time.time()

    def lstat(self, path: str) -> t.Optional[os.stat_result]:
        """Return what `lstat` says of a path; None where there is nothing."""
        try:
            return os.lstat(self.at(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, path: str) -> bytes:
        """Return the whole of a file, never through a link."""
        return b"".join(self.chunks(path))

    def chunks(self, path: str) -> t.Iterator[bytes]:
        """Yield a file piece by piece, never through a link."""
        with os.fdopen(os.open(self.at(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            while True:
                chunk = file.read(CHUNK)
                if not chunk:
                    return
                yield chunk

    def digest(self, path: str) -> str:
        """Return the sha256 of a file."""
        total = hashlib.sha256()
        for chunk in self.chunks(path):
            total.update(chunk)
        return total.hexdigest()

    def names(self, path: str) -> t.List[str]:
        """Return the names in a directory; none where there is no such directory."""
        try:
            return sorted(os.listdir(self.at(path)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def link_target(self, path: str) -> str:
        """Return the target of a link."""
        return os.readlink(self.at(path))

    def xattrs(self, path: str) -> t.Dict[str, bytes]:
        """Return extended attributes: ACLs, SELinux context, capabilities, the site's own."""
        where = self.at(path)
        try:
            found = os.listxattr(where, follow_symlinks=False)
            return {name: os.getxattr(where, name, follow_symlinks=False) for name in found}
        except OSError as error:
            if error.errno in (errno.ENOTSUP, errno.ENODATA):
                return {}
            raise

    def immutable(self, path: str) -> bool:
        """Return whether a path has `chattr +i`, where the file system knows it."""
        try:
            fd = os.open(self.at(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            flags = fcntl.ioctl(fd, _FS_IOC_GETFLAGS, struct.pack("l", 0))
            return bool(struct.unpack("l", flags)[0] & _IMMUTABLE)
        except OSError:
            return False
        finally:
            os.close(fd)

    def space(self, path: str) -> os.statvfs_result:
        """Return the figures of the file system that holds a path."""
        return os.statvfs(self.at(path))

    def owner_id(self, name: str) -> t.Optional[int]:
        """Return a user's number; None where the node does not know the name."""
        try:
            return int(name) if name.isdigit() else pwd.getpwnam(name).pw_uid
        except KeyError:
            return None

    def group_id(self, name: str) -> t.Optional[int]:
        """Return a group's number; None where the node does not know the name."""
        try:
            return int(name) if name.isdigit() else grp.getgrnam(name).gr_gid
        except KeyError:
            return None

    def ids(self) -> t.Tuple[int, int]:
        """Return user and group of this process."""
        return os.geteuid(), os.getegid()

    def ask(self, argv: t.Sequence[str], *, timeout: float = 60, ok: t.Container[int] = (0,)) -> Completed:
        """Run a program that only reads."""
        return _run(argv, timeout=timeout, ok=ok)

    # Effects

    def open_lock(self, path: str) -> int:
        """Open a file to lock, root-only; the caller closes it.

        Programs that change the node inherit it: one that outlives this process still holds the lock.
        """
        fd = os.open(self.at(path), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._lock = (fd,)
        return fd

    def close_lock(self, fd: int) -> None:
        """Release a lock for every process: a program that still runs when all went well holds nothing."""
        self._lock = ()
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)

    def make_file(self, path: str, chunks: t.Iterable[bytes]) -> str:
        """Make a new file, root-only and on disk; return its sha256."""
        total = hashlib.sha256()
        fd = os.open(self.at(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            for chunk in chunks:
                total.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        return total.hexdigest()

    def append(self, path: str, data: bytes, *, at: int) -> None:
        """Append to a file after its first `at` bytes, on disk; drop what a crash left behind these."""
        fd = os.open(self.at(path), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            if os.fstat(file.fileno()).st_size > at:
                os.ftruncate(file.fileno(), at)
            file.seek(at)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    @contextlib.contextmanager
    def _itself(self, path: str) -> t.Iterator[str]:
        """Yield a name for the very file at `path`: a user who may write its directory could replace it meanwhile."""
        fd = os.open(self.at(path), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(fd)
            if stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink > 1):
                raise OSError(errno.EMLINK, "is a link or has other names")
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)

    def set_owner(self, path: str, uid: int, gid: int) -> None:
        """Set owner and group. This clears set-id bits, as chown does: call it before `set_mode`."""
        with self._itself(path) as itself:
            os.chown(itself, uid, gid)

    def set_link_owner(self, path: str, uid: int, gid: int) -> None:
        """Set owner and group of a symbolic link."""
        os.lchown(self.at(path), uid, gid)

    def set_mode(self, path: str, mode: int) -> None:
        """Set the permission bits of a path."""
        with self._itself(path) as itself:
            os.chmod(itself, mode)

    def set_xattr(self, path: str, name: str, value: bytes) -> None:
        """Set one extended attribute."""
        with self._itself(path) as itself:
            os.setxattr(itself, name, value)

    def remove_xattr(self, path: str, name: str) -> None:
        """Remove one extended attribute."""
        with self._itself(path) as itself:
            os.removexattr(itself, name)

    def set_mtime(self, path: str, mtime_ns: int) -> None:
        """Set the time of last change."""
        os.utime(self.at(path), ns=(mtime_ns, mtime_ns), follow_symlinks=False)

    def rename(self, old: str, new: str) -> None:
        """Put a file in the place of `new` in one step."""
        os.rename(self.at(old), self.at(new))

    def publish(self, old: str, new: str) -> None:
        """Give a finished file its name, unless the name is taken."""
        os.link(self.at(old), self.at(new))

    def make_link(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        os.symlink(target, self.at(path))

    def make_directory(self, path: str, mode: int) -> None:
        """Make a directory."""
        os.mkdir(self.at(path), mode)

    def remove(self, path: str) -> None:
        """Remove a file or a link."""
        os.unlink(self.at(path))

    def remove_directory(self, path: str) -> None:
        """Remove a directory if it is empty."""
        os.rmdir(self.at(path))

    def sync_file(self, path: str) -> None:
        """Write a file to disk that another program wrote; nothing else than a plain file is touched."""
        if not stat.S_ISREG(os.lstat(self.at(path)).st_mode):
            return
        fd = os.open(self.at(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_directory(self, path: str) -> None:
        """Write the names in a directory to disk."""
        fd = os.open(self.at(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def write_value(self, path: str, value: str) -> None:
        """Write a value below /proc/sys, where there is no rename."""
        with open(self.at(path), "w", encoding="ascii") as file:
            file.write(value + "\n")

    def run(
        self,
        argv: t.Sequence[str],
        *,
        timeout: float,
        env: t.Optional[t.Mapping[str, str]] = None,
        ok: t.Container[int] = (0,),
    ) -> Completed:
        """Run a program that changes the node."""
        return _run(argv, timeout=timeout, env=env, ok=ok, pass_fds=self._lock)


def _run(argv: t.Sequence[str], **how: t.Any) -> Completed:
    try:
        return run(argv, **how)
    except CommandError as error:
        raise RecordError(str(error)) from error


def reason(error: OSError) -> str:
    """Return an operating system's error in words that say what to look at."""
    return _REASONS.get(error.errno or 0) or (error.strerror or str(error))


def is_trusted(found: os.stat_result, host: Host) -> bool:
    """Return whether only root, or the user who runs this, can have made this link."""
    return found.st_uid in (0, host.ids()[0])


def permissions(found: os.stat_result) -> int:
    """Return the permission bits of a mode."""
    return stat.S_IMODE(found.st_mode)
