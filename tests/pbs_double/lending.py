# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of the double as bytes, for one at a time: from its folder, or from a process that lends it out over TCP.

That process stands where the folder is. Hosts that cannot mount the folder, as virtual machines, borrow from it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import socket
import socketserver
import time
import typing as t
from dataclasses import dataclass
from pathlib import Path

PORT: t.Final = 15010
# A host that has lost its power while it had the state says nothing any more.
_LENT_SECONDS: t.Final = 30.0
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
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Copy(path.read_bytes() if path.exists() else b"", keep)


@contextlib.contextmanager
def borrowed(lender: str) -> t.Iterator[Copy]:
    """Take the state from a lender, `HOST:PORT`. Nobody else has it until this ends."""
    with _reached(lender) as connection:
        yield Copy(_received(connection), functools.partial(_send, connection))


class Lender(socketserver.ThreadingTCPServer):
    """Lends the state of a folder out."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, folder: Path, address: tuple[str, int]) -> None:
        super().__init__(address, functools.partial(_Lending, folder))


def run(_host: str, folder: str, _arguments: list[str]) -> int:
    """Lend the state of a folder out, until the process is ended."""
    with Lender(Path(folder), ("", PORT)) as lender:
        lender.serve_forever()
    return 0


class _Lending(socketserver.BaseRequestHandler):
    """One time that the state is lent out. Who says nothing has changed nothing."""

    def __init__(self, folder: Path, *given: t.Any) -> None:
        self._folder = folder
        super().__init__(*given)

    def handle(self) -> None:
        self.request.settimeout(_LENT_SECONDS)
        with contextlib.suppress(OSError, EOFError), held(self._folder) as copy:
            _send(self.request, copy.content)
            copy.keep(_received(self.request))


def _reached(lender: str) -> socket.socket:
    host, _colon, port = lender.rpartition(":")
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return socket.create_connection((host, int(port)), timeout=_PATIENCE_SECONDS)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _send(connection: socket.socket, content: bytes) -> None:
    connection.sendall(len(content).to_bytes(_LENGTH, "big") + content)


def _received(connection: socket.socket) -> bytes:
    return _exactly(connection, int.from_bytes(_exactly(connection, _LENGTH), "big"))


def _exactly(connection: socket.socket, number: int) -> bytes:
    content = b""
    while len(content) < number:
        more = connection.recv(number - len(content))
        if not more:
            raise EOFError(f"{len(content)} of {number} bytes")
        content += more
    return content
