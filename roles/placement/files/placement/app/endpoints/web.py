# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics, health and readiness over HTTP, for Prometheus and for supervisors."""

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from placement.app.endpoints.listening import listen_error

_REQUEST_SECONDS: Final = 10
# What answers each path: whether all is well, and the text.
Page = Callable[[], tuple[bool, str]]


class Web:
    """A server and its thread."""

    def __init__(self, address: tuple[str, int], pages: dict[str, Page]) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = _REQUEST_SECONDS
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                page = pages.get(self.path.partition("?")[0])
                if page is None:
                    self._answer(404, "not found\n")
                    return
                good, text = page()
                self._answer(200 if good else 503, text)

            def _answer(self, status: int, text: str) -> None:
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing: scrapes come every few seconds."""

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """Says nothing: a client that goes away is no error of ours."""

        try:
            self._server = Server(address, Handler)
        except OSError as error:
            raise listen_error("listen", f"{address[0]}:{address[1]}", error) from None
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="web", daemon=True)

    def start(self) -> None:
        """Start the server's thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
