# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A runtime of CRI v1alpha2 that records what it is asked and answers as told; and the bridge as a process."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

ROLE = Path(__file__).resolve().parents[2] / "roles/singularity_cri/files"
MOST_BYTES = 64 * 1024 * 1024
SIZES = (("grpc.max_receive_message_length", MOST_BYTES), ("grpc.max_send_message_length", MOST_BYTES))
OPTIONS = [*SIZES, ("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 100)]
# The Python of the bridge: another one shows that it runs there, with the wheels that are installed there.
PYTHON = os.environ.get("CRI_BRIDGE_PYTHON", sys.executable)
# A bound for tests that wait: a machine that others have stands still for a minute.
PATIENCE = 120.0
Answer = Callable[[bytes, grpc.ServicerContext], bytes]


@dataclass(frozen=True)
class Received:
    """One call that the runtime got."""

    path: str
    request: bytes
    metadata: dict[str, str | bytes]
    remaining: float | None

    @property
    def method(self) -> str:
        """Return the name of the method."""
        return self.path.rsplit("/", 1)[1]


class Runtime(grpc.GenericRpcHandler):
    """The runtime; a method without an answer gets an empty message."""

    def __init__(self, path: Path) -> None:
        self.address = f"unix://{path}"
        self.received: list[Received] = []
        self.answers: dict[str, Answer] = {}
        self._server: grpc.Server | None = None

    def start(self) -> None:
        """Listen; the calls so far stay in the record."""
        self._server = grpc.server(ThreadPoolExecutor(128), options=[*SIZES, ("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((self,))
        self._server.add_insecure_port(self.address)
        self._server.start()

    def stop(self) -> None:
        """Close every connection at once."""
        if self._server is not None:
            self._server.stop(0).wait(PATIENCE)
            self._server = None

    def answer(self, method: str, data: bytes) -> None:
        """Answer this from now on."""
        self.answers[method] = lambda request, context: data

    def calls(self, method: str) -> int:
        """Return how often a method was called."""
        return sum(each.method == method for each in list(self.received))

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        path = handler_call_details.method

        def handle(request: bytes, context: grpc.ServicerContext) -> bytes:
            metadata = dict(context.invocation_metadata())
            remaining = context.time_remaining()
            # Without a deadline grpc says a number of seconds that no deadline has.
            received = Received(path, request, metadata, remaining if remaining and remaining < 1e8 else None)
            self.received.append(received)
            answer = self.answers.get(received.method)
            return answer(request, context) if answer else b""

        return grpc.unary_unary_rpc_method_handler(handle)


class Running:
    """A bridge that runs as a process, and a channel to it as the kubelet has one."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process, self.address = process, address
        self.channel = grpc.insecure_channel(address, options=OPTIONS)

    def call(self, path: str, request: bytes = b"", *, timeout: float | None = PATIENCE, **more: Any) -> bytes:
        """Call a method by its path, as bytes."""
        method: Any = self.channel.unary_unary(path)
        answer: bytes = method(request, timeout=timeout, **more)
        return answer

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End the process; return its exit status."""
        self.channel.close()
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


def command(*words: str) -> list[str]:
    """Return the command line of the bridge."""
    return [PYTHON, "-m", "cri_bridge", *words]


def environment() -> dict[str, str]:
    """Return the environment in which Python finds the bridge."""
    return {**os.environ, "PYTHONPATH": str(ROLE), "PYTHONDONTWRITEBYTECODE": "1"}


@contextlib.contextmanager
def bridge(folder: Path, backend: str, *options: str) -> Iterator[Running]:
    """Start a bridge in this folder, await systemd's READY=1 from it, yield it and end it."""
    address = f"unix://{folder / 'bridge.sock'}"
    with ready_socket(folder / "notify.sock") as ready, (folder / "bridge.log").open("a", encoding="utf-8") as log:
        environ = {**environment(), "NOTIFY_SOCKET": str(folder / "notify.sock")}
        words = command("--listen", address, "--backend", backend, *options)
        process = subprocess.Popen(words, env=environ, stderr=log, text=True)
        running = Running(process, address)
        try:
            _await_ready(process, ready)
            yield running
        finally:
            if process.poll() is None:
                running.stop()


@contextlib.contextmanager
def ready_socket(path: Path) -> Iterator[socket.socket]:
    """Yield a socket as systemd's that says when a service is ready."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        path.unlink(missing_ok=True)
        end.bind(str(path))
        end.settimeout(0.1)
        yield end


def _await_ready(process: subprocess.Popen[str], ready: socket.socket) -> None:
    limit = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(TimeoutError):
            said = ready.recv(100)
            if said != b"READY=1":
                raise AssertionError(f"the bridge says {said!r} instead of READY=1")
            return
        if process.poll() is not None or time.monotonic() > limit:
            raise AssertionError(f"the bridge is not ready; exit status {process.poll()}")


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as end:
        port: int = end.getsockname()[1]
        return port


def at_once(number: int, act: Callable[[int], Any]) -> Sequence[Any]:
    """Do something as often in as many threads, which begin together; return all results."""
    gate = threading.Barrier(number)

    def one(place: int) -> Any:
        gate.wait(PATIENCE)
        return act(place)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(one, range(number)))
