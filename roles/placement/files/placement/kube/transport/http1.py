# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP/1.1 to one API server: one connection, kept open, of one thread.

Written by hand because on a machine that is shared with the API server every binding waits for the client's own
processor time. A small request costs 190 us here and 265 us by `http.client`, which parses headers as if they were
mail. Both have TLS, which is most of it. And a watch needs its pieces as they come, which libraries hide. What is
spoken is only what API servers and proxies before them speak: a status line, and then a length, chunks, or a body that
ends with its connection.
"""

import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from placement.kube.transport.credentials import Credentials, Endpoint

# etcd takes at most 1.5 MiB for one object by default, in the API server's own encoding. As JSON the same object can be
# several times as large. A line that is longer than this is no object.
MAX_LINE: Final = 32 << 20
_MAX_HEAD: Final = 64 << 10
_RECEIVE: Final = 256 << 10
_CONNECT_SECONDS: Final = 5.0
# A connection that has been idle for longer may have died unnoticed: opening another costs milliseconds, finding out
# costs a timeout.
IDLE_SECONDS: Final = 10.0
UNAUTHORIZED: Final = 401
# No Content and Not Modified have no body whatever their headers say, and interim answers (1xx) but the answer itself.
_BODILESS: Final = frozenset({204, 304})
_FINAL: Final = 200


class NoAnswer(Exception):
    """No whole answer came. After `sent` the request may have been carried out."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class TooLong(NoAnswer):
    """A line of a watch is longer than any object can be: asked for again from the same version it would come again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body; `retry_after` in seconds where the server asked for it."""

    status: int
    body: bytes
    retry_after: float = 0.0


