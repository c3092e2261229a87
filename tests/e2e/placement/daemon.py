# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The daemon as a process of this checkout."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from e2e.placement.role import ROLE
from e2e.playing import until
from placement.app import cli
from placement.app.endpoints import control_socket
from placement.app.endpoints.control_socket import AskError

# However slow the machine is, a daemon keeps its Lease; tests that need it to be over end it, or put a clock on.
LEASE_SECONDS = 180
LASTING = {"lease_duration": LEASE_SECONDS, "renew_deadline": LEASE_SECONDS - 10}


def free_port() -> int:
    """One for a daemon to serve its metrics on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


class Daemon:
    """One process of the daemon."""

    def __init__(self, folder: Path, config: Path, settings: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.socket = folder / "socket"
        self.log = folder / "log"
        self.settings = folder / "settings.yml"
        chosen = {
            "kubeconfig": str(config),
            "socket": str(self.socket),
            "listen": "",
            "retry_period": 0.5,
            **LASTING,
            **settings,
        }
        self.settings.write_text(yaml.safe_dump(chosen), encoding="utf-8")
        # Where the package is.
        self.files = ROLE / "files"
        # Besides those of the test.
        self.variables: Mapping[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self.started = datetime.max.replace(tzinfo=UTC)

    def environment(self) -> dict[str, str]:
        """With the package, this checkout's unless another was chosen."""
        own = {"PYTHONPATH": str(self.files), "PYTHONDONTWRITEBYTECODE": "1"}
        return {**os.environ, **own, **self.variables}

    def start(self) -> Daemon:
        """Starts it, and waits until it answers."""
        self.begin()
        until(self.synced, "the daemon is synced")
        return self

    def begin(self) -> None:
        """Starts it."""
        self.started = datetime.now(UTC)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "placement", "run", "--settings", str(self.settings)],
                env=self.environment(),
                stderr=log,
            )

    def synced(self) -> bool:
        """Whether it has seen everything."""
        if self.process is not None and self.process.poll() is not None:
            raise AssertionError(f"the daemon has ended: {self.log.read_text(encoding='utf-8')[-2000:]}")
        sources = self.status().get("sources")
        return bool(sources) and all(source["synced"] for source in sources.values())

    def leads(self) -> bool:
        """Whether it may write."""
        return bool(self.status().get("leader"))

    def status(self) -> dict[str, Any]:
        """Return what the daemon says of itself; nothing where it does not answer.

        The question is asked from this process: a program of its own costs half a second of processor time, for every
        look of a test that waits.
        """
        try:
            return control_socket.ask(self.socket, {"ask": "status"})
        except AskError:
            return {}

    def ask(self, *arguments: str) -> str:
        """Return what a command prints that asks the daemon; empty where there is no answer."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            failed = cli.main([arguments[0], "--socket", str(self.socket), *arguments[1:]])
        return "" if failed else printed.getvalue()

    def page(self, path: str) -> str:
        """What it serves over HTTP."""
        listen = yaml.safe_load(self.settings.read_text(encoding="utf-8"))["listen"]
        with urllib.request.urlopen(f"http://{listen}{path}", timeout=300) as answer:
            found: str = answer.read().decode()
            return found

    def figure(self, name: str) -> float:
        """One of its metrics; nothing has been counted of what it does not say."""
        lines = (line.rpartition(" ") for line in self.page("/metrics").splitlines())
        return next((float(value) for found, _blank, value in lines if found == f"placement_{name}"), 0.0)

    def assert_graph_in_step(self) -> None:
        """Fail unless the resource graph agrees with the pods, and has agreed at every look since the start."""
        found = control_socket.ask(self.socket, {"ask": "graph", "do": "check"})
        assert found == {"drift": []}, found
        if yaml.safe_load(self.settings.read_text(encoding="utf-8"))["listen"]:
            lines = self.page("/metrics").splitlines()
            assert any(line.startswith("# TYPE placement_graph_drift_total") for line in lines)
            assert not [line for line in lines if line.startswith("placement_graph_drift_total{")]

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, seconds: float = 300) -> int:
        """Its exit status."""
        assert self.process is not None
        return self.process.wait(timeout=seconds)

    @contextlib.contextmanager
    def kept(self) -> Iterator[list[int]]:
        """Start the daemon, and again whenever it ends, as systemd does; gives the statuses with which it has ended."""
        ended: list[int] = []
        over, lock = threading.Event(), threading.Lock()

        def keep() -> None:
            while True:
                assert self.process is not None
                status = self.process.wait()
                with lock:
                    if over.is_set():
                        return
                    ended.append(status)
                    self.begin()

        self.start()
        keeper = threading.Thread(target=keep, daemon=True)
        keeper.start()
        try:
            yield ended
        finally:
            with lock:
                over.set()
            self.stop()
            keeper.join(300)

    def stop(self) -> None:
        """Ends it, however it is."""
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            self.wait()
