# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions to the running daemon over a local socket: one JSON object a line each way.

The socket's folder and its own mode decide which users may ask: its owner and group.
"""

import json
import os
import socket
import socketserver
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from placement.app.endpoints.listening import ListenError, listen_error

Json = dict[str, Any]

_SECONDS: Final = 15.0
_MOST_BYTES: Final = 64 << 10
_MODE: Final = 0o660


class AskError(Exception):
    """No answer; the message says why and what to do."""


class LocalSocket:
    """The server's side and its thread."""

    def __init__(self, path: Path, answer: Callable[[Json], Json]) -> None:
        class Handler(socketserver.StreamRequestHandler):
            timeout = _SECONDS

            def handle(self) -> None:
                try:
                    question = json.loads(self.rfile.readline(_MOST_BYTES))
                    reply = answer(question) if isinstance(question, dict) else {"error": "not a question"}
                except (ValueError, RecursionError):
                    reply = {"error": "not a question"}
                self.wfile.write(json.dumps(reply).encode() + b"\n")

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """Ignore a client that went away before its answer."""

        _remove_stale(path)
        before = os.umask(0o777 & ~_MODE)
        try:
            self._server = Server(str(path), Handler)
        except OSError as error:
            raise listen_error("socket", str(path), error) from None
        finally:
            os.umask(before)
        self._path = path
        self._thread = threading.Thread(target=self._server.serve_forever, name="local", daemon=True)

    def start(self) -> None:
        """Answers from now on."""
        self._thread.start()

    def close(self) -> None:
        """Answers no longer."""
        self._server.shutdown()
        self._server.server_close()
        self._path.unlink(missing_ok=True)


def _remove_stale(path: Path) -> None:
    """Remove what an earlier daemon has left. Raise ListenError if a daemon still answers, or if it is no socket."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_SECONDS)
            connection.connect(str(path))
        raise ListenError(f"socket: {path}: another daemon answers there; end it, or set another path")
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        if not path.is_socket():
            raise ListenError(f"socket: {path}: there is a file that is no socket; set another path") from None
        path.unlink(missing_ok=True)
    except OSError as error:
        raise listen_error("socket", str(path), error) from None


def ask(path: Path, question: Json) -> Json:
    """Send a question to the daemon and return its answer."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_SECONDS)
            connection.connect(str(path))
            connection.sendall(json.dumps(question).encode() + b"\n")
            with connection.makefile("rb") as stream:
                reply = json.loads(stream.readline())
    except OSError as error:
        raise AskError(f"{path}: {error.strerror or error}; is the daemon running, and may you ask it?") from None
    except ValueError:
        raise AskError(f"{path}: the daemon ended in the middle of its answer") from None
    if "error" in reply:
        raise AskError(str(reply["error"]))
    return dict(reply)
