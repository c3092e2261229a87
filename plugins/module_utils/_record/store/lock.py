# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Allow one change of a node at a time. A second run waits a bounded time, and its error then names the holder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import typing as t

from ..host.host import Host, reason
from ..model.errors import RecordError
from .folders import make_root, remove_root
from .store import Store

_PAUSE = 0.1


@contextlib.contextmanager
def locked(host: Host, store: Store, *, holder: str, wait: float) -> t.Iterator[None]:
    """Hold the record's lock; the kernel lets go of it when this process ends, however it ends.

    Where there is no record when it lets go, the lock goes, too, and the folders that were made for it.
    """
    path = f"{store.root}/lock"
    deadline = time.monotonic() + wait
    while True:
        make_root(host, store.root)
        try:
            fd = host.open_lock(path)
        except FileNotFoundError:
            if time.monotonic() < deadline:
                continue  # who held it took the folder away
            raise RecordError(f"cannot open {path}: its folder is taken away again and again: run again") from None
        except OSError as error:
            raise RecordError(f"cannot open {path}: {reason(error)}") from error
        try:
            if _take(fd, path, deadline) and _is_current(host, fd, path):
                try:
                    _write_holder(host, fd, path, holder)
                    yield
                finally:
                    _tidy(host, store, path)
                return
        finally:
            host.close_lock(fd)


def _tidy(host: Host, store: Store, path: str) -> None:
    if not store.exists():
        host.remove(path)
        remove_root(host, store.root)


def _take(fd: int, path: str, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                held = os.pread(fd, 4096, 0).decode("utf-8", "replace").strip() or "somebody who has just begun"
                raise RecordError(f"{path} is held by {held}: wait for that run to end, or end it") from None
            time.sleep(_PAUSE)


def _is_current(host: Host, fd: int, path: str) -> bool:
    """Return whether the lock still has its name: its last holder may have removed it with the record."""
    found = host.lstat(path)
    return found is not None and found.st_ino == os.fstat(fd).st_ino


def _write_holder(host: Host, fd: int, path: str, holder: str) -> None:
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(host.now()))
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{holder}, process {os.getpid()} since {since}\n".encode(), 0)
    except OSError as error:
        raise RecordError(f"cannot write {path}: {reason(error)}; nothing was changed") from error
