# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of the store."""

import errno
import fcntl
import os
import time
from types import TracebackType
from typing import Callable, Optional, Type

from .files import StoreError


class Lock:
    """An exclusive flock, waited for at most `seconds`. The kernel frees it when its holder dies.

    `turn` counts how often the lock has been taken: a holder that lets go for a while sees whether another had it.
    The count is the file's time of change, which needs no room where the file system is full.
    """

    def __init__(self, path: str, *, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.seconds = seconds
        self.clock = clock
        self.fd = -1
        self.turn = 0

    def __enter__(self) -> "Lock":
        self.take()
        return self

    def take(self) -> None:
        """Wait for the lock. Raises StoreError where it does not become free in time."""
        try:
            self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError("{}: cannot open the lock: {}".format(self.path, error.strerror)) from error
        give_up = self.clock() + self.seconds
        pause = 0.001
        while True:
            try:
                fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.turn = os.fstat(self.fd).st_mtime_ns + 1
                os.utime(self.fd, ns=(self.turn, self.turn))
                return
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EINTR) or self.clock() >= give_up:
                    self.let_go()
                    raise StoreError(
                        "{}: not free within {:g} s ({})".format(self.path, self.seconds, error.strerror)
                    ) from error
            time.sleep(pause)
            pause = min(pause * 2, 0.05)

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.let_go()

    def let_go(self) -> None:
        """Give the lock away, where it is held."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
