# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The daemon as a process of this checkout."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from e2e.placement.role import ROLE
from e2e.playing import until

# No other is to follow it, however slow the machine is; one that cannot renew its Lease in time ends.
LASTING = {"lease_duration": 180, "renew_deadline": 170}
# Another is to follow it, which is waited for; and yet a machine may stand still for a while.
PASSING = {"lease_duration": 40, "renew_deadline": 32}


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

    def argv(self, *arguments: str) -> list[str]:
        """The command line."""
        return [sys.executable, "-m", "placement", *arguments]

    def environment(self) -> dict[str, str]:
        """With the package, this checkout's unless another was chosen."""
        own = {"PYTHONPATH": str(self.files), "PYTHONDONTWRITEBYTECODE": "1"}
        return {**os.environ, **own, **self.variables}

    def start(self) -> Daemon:
        """Starts it, and waits until it answers."""
        self.started = datetime.now(UTC)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv("run", "--settings", str(self.settings)), env=self.environment(), stderr=log
            )
        until(self.synced, "the daemon is synced")
        return self

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
        """What it says of itself; nothing where it does not answer."""
        found: dict[str, Any] = json.loads(self.ask("status", "--json") or "{}")
        return found

    def ask(self, *arguments: str) -> str:
        """What a question prints; empty where there is no answer."""
        done = subprocess.run(
            [*self.argv(arguments[0]), "--socket", str(self.socket), *arguments[1:]],
            env=self.environment(),
            capture_output=True,
            timeout=300,
            check=False,
        )
        return done.stdout.decode() if done.returncode == 0 else ""

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

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, seconds: float = 300) -> int:
        """Its exit status."""
        assert self.process is not None
        return self.process.wait(timeout=seconds)

    def stop(self) -> None:
        """Ends it, however it is."""
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            self.wait()
