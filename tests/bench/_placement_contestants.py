# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The contestants of `placement_throughput`: each is started when its pods wait, and stopped when they are bound.

All act as `system:kube-scheduler`, so the API server gives all the same priority, and none limits its own requests.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.request import urlopen

import yaml
from testbed.api import RunningBed
from testbed.controlplane import kube_dir

ROLE: Final = Path(__file__).resolve().parents[2] / "roles/placement/files"
SETTINGS: Final = "settings.yml"
UNIT: Final = "bench-scheduler"
STOP_SECONDS: Final = 60.0
TICKS: Final = os.sysconf("SC_CLK_TCK")
READ: Final = ["get", "list", "watch"]
# What kube-scheduler's own role does not have: the groups of other APIs, and priority classes.
READER: Final[dict[str, Any]] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "placement-bench"},
    "rules": [
        {"apiGroups": ["*"], "resources": ["podgroups", "queues", "priorityclasses"], "verbs": READ},
        {"apiGroups": ["*"], "resources": ["podgroups/status", "queues/status"], "verbs": ["patch"]},
    ],
}
BINDING: Final[dict[str, Any]] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "placement-bench"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "placement-bench"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"}],
}


@dataclass(frozen=True, slots=True)
class Usage:
    """Of a process so far."""

    cpu_seconds: float
    peak_mib: float
    resident_mib: float


class Running(Protocol):
    """A contestant at work."""

    def ended(self) -> bool:
        """Whether it has ended by itself, which no contestant should."""

    def usage(self) -> Usage:
        """What it has used so far."""

    def metrics(self) -> str:
        """What it tells Prometheus; empty where it is not asked."""


class Contestant(Protocol):
    """A contestant at rest."""

    @property
    def name(self) -> str: ...

    @property
    def scheduler_name(self) -> str: ...

    def running(self, **more: object) -> Any:
        """A context in which it works; the daemon is told these settings, too."""


class Ours:
    """The daemon, or with `bare` the same connections with no scheduler between them."""

    scheduler_name: Final = "placement"

    def __init__(self, bed: RunningBed, folder: Path, *, bare: bool, **more: object) -> None:
        self.name = "bare" if bare else "placement"
        self._module = "bench._placement_bare" if bare else "placement"
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        self._told = {
            "scheduler_name": self.scheduler_name,
            "kubeconfig": str(kube_dir(bed.bed) / "scheduler.conf"),
            "leader_election": False,
            "listen": self._address,
            "socket": str(folder / f"{self.name}.sock"),
            **more,
        }
        self._settings = folder / f"{self.name}-{SETTINGS}"

    @contextmanager
    def running(self, **more: object) -> Iterator[Running]:
        """As a process of its own."""
        self._settings.write_text(yaml.safe_dump({**self._told, **more}))
        path = os.pathsep.join([str(ROLE), str(Path(__file__).resolve().parents[1])])
        with (self._folder / f"{self.name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", self._module, "run", "--settings", str(self._settings)],
                env={**os.environ, "PYTHONPATH": path},
                stderr=log,
            )
        try:
            yield Process(process, self._address)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=STOP_SECONDS)


class Process:
    """What the kernel tells of a process of this machine."""

    def __init__(self, process: subprocess.Popen[bytes], address: str) -> None:
        self._process = process
        self._address = address
        self._folder = Path("/proc") / str(process.pid)

    def ended(self) -> bool:
        """Whether it has ended by itself, which no contestant should."""
        return self._process.poll() is not None

    def usage(self) -> Usage:
        """From its accounts."""
        return parsed((self._folder / "stat").read_text(), (self._folder / "status").read_text())

    def metrics(self) -> str:
        """What it tells Prometheus."""
        with urlopen(f"http://{self._address}/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
        return text


class KubeScheduler:
    """The bed's kube-scheduler with its limits lifted and GangScheduling on."""

    name: Final = "kube-scheduler"
    scheduler_name: Final = "default-scheduler"

    def __init__(self, bed: RunningBed) -> None:
        self._bed = bed
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf", "qps": 100000, "burst": 100000},
        }
        (kube_dir(bed.bed) / f"{UNIT}.yaml").write_text(yaml.safe_dump(config))

    @contextmanager
    def running(self, **_more: object) -> Iterator["KubeScheduler"]:
        """As a unit of the control plane's host."""
        gates = "--feature-gates=GenericWorkload=true,GangScheduling=true"
        command = ["/opt/testbed/bin/kube-scheduler", f"--config=/etc/kubernetes/{UNIT}.yaml", gates]
        self._bed.exec("kube", ["systemd-run", "--quiet", "--collect", f"--unit={UNIT}", *command])
        try:
            time.sleep(0.2)
            yield self
        finally:
            self._bed.exec("kube", ["systemctl", "stop", f"{UNIT}.service"], check=False)

    def ended(self) -> bool:
        """The unit has failed."""
        shown = self._bed.exec("kube", ["systemctl", "is-active", f"{UNIT}.service"], check=False)
        return shown.out.strip() != "active"

    def usage(self) -> Usage:
        """Of the unit's process, which lives in the container."""
        shown = self._bed.exec("kube", ["systemctl", "show", "-p", "MainPID", "--value", f"{UNIT}.service"])
        pid = shown.out.strip()
        files = [self._bed.exec("kube", ["cat", f"/proc/{pid}/{name}"]).out for name in ("stat", "status")]
        return parsed(files[0], files[1])

    def metrics(self) -> str:
        """It is not asked."""
        return ""


def parsed(stat: str, status: str) -> Usage:
    """Seconds of CPU, and memory in MiB."""
    words = stat.rpartition(")")[2].split()
    kib = {line.partition(":")[0]: line.split()[1] for line in status.splitlines() if line.startswith("Vm")}
    return Usage((int(words[11]) + int(words[12])) / TICKS, int(kib["VmHWM"]) / 1024, int(kib["VmRSS"]) / 1024)
