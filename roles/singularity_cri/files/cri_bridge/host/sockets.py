# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sockets of the bridge: its own one, of which one process at a time may be the owner, and systemd's."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
from pathlib import Path
from typing import Final, Mapping

SCHEME: Final = "unix://"
# What fits into the address of a unix socket, its end included.
LONGEST: Final = 108
MODE: Final = 0o600


class Refused(Exception):
    """The bridge cannot start as it is told; the text says why and what to do."""


def path_of(address: str) -> Path:
    """Return the path in an address such as unix:///run/singularity.sock; raise ValueError for another address."""
    if not address.startswith(SCHEME + "/") or any(not sign.isprintable() for sign in address):
        raise ValueError(f"'{address}' is no address of a socket; write unix:///run/NAME.sock")
    path = address[len(SCHEME) :]
    if len(os.fsencode(path)) >= LONGEST:
        raise ValueError(f"'{address}' is too long: a socket's path has {LONGEST - 1} bytes at most")
    return Path(path)


class OwnSocket:
    """The socket that the bridge listens on: taken before grpc binds it, and removed at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = -1

    def take(self) -> None:
        """Clear a socket that a killed bridge has left; raise Refused if the path is in use or is no socket."""
        name = self._path.with_name(self._path.name + ".lock")
        try:
            lock = os.open(name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, MODE)
        except OSError as error:
            raise Refused(f"cannot open {name}: {error.strerror}; its folder must exist") from error
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, lock)
            self._clear(lock)
            undo.pop_all()
        self._lock = lock

    def _clear(self, lock: int) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Refused(f"{self._path} is in use by another bridge; stop it first") from error
        try:
            kind = os.lstat(self._path).st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(kind):
            raise Refused(f"{self._path} exists and is no socket; remove it or choose another path")
        if _answers(self._path):
            raise Refused(f"{self._path} is in use: another program listens there; stop it first")
        os.unlink(self._path)

    def protect(self) -> None:
        """Let root alone connect."""
        os.chmod(self._path, MODE)

    def release(self) -> None:
        """Remove the socket and give up the path, if this process took it."""
        if self._lock >= 0:
            if self._path.is_socket():
                self._path.unlink()
            os.close(self._lock)
            self._lock = -1


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as end:
        end.settimeout(1)
        try:
            end.connect(str(path))
        except OSError as error:
            # A socket whose listener is busy is in use; one without a listener refuses.
            return error.errno not in (errno.ECONNREFUSED, errno.ENOENT)
    return True


def notify(environ: Mapping[str, str], words: str) -> None:
    """Tell systemd, if it asks for it (NOTIFY_SOCKET); an error is ignored, since systemd notices by itself."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as end:
        end.settimeout(1)
        try:
            end.sendto(words.encode(), "\0" + address[1:] if address.startswith("@") else address)
        except OSError:
            return
