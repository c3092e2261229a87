# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How `nodeshare controller` does with a large job and with a storm of small ones, against Node objects for load.

`sh tests/bootstrap/enter.sh exec python tests/bench/controller_scale.py [--bed NAME]`. The service is a process of its
own with its real socket; squeue, sinfo and scontrol are scripts that print what a quiet cluster prints. API writes are
counted by the versions of the Node objects, CPU by the process's own account.
"""

import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench import _figures
from bench._beds import own_bed
from e2e.playing import until
from testbed.api import command_line
from testbed.controlplane import kubeconfig
from testbed.kube_api import Api

NODES = 1000
TASKS = 1000
ROUNDS = 3
LARGEST_SECONDS = 5.0
LARGEST_CPU = 0.040
PAYLOAD = Path(__file__).resolve().parents[2] / "roles/node_share/files"
SHARE_MODE = "node-restriction.kubernetes.io/converged-share-mode"
HOSTS = f"load-[00000-{NODES - 1:05d}]"


class Service:
    """The controller as a process, and its scripts' side."""

    def __init__(self, folder: Path, config: Path, *, squeue: str = "", **more: float) -> None:
        self.socket = folder / "controller.sock"
        programs = {
            "squeue": squeue,
            "sinfo": 'echo "other^idle^"',
            "scontrol": 'echo "Slurmctld(primary) at ctl is UP"',
        }
        for name, text in programs.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)
        settings = {"host": "ctl", "kubeconfig": str(config), "socket": str(self.socket), "period": 600, **more}
        settings |= {name: str(folder / name) for name in programs}
        (folder / "controller.json").write_text(json.dumps(settings))
        self.log = (folder / "log").open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nodeshare", "controller", "--settings", str(folder / "controller.json")],
            cwd=PAYLOAD,
            stderr=self.log,
        )

    def hand_over(self, event: str, job: int, nodes: str) -> float:
        begin = time.monotonic()
        answer = self.ask(event, job, nodes)
        if not answer["ok"]:
            raise SystemExit(f"{event} of job {job}: {answer['reason']}")
        return time.monotonic() - begin

    def ask(self, event: str, job: int, nodes: str) -> dict[str, Any]:
        """Send what a script sends, and return the answer."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(60)
            connection.connect(str(self.socket))
            request = {"event": event, "wlm": "slurm", "job": str(job), "run": "0", "nodes": nodes}
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer: dict[str, Any] = json.loads(connection.makefile().readline())
        return answer

    def cpu(self) -> float:
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=60)
        self.log.close()


def convert(api: Api) -> None:
    """Give every node for load the label of a converted node; the controller leaves others alone."""
    for name in versions(api):
        api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {SHARE_MODE: "handover"}}})


def versions(api: Api) -> dict[str, str]:
    """Of every node for load: a write changes it."""
    nodes = api.items("/api/v1/nodes")
    return {
        node["metadata"]["name"]: node["metadata"]["resourceVersion"]
        for node in nodes
        if node["metadata"]["name"].startswith("load-")
    }


def lifts(api: Api, service: Service) -> bool:
    """One that has just begun listens after a while, and lifts nothing before it has seen two whole lists."""
    with contextlib.suppress(OSError):
        for event in ("prolog", "epilog"):
            service.hand_over(event, 0, "load-00000")
        return not _figures.tainted(api)
    return False


def measure(api: Api, service: Service) -> bool:
    until(lambda: lifts(api, service), "the controller lifts a taint")
    drained, released = [], []
    for job in range(1, ROUNDS + 1):
        drained.append(service.hand_over("prolog", job, HOSTS))
        closed = _figures.tainted(api)
        released.append(service.hand_over("epilog", job, HOSTS))
        left = _figures.tainted(api)
        if closed < NODES or left:
            raise SystemExit(f"{closed} nodes tainted and {left} left: expected {NODES} and 0")
    service.hand_over("prolog", 100, HOSTS)
    before, cpu, begin = versions(api), service.cpu(), time.monotonic()

    def task(number: int) -> None:
        for event in ("prolog", "epilog"):
            service.hand_over(event, 1000 + number, f"load-{number % NODES:05d}")

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(task, range(TASKS)))
    seconds, each = time.monotonic() - begin, (service.cpu() - cpu) / TASKS
    writes = sum(version != before[name] for name, version in versions(api).items())
    service.hand_over("epilog", 100, HOSTS)
    print(_figures.load_average())
    for what, times in (("drained", drained), ("released", released)):
        print(f"{NODES} nodes {what}: median {statistics.median(times):.2f} s ({min(times):.2f}-{max(times):.2f})")
    print(f"storm: {TASKS / seconds:.0f} tasks/s, {1000 * each:.2f} ms CPU of the controller per task, {writes} writes")
    return max(map(statistics.median, (drained, released))) <= LARGEST_SECONDS and each <= LARGEST_CPU and not writes


def main() -> int:
    parser = _figures.parser_of(__doc__, "--bed mine   # up already; stays up")
    parser.add_argument("--bed", help="a bed that is up, instead of one of its own")
    options = parser.parse_args()
    with own_bed(f"bench-{os.getpid()}", "--nodes", "1", "--wlm", "none", given=options.bed) as running:
        bed = running.bed
        command_line("load", bed.name, "--nodes", str(NODES), timeout=300)
        convert(Api.from_kubeconfig(kubeconfig(bed)))
        try:
            with tempfile.TemporaryDirectory() as folder:
                service = Service(Path(folder), kubeconfig(bed))
                try:
                    good = measure(Api.from_kubeconfig(kubeconfig(bed)), service)
                finally:
                    service.stop()
        finally:
            if options.bed:
                command_line("load", bed.name, "--remove", timeout=300)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