class Connection:
    """One connection to the API server; it is opened when it is needed and again after every failure.

    Silence of `timeout` seconds is such a failure. Nothing else tells a peer that is gone from one that has nothing to
    say. What stands between us and the server may go on to acknowledge what it can no longer pass on.
    """

    def __init__(
        self, credentials: Credentials, *, timeout: float, idle_limit: float = IDLE_SECONDS, agent: str = "placement"
    ) -> None:
        self._credentials = credentials
        self._timeout = timeout
        self._idle_limit = idle_limit
        self._agent = agent
        self._socket: ssl.SSLSocket | None = None
        self._endpoint: Endpoint | None = None
        self._request_head = ""
        self._buffer = b""
        self._last_used = 0.0

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._buffer = b""

    def request(self, method: str, path: str, body: bytes = b"", *, content_type: str = "application/json") -> Answer:
        """One request and its whole answer."""
        try:
            status, headers = self._exchange(method, path, body, content_type)
            answer = Answer(status, b"".join(self._pieces(status, headers)), _retry_after(headers))
        except (OSError, EOFError, ValueError) as error:
            self.close()
            raise NoAnswer(_describe(error), sent=not isinstance(error, _NotSent)) from None
        except BaseException:
            # Interrupted in the middle of an answer: what is left of it must not answer the next request.
            self.close()
            raise
        if status == UNAUTHORIZED:
            # Who we are may have been renewed, and that is read again where a connection is opened.
            self.close()
        return answer

    def lines(self, path: str) -> Iterator[list[bytes]]:
        """Yield the lines of a long answer as they come, several at a time.

        Yields nothing for an answer other than 200 but raises `HttpError` with it.
        """
        whole = False
        try:
            status, headers = self._exchange("GET", path, b"", "")
            if status != 200:
                raise HttpError(Answer(status, b"".join(self._pieces(status, headers)), _retry_after(headers)))
            # The answer has begun: that is news too, the server is there and serves this version.
            yield []
            pending: list[bytes] = []
            size = 0
            for piece in self._pieces(status, headers):
                first, newline, others = piece.partition(b"\n")
                pending.append(first)
                size += len(first)
                if size > MAX_LINE:
                    raise TooLong(f"a line of more than {MAX_LINE} bytes", sent=True)
                if newline:
                    lines = others.split(b"\n")
                    last = lines.pop()
                    yield [b"".join(pending), *lines]
                    pending, size = [last], len(last)
            whole = True
        except (OSError, EOFError, ValueError) as error:
            raise NoAnswer(_describe(error), sent=True) from None
        finally:
            if not whole:
                self.close()

    def _exchange(self, method: str, path: str, body: bytes, content_type: str) -> tuple[int, dict[bytes, bytes]]:
        """Send the request, and read up to the end of the headers."""
        newly_opened = self._socket is None
        try:
            self._send(method, path, body, content_type)
            head = self._receive_head()
        except (OSError, EOFError):
            # A kept connection that the server has closed meanwhile: a request it did not begin to answer may have
            # been carried out all the same, so only reading is repeated here.
            self.close()
            if newly_opened or method != "GET":
                raise
            self._send(method, path, body, content_type)
            head = self._receive_head()
        for _unused in range(8):
            status, headers = _parsed(head)
            if status >= _FINAL:
                return status, headers
            head = self._receive_head()
        raise ValueError("nothing but interim answers")

    def _send(self, method: str, path: str, body: bytes, content_type: str) -> None:
        if self._socket is not None and time.monotonic() - self._last_used > self._idle_limit:
            self.close()
        if self._socket is None:
            self._open()
        assert self._socket is not None
        head = f"{method} {path} HTTP/1.1\r\n{self._request_head}"
        if body or method != "GET":
            head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        self._socket.sendall(head.encode() + b"\r\n" + body)

    def _open(self) -> None:
        endpoint = self._credentials.endpoint()
        try:
            plain = socket.create_connection((endpoint.host, endpoint.port), timeout=_CONNECT_SECONDS)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = endpoint.tls.wrap_socket(plain, server_hostname=endpoint.host)
            self._socket.settimeout(self._timeout)
        except OSError as error:
            raise _NotSent(_describe(error)) from None
        head = f"Host: {endpoint.host}:{endpoint.port}\r\nUser-Agent: {self._agent}\r\nAccept: application/json\r\n"
        if endpoint.authorization:
            head += f"Authorization: {endpoint.authorization}\r\n"
        self._request_head = head
        self._buffer = b""

    def _receive(self) -> bytes:
        if self._buffer:
            piece, self._buffer = self._buffer, b""
            return piece
        if self._socket is None:
            raise EOFError("closed")
        piece = self._socket.recv(_RECEIVE)
        if not piece:
            raise _Ended("the server closed the connection")
        self._last_used = time.monotonic()
        return piece

    def _receive_head(self) -> bytes:
        head = self._receive()
        while True:
            end = head.find(b"\r\n\r\n")
            if end >= 0:
                self._buffer = head[end + 4 :]
                return head[:end]
            if len(head) > _MAX_HEAD:
                raise ValueError("headers of more than 64 KiB")
            head += self._receive()

    def _pieces(self, status: int, headers: dict[bytes, bytes]) -> Iterator[bytes]:
        """Yield the body as it comes."""
        coding = headers.get(b"transfer-encoding", b"").lower()
        length = headers.get(b"content-length")
        if status in _BODILESS:
            pass
        elif coding:
            if coding != b"chunked":
                raise ValueError(f"a body in {coding[:40]!r} and not in chunks")
            yield from self._chunks()
        elif length is None:
            yield from self._to_the_end()
        elif length.isdigit():
            yield from self._measured(int(length))
        else:
            raise ValueError(f"a body of {length[:40]!r} bytes")
        if headers.get(b"connection", b"").lower() == b"close":
            self.close()

    def _measured(self, left: int) -> Iterator[bytes]:
        while left > 0:
            piece = self._receive()
            if len(piece) > left:
                piece, self._buffer = piece[:left], piece[left:]
            left -= len(piece)
            yield piece

    def _to_the_end(self) -> Iterator[bytes]:
        """Everything until the server closes: whether that is the whole of it, only what it says can tell."""
        while True:
            try:
                piece = self._receive()
            except _Ended:
                self.close()
                return
            yield piece

    def _chunks(self) -> Iterator[bytes]:
        buffer = b""
        while True:
            while (end := buffer.find(b"\r\n")) < 0:
                buffer += self._receive()
            left = int(buffer[:end].partition(b";")[0], 16)
            buffer = buffer[end + 2 :]
            if left == 0:
                # The trailing empty line; API servers send no trailers.
                while len(buffer) < 2:
                    buffer += self._receive()
                self._buffer = buffer[2:]
                return
            left += 2
            while left > len(buffer):
                # Whole pieces go on at once: an event may be in several chunks, and a chunk in several pieces.
                if buffer:
                    yield buffer[: max(0, min(len(buffer), left - 2))]
                    left -= len(buffer)
                buffer = self._receive()
            if left > 2:
                yield buffer[: left - 2]
            buffer = buffer[left:]


class HttpError(Exception):
    """The server answered a watch with something else than 200."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"{answer.status}: {answer.body[:200].decode(errors='replace').strip()}")
        self.answer = answer


class _Ended(EOFError):
    """The server has closed the connection."""


class _NotSent(OSError):
    """Nothing of the request has left."""


def _describe(error: BaseException) -> str:
    return str(error) if isinstance(error, _NotSent | _Ended) else f"{type(error).__name__}: {error}"


def _parsed(head: bytes) -> tuple[int, dict[bytes, bytes]]:
    """Status and headers, their names in lower case."""
    lines = head.split(b"\r\n")
    if not lines[0].startswith(b"HTTP/1.") or len(lines[0]) < 12:
        raise ValueError("the answer is not HTTP")
    headers = {}
    for line in lines[1:]:
        name, _unused, value = line.partition(b":")
        headers[name.lower()] = value.strip()
    return int(lines[0][9:12]), headers


def _retry_after(headers: dict[bytes, bytes]) -> float:
    text = headers.get(b"retry-after", b"")
    return float(text) if text.isdigit() else 0.0
