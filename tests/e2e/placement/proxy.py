# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy before the API server that does to chosen requests what networks and overloaded servers do.

It speaks TLS with a certificate of its own and passes on under the daemon's identity, so that everything between the
daemon and the server is real but for the fault.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from testbed.kube_api import read_kubeconfig, tls_context

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

UPSTREAM_SECONDS = 300.0
# What stands in for an answer: status, body, Retry-After.
Reply = tuple[int, bytes, str]


class Cut(Exception):
    """The connection ends without an answer."""


# Given a way to pass the request on, says what is answered.
Fault = Callable[[Callable[[], Reply]], Reply]
# What becomes of one line of a watch.
Lines = Callable[[str, bytes], list[bytes]]


@dataclass(slots=True)
class Rule:
    """`times` requests of a kind meet a fault, once `after` have passed."""

    method: str
    path: re.Pattern[str]
    fault: Fault
    times: int
    after: int
    met: int = 0

    def meets(self, method: str, path: str) -> bool:
        """Whether this request does."""
        if self.met >= self.times or self.method != method or not self.path.search(path):
            return False
        if self.after:
            self.after -= 1
            return False
        self.met += 1
        return True


@dataclass(slots=True)
class Seen:
    """A request that came, and when."""

    method: str
    path: str
    at: float = field(default_factory=time.monotonic)


