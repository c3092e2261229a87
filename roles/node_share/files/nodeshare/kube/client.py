# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few requests that a node makes of the Kubernetes API, with the kubelet's own identity.

A kubelet may read and annotate its own Node, list, evict and delete the pods bound to it, and create Events; never
change its own taints. One kept-alive connection, the cluster's CA and no other, and a bound on every wait.
"""

import http.client
import json
import socket
import ssl
import threading
import time
import urllib.parse
from typing import Any, Callable, Dict, Iterator, List, Optional

from ..model.backoff import Backoff, spread
from .kubeconfig import Credentials

# Bytes, more than any object has: 1.5 MiB in etcd, of which JSON writes some characters as six. As objects of Python
# these are 25 times as much at worst, and 85 times before Python 3.8.
LARGEST_ANSWER = 10 << 20
LONG_ANSWER = 1 << 20  # one that is late is too long, and no longer a sign that the server is slow
BUSY_SECONDS = 4.0  # for all tries of a request, in timeouts of one
BUSY_PAUSE, LONGEST_BUSY_PAUSE = 0.1, 1.0  # before it is asked again, also where it names no pause
MERGE_PATCH = "application/merge-patch+json"
_DECODING = threading.Lock()  # one answer of a process is objects at a time; the others are bytes


class ApiError(Exception):
    """The API did not do as asked. `status` is 0 where it did not answer at all.

    `retry_after` is in how many seconds it wants to be asked again, where it says so because it has too much to do.
    """

    def __init__(self, status: int, message: str, *, retry_after: Optional[float] = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class TooLong(ApiError):
    """An answer is longer than allowed, or too long for its time."""


class Client:
    """Not for use by several threads at once: each has its own."""

    def __init__(self, credentials: Credentials, *, timeout: float) -> None:
        self.credentials = credentials
        self.timeout = timeout
        self.context = _tls(credentials)
        self.connection: Optional[http.client.HTTPSConnection] = None
        self.date = ""  # of the last answer, by the server's clock

    def clone(self) -> "Client":
        other = Client.__new__(Client)
        other.credentials, other.timeout, other.context = self.credentials, self.timeout, self.context
        other.connection, other.date = None, ""
        return other

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def request(
        self,
        method: str,
        path: str,
        body: Optional[Dict[str, Any]] = None,
        *,
        kind: str = "application/json",
        read: Callable[[Any], Any] = lambda answer: answer,
    ) -> Any:
        """Return what `read` keeps of the answer. One answer at a time is in memory as a whole, and waits for `read`.

        An API that has too much to do is asked again when it says, in bounded time. It has not carried out what it
        turned away. An API that is busy is no API that is silent. Our own pauses, which grow, come on top of its.
        """
        backoff = Backoff(BUSY_PAUSE, LONGEST_BUSY_PAUSE)
        give_up = time.monotonic() + BUSY_SECONDS * self.timeout
        while True:
            try:
                return self._request(method, path, body, kind, read)
            except ApiError as error:
                asked = error.retry_after if method in ("GET", "PATCH") else None
                pause = None if asked is None else spread(asked) + backoff.failed()
                if pause is None or time.monotonic() + pause > give_up:
                    raise
                time.sleep(pause)

    def _request(
        self, method: str, path: str, body: Optional[Dict[str, Any]], kind: str, read: Callable[[Any], Any]
    ) -> Any:
        """Send a request, return what `read` keeps of the answer. Open a kept connection again that the server closed.

        How its end shows is up to the TLS library, and whether the request was carried out cannot be told: none of ours
        does harm when it comes twice.
        """
        content = None if body is None else json.dumps(body).encode("utf-8")
        headers = {"Accept": "application/json", "User-Agent": "nodeshare"}
        if content is not None:
            headers["Content-Type"] = kind
        kept = self.connection is not None
        try:
            return self._exchange(method, path, content, headers, read)
        except (OSError, ssl.CertificateError, http.client.HTTPException) as error:
            self.close()
            if not kept or isinstance(error, socket.timeout):
                raise ApiError(0, _told(method, path, error)) from error
        try:
            return self._exchange(method, path, content, headers, read)
        except (OSError, ssl.CertificateError, http.client.HTTPException) as error:
            self.close()
            raise ApiError(0, _told(method, path, error)) from error

    def lines(self, path: str, *, quiet: float) -> Iterator[Dict[str, Any]]:
        """Yield the objects of a watch until the server ends it; raise after `quiet` seconds of silence."""
        try:
            connection = self._connected()
            connection.sock.settimeout(quiet)
            connection.request("GET", path, None, {"Accept": "application/json", "User-Agent": "nodeshare"})
            response = connection.getresponse()
            if response.status >= 300:
                raise ApiError(response.status, "GET {}: {}".format(path.partition("?")[0], response.status))
            while True:
                line = response.readline(LARGEST_ANSWER)
                if not line:
                    return
                yield json.loads(line.decode("utf-8"))
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise ApiError(0, _told("GET", path, error)) from error
        finally:
            self.close()

    def _connected(self) -> http.client.HTTPSConnection:
        if self.connection is None:
            host = urllib.parse.urlsplit(self.credentials.server)
            self.connection = http.client.HTTPSConnection(
                host.hostname or "", host.port or 443, timeout=self.timeout, context=self.context
            )
            self.connection.connect()
            self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.connection

    def _exchange(
        self,
        method: str,
        path: str,
        content: Optional[bytes],
        headers: Dict[str, str],
        read: Callable[[Any], Any],
    ) -> Any:
        give_up = time.monotonic() + 2 * self.timeout
        connection = self._connected()
        connection.request(method, path, content, headers)
        response = connection.getresponse()
        parts: List[bytes] = []  # joined once: a long answer comes in thousands of parts
        length = 0
        while True:  # a server that sends a byte now and then must not hold us for ever
            part = response.read1(1 << 16)
            if not part:
                break
            parts.append(part)
            length += len(part)
            late = time.monotonic() > give_up
            if length > LARGEST_ANSWER or (late and length > LONG_ANSWER):
                self.close()
                raise TooLong(0, "{} {}: the answer is too long".format(method, path.partition("?")[0]))
            if late:
                raise socket.timeout("the answer is too slow")
        self.date = response.getheader("Date") or ""
        response.close()  # before Python 3.12 read1 leaves this undone, and the connection would not be reused
        failed = response.status >= 300
        with _DECODING:
            answer = _decode(parts, _message if failed else read)
        if failed:
            told = ascii(answer or response.reason)[:300]
            raise ApiError(
                response.status,
                "{} {}: {} {}".format(method, path.partition("?")[0], response.status, told),
                retry_after=_retry_after(response),
            )
        return answer


def _decode(parts: List[bytes], read: Callable[[Any], Any]) -> Any:
    """Return what `read` keeps of an answer. All else of it is freed when this returns."""
    try:
        text = b"".join(parts).decode("utf-8")
        parts.clear()
        answer = json.loads(text) if text else {}
    except ValueError as error:
        raise http.client.HTTPException("the answer is not JSON") from error
    return read(answer)


def _message(answer: Any) -> Any:
    return answer.get("message") if isinstance(answer, dict) else None


def _tls(credentials: Credentials) -> ssl.SSLContext:
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = True
        if credentials.ca_pem:
            context.load_verify_locations(cadata=credentials.ca_pem)
        else:
            context.load_verify_locations(cafile=credentials.ca_file)
        if credentials.cert_pem or credentials.key_pem:
            _load_chain(context, credentials)
        else:
            context.load_cert_chain(credentials.cert_file, credentials.key_file)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise ApiError(0, "credentials cannot be loaded: {}".format(error)) from error
    return context


def _load_chain(context: ssl.SSLContext, credentials: Credentials) -> None:
    """Load key and certificate through an unlinked file that no other process can open: ssl reads only files."""
    import tempfile

    parts = []
    for pem, path in ((credentials.cert_pem, credentials.cert_file), (credentials.key_pem, credentials.key_file)):
        if pem:
            parts.append(pem)
        else:
            with open(path) as stream:
                parts.append(stream.read())
    with tempfile.TemporaryFile(mode="w") as stream:
        stream.write("\n".join(parts))
        stream.flush()
        context.load_cert_chain("/proc/self/fd/{}".format(stream.fileno()))


def _retry_after(response: http.client.HTTPResponse) -> Optional[float]:
    """Return the seconds after which a busy API wants to be asked again; None where it does not say so."""
    try:
        seconds = float(response.getheader("Retry-After") or "")
    except ValueError:
        return None  # not there, or a date, which no API server sends
    return seconds if response.status in (429, 503) and 0 <= seconds <= 3600 else None


def _told(method: str, path: str, error: Exception) -> str:
    return "{} {}: {}".format(method, path.partition("?")[0], error or type(error).__name__)
