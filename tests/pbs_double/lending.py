# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of the double as bytes. One program at a time has it: from the folder of the state, or from `lender`.

A host that cannot mount the folder, such as a virtual machine, borrows the state from the lender over TCP.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import time
import typing as t
from dataclasses import dataclass
from pathlib import Path

if t.TYPE_CHECKING:
    import socket

# A host boots for so long, and everybody else may be at it.
_PATIENCE_SECONDS: t.Final = 180.0
_LENGTH: t.Final = 8


@dataclass(frozen=True, slots=True)
class Copy:
    """What the state was when it was taken; empty before the first request. `keep` puts another one in its place."""

    content: bytes
    keep: t.Callable[[bytes], None]


@contextlib.contextmanager
def held(folder: Path) -> t.Iterator[Copy]:
    """Take the state from its folder. It is replaced as a whole, since a MoM may be killed while it writes."""
    path = folder / "state"

    def keep(content: bytes) -> None:
        new = folder / "state.new"
        new.write_bytes(content)
        new.chmod(0o666)
        new.replace(path)

    with (folder / "lock").open("w") as lock:
        take(lock)
        yield Copy(path.read_bytes() if path.exists() else b"", keep)


def take(lock: t.IO[str]) -> None:
    """Lock the file for this process alone; raise BlockingIOError where others have it for too long."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@contextlib.contextmanager
def borrowed(lender: str) -> t.Iterator[Copy]:
    """Take the state from a lender, `HOST:PORT`. Nobody else has it until this ends."""
    with _reached(lender) as connection:
        yield Copy(received(connection), functools.partial(send, connection))


def _reached(lender: str) -> socket.socket:
    import socket  # here, because a command that has the folder itself would load it in vain

    host, _colon, port = lender.rpartition(":")
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return socket.create_connection((host, int(port)), timeout=_PATIENCE_SECONDS)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def send(connection: socket.socket, content: bytes) -> None:
    """Send the state, behind its length."""
    connection.sendall(len(content).to_bytes(_LENGTH, "big") + content)


def received(connection: socket.socket) -> bytes:
    """Return the state that the other side sends; raise EOFError where it comes in part."""
    return _exactly(connection, int.from_bytes(_exactly(connection, _LENGTH), "big"))


def _exactly(connection: socket.socket, number: int) -> bytes:
    content = b""
    while len(content) < number:
        more = connection.recv(number - len(content))
        if not more:
            raise EOFError(f"{len(content)} of {number} bytes")
        content += more
    return content
