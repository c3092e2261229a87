# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server of a few lines: each request gets the next answer of a script, byte by byte as the script says."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from placement.kube.transport.credentials import Endpoint
from placement.kube.transport.http1 import Answer, HttpError, NoAnswer

# Pieces of one answer; an empty piece cuts the connection, after None it stays and nothing comes over it any more.
Script = list[list[bytes | None]]


class PlainText(ssl.SSLContext):
    """No TLS: what is tested is what is spoken inside it."""

    def wrap_socket(self, sock: Any, *_arguments: Any, **_settings: Any) -> Any:
        return sock


class Server:
    """Listens on a free port."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._done = threading.Event()
        self._silent: list[socket.socket] = []
        self.requests: list[bytes] = []
        self.connections = 0
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def endpoint(self) -> Endpoint:
        host, port = self._listener.getsockname()
        return Endpoint(host, port, PlainText(ssl.PROTOCOL_TLS_CLIENT))

    def close(self) -> None:
        self._done.set()
        # Closing alone would leave `accept` waiting.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.thread.join(5)
        for connection in self._silent:
            connection.close()

    def wait_for(self, number: int) -> list[bytes]:
        """The requests, once there are so many."""
        give_up = time.monotonic() + 300
        while len(self.requests) < number:
            assert time.monotonic() < give_up, self.requests
            self._done.wait(0.01)
        return self.requests

    def _serve(self) -> None:
        while not self._done.is_set():
            try:
                connection, _address = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if not self._converse(connection):
                connection.close()

    def _converse(self, connection: socket.socket) -> bool:
        """Answers over one connection; says whether that is to stay, silent."""
        while self._script:
            try:
                head = b""
                while b"\r\n\r\n" not in head:
                    piece = connection.recv(65536)
                    if not piece:
                        return False
                    head += piece
                self.requests.append(head)
                for part in self._script.pop(0):
                    if part == b"":
                        return False
                    if part is None:
                        self._silent.append(connection)
                        return True
                    connection.sendall(part)
            except OSError:
                return False
        return False


@contextmanager
def served(*answers: list[bytes | None]) -> Iterator[Server]:
    """A server with this script."""
    server = Server(list(answers))
    try:
        yield server
    finally:
        server.close()


def answer(body: bytes, status: int = 200, *headers: str) -> bytes:
    """A whole answer with a length."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def chunked(chunks: Iterable[bytes]) -> bytes:
    """A whole answer in chunks."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks if chunk) + b"0\r\n\r\n"


class SkippingClock(threading.Event):
    """A clock that a wait puts on by its whole time, at once; set, it ends what waits."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        """Move on by the timeout, in seconds."""
        self.now += timeout or 0.0
        return self.is_set()


class ScriptedConnection:
    """Takes the place of a connection where what is said matters and not how: answers, watches and errors in turn."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.asked: list[tuple[str, str, bytes]] = []

    def close(self) -> None:
        pass

    def request(self, method: str, path: str, body: bytes = b"", *, content_type: str = "") -> Answer:
        self.asked.append((method, path, body))
        found = self.script.pop(0)
        if isinstance(found, Exception):
            raise found
        status, content = found
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        return Answer(status, data)

    def lines(self, path: str) -> Iterator[list[bytes]]:
        self.asked.append(("WATCH", path, b""))
        found = self.script.pop(0)
        if isinstance(found, tuple):
            status, content = (*found, b"")[:2]
            raise HttpError(Answer(status, content if isinstance(content, bytes) else json.dumps(content).encode()))
        for line in found:
            if isinstance(line, Exception):
                raise line
            yield [line if isinstance(line, bytes) else json.dumps(line).encode()]


LOST = NoAnswer("lost", sent=True)
