# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real kube-scheduler, asked where a pod could go: an extender is told which nodes its filters leave.

It never places anything, because the extender then refuses them all. A pod for which no node is left never comes to
the extender; either way the scheduler says in the end that the pod cannot be scheduled.
"""

from __future__ import annotations

import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml
from testbed import binaries

SCHEDULER = "reference"
# Batching would answer for a pod by what was found for one like it.
GATES = "OpportunisticBatching=false"


class Reference:
    """A kube-scheduler of our own beside the cluster's; it answers as long as the context lasts."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.survivors: dict[str, set[str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), extender(self.survivors))
        self._config = folder / "kube-scheduler.yml"
        self._log = folder / "kube-scheduler.log"
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 1000},
            "percentageOfNodesToScore": 100,
            # Without preemption nobody is nominated, and no room is kept.
            "profiles": [{"schedulerName": SCHEDULER, "plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}],
            "extenders": [
                {
                    "urlPrefix": f"http://127.0.0.1:{self._server.server_port}",
                    "filterVerb": "filter",
                    "nodeCacheCapable": True,
                }
            ],
        }
        self._config.write_text(yaml.safe_dump(config), encoding="utf-8")

    def __enter__(self) -> Reference:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        program = str(binaries.build_binaries() / "kube-scheduler")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [program, f"--config={self._config}", f"--feature-gates={GATES}", "--secure-port=0"],
                stdout=log,
                stderr=log,
            )
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=300)
        self._server.shutdown()
        self._server.server_close()


def extender(survivors: dict[str, set[str]]) -> type[BaseHTTPRequestHandler]:
    """Notes which nodes are left for each pod, and refuses them."""

    class Extender(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            names = set(asked["NodeNames"] or ())
            survivors[asked["Pod"]["metadata"]["uid"]] = names
            body = json.dumps({"NodeNames": [], "FailedNodes": dict.fromkeys(names, "noted")}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    return Extender