class Proxy:
    """Listens as long as the context lasts; `kubeconfig` is for the daemon."""

    def __init__(self, upstream: Path, folder: Path, variables: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.credentials = read_kubeconfig(upstream)
        self.context = tls_context(self.credentials)
        self.seen: list[Seen] = []
        self.lines: Lines = lambda _path, line: [line]
        self.open: set[socket.socket] = set()
        # Connections that are there, and over which nothing passes any more.
        self.mute: set[socket.socket] = set()
        self._rules: list[Rule] = []
        # What every request meets, whatever the rules say.
        self._outage: Rule | None = None
        self._lock = threading.Lock()
        self._server = Listener(self)
        self.kubeconfig = self._prepare(folder, variables or {})

    def _prepare(self, folder: Path, variables: Mapping[str, str]) -> Path:
        key, certificate = folder / "proxy.key", folder / "proxy.crt"
        made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days=2"]
        made += [
            "-subj=/CN=proxy",
            "-addext=subjectAltName=IP:127.0.0.1",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
        ]
        subprocess.run(made, check=True, capture_output=True, timeout=300, env={**os.environ, **variables})
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        config = {
            "current-context": "proxy",
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "daemon"}}],
            "users": [{"name": "daemon", "user": {"token": "taken-for-the-daemon"}}],
            "clusters": [
                {
                    "name": "proxy",
                    "cluster": {
                        "server": f"https://127.0.0.1:{self._server.server_port}",
                        "certificate-authority": str(certificate),
                    },
                }
            ],
        }
        path = folder / "proxy.kubeconfig"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        return path

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.cut()

    @contextlib.contextmanager
    def fault(self, method: str, path: str, fault: Fault, *, times: int = 1 << 30, after: int = 0) -> Iterator[Rule]:
        """Requests whose path has this in it meet the fault, until so many have or the context ends."""
        rule = Rule(method, re.compile(path), fault, times, after)
        with self._lock:
            self._rules.append(rule)
        try:
            yield rule
        finally:
            with self._lock:
                self._rules.remove(rule)

    def rule_for(self, method: str, path: str) -> Rule | None:
        """The fault that a request meets."""
        with self._lock:
            self.seen.append(Seen(method, path))
            return self._outage or next((rule for rule in self._rules if rule.meets(method, path)), None)

    @contextlib.contextmanager
    def outage(self, fault: Fault | None = None) -> Iterator[None]:
        """Cut all connections; until the context ends every request meets the fault, or else never arrives."""
        with self._lock:
            self._outage = Rule("", re.compile(""), fault or lost_before, 0, 0)
        self.cut()
        try:
            yield
        finally:
            with self._lock:
                self._outage = None

    def cut(self) -> None:
        """Ends all connections, whatever is under way."""
        for connection in list(self.open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def silence(self) -> None:
        """From now on all connections that there are are half open: they stay, and lose whatever is said over them."""
        self.mute |= self.open


def lost_before(_forward: Callable[[], Reply]) -> Reply:
    """The request never arrives."""
    raise Cut


def lost_after(forward: Callable[[], Reply]) -> Reply:
    """It is carried out, and the answer is lost."""
    forward()
    raise Cut


def late(seconds: float) -> Fault:
    """It is carried out, and the answer comes late."""

    def fault(forward: Callable[[], Reply]) -> Reply:
        reply = forward()
        time.sleep(seconds)
        return reply

    return fault


def held(before: threading.Event, *, then: Fault = lost_before) -> Fault:
    """Nothing happens until somebody lets it."""

    def fault(forward: Callable[[], Reply]) -> Reply:
        before.wait(UPSTREAM_SECONDS)
        return then(forward)

    return fault


def answered(status: int, *, retry_after: str = "", message: str = "a fault") -> Fault:
    """The server answers so, and does nothing."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": status}
    return lambda _forward: (status, json.dumps(body).encode(), retry_after)


class Listener(ThreadingHTTPServer):
    """Knows its proxy; connections that break are what it is for."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.proxy = proxy

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing."""


class Voice(io.BufferedIOBase):
    """What a connection is written to; nothing arrives once it is mute."""

    def __init__(self, out: io.BufferedIOBase, is_mute: Callable[[], bool]) -> None:
        self._out, self._is_mute = out, is_mute

    def write(self, data: ReadableBuffer, /) -> int:
        return memoryview(data).nbytes if self._is_mute() else self._out.write(data)


class Handler(BaseHTTPRequestHandler):
    """Serves one connection of the daemon, with one of its own to the API server."""

    server: Listener
    protocol_version = "HTTP/1.1"
    timeout = UPSTREAM_SECONDS

    def setup(self) -> None:
        super().setup()
        self.server.proxy.open.add(self.request)
        self.wfile = Voice(self.wfile, self._is_mute)
        host, port = self.server.proxy.credentials.host, self.server.proxy.credentials.port
        self.up = http.client.HTTPSConnection(host, port, context=self.server.proxy.context, timeout=UPSTREAM_SECONDS)

    def finish(self) -> None:
        self.server.proxy.open.discard(self.request)
        self.server.proxy.mute.discard(self.request)
        self.up.close()
        with contextlib.suppress(OSError):
            super().finish()

    def _is_mute(self) -> bool:
        return self.request in self.server.proxy.mute

    def serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self._is_mute():
            return
        rule = self.server.proxy.rule_for(self.command, self.path)
        try:
            if rule is None and "watch=true" in self.path:
                self._watch()
                return
            status, content, retry = rule.fault(lambda: self._forward(body)) if rule else self._forward(body)
        except (Cut, OSError, http.client.HTTPException):
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.request.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if retry:
            self.send_header("Retry-After", retry)
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self.serve()

    def do_POST(self) -> None:
        self.serve()

    def do_PUT(self) -> None:
        self.serve()

    def do_PATCH(self) -> None:
        self.serve()

    def _ask(self, body: bytes) -> http.client.HTTPResponse:
        kept = {name: self.headers[name] for name in ("Content-Type", "Accept") if name in self.headers}
        self.up.request(self.command, self.path, body or None, kept)
        return self.up.getresponse()

    def _forward(self, body: bytes) -> Reply:
        answer = self._ask(body)
        return answer.status, answer.read(), answer.headers.get("Retry-After", "")

    def _watch(self) -> None:
        answer = self._ask(b"")
        self.send_response(answer.status)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while line := answer.readline():
            for out in self.server.proxy.lines(self.path, line):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(out), out))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""
