# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests ask of a bed's hosts, of Slurm and of Kubernetes, in one vocabulary."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from testbed import api
from testbed.run import Completed

TAINT = "converged.hpc/batch"
# Longer than a machine takes that is busy with other things, or stands still for a while.
PATIENCE = 300.0
WALL = "e2e"


class Hosts:
    """The hosts of a bed that is up."""

    def __init__(self, bed: api.RunningBed) -> None:
        self.bed = bed

    def ask(self, host: str, *argv: str, check: bool = True) -> str:
        """Return what a program prints, run as root on a host."""
        return self.bed.exec(host, argv, check=check).out

    def node(self, host: str, command: str, *, check: bool = True, input: str | None = None) -> str:
        """Return what a shell command prints, run as root on a host."""
        return self.bed.exec(host, ["sh", "-c", command], check=check, input=input).out

    def close(self, host: str, hook: str, port: int) -> None:
        """Reject TCP to a port in the hook `input` or `output`; in a table of its own, which leaves nothing behind."""
        rules = f"type filter hook {hook} priority 0\ntcp dport {port} reject with tcp reset"
        self.node(host, "nft -f -", input=f"table ip {WALL} {{\nchain {hook} {{\n{rules}\n}}\n}}\n")

    def open(self, host: str) -> None:
        """Take away what `close` has made."""
        self.node(host, f"nft delete table ip {WALL}")

    def until(self, host: str, command: str, seconds: float = PATIENCE) -> None:
        """Wait until a shell command succeeds on a host."""
        loop = ["timeout", f"{seconds:g}", "sh", "-c", f"until {command}; do sleep 0.3; done"]
        self.bed.exec(host, loop, timeout=seconds + 10)

    def unit_state(self, host: str, unit: str = "kubelet") -> str:
        """Return what systemd calls a unit: active, inactive, failed or what it is about to become."""
        return self.ask(host, "systemctl", "is-active", unit, check=False).strip()

    def is_active(self, host: str, unit: str = "kubelet") -> bool:
        """Return whether systemd calls a unit active."""
        return self.unit_state(host, unit) == "active"

    def started_at(self, host: str, unit: str = "kubelet") -> int:
        """Return when a unit was started the last time, in microseconds of the monotonic clock."""
        return int(self.ask(host, "systemctl", "show", "--property=ExecMainStartTimestampMonotonic", "--value", unit))


class SlurmHosts(Hosts):
    """Hosts with Slurm."""

    controllers: tuple[str, ...] = ("ctl",)

    def ctl(self, command: str, *, check: bool = True, input: str | None = None) -> str:
        """Return what a shell command prints on the first batch controller."""
        return self.node(self.controllers[0], command, check=check, input=input)

    def srun(self, *words: str, check: bool = True, timeout: float = PATIENCE) -> Completed:
        """Run a job of the cluster's administrator and wait for it."""
        return self.bed.ssh(self.controllers[0], ["srun", *words], check=check, timeout=timeout)

    def quiet(self) -> None:
        """Wait until every job has left its nodes: an Epilog may run behind srun."""
        self.until(self.controllers[0], 'test -z "$(squeue -h -t R,CG)"')


class KubeHosts(Hosts):
    """Hosts with a Kubernetes control plane."""

    def kubectl(self, *words: str, input: str | None = None) -> str:
        """Return what kubectl prints, run as the cluster's administrator."""
        return self.bed.kubectl(*words, input=input)

    def objects(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return `nodes`, or `pods` of the default namespace, by name."""
        return self.bed.objects(kind)

    def taints(self) -> dict[str, set[str]]:
        """Return the keys of all taints, by Node object."""
        nodes = self.objects("nodes")
        return {name: {taint["key"] for taint in node["spec"].get("taints", ())} for name, node in nodes.items()}

    def tainted(self) -> set[str]:
        """Return the Node objects that our taint closes to pods."""
        return {name for name, keys in self.taints().items() if TAINT in keys}

    def ready(self) -> set[str]:
        """Return the Node objects whose kubelet says that it is ready."""
        return {
            name
            for name, node in self.objects("nodes").items()
            if any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions", ()))
        }


def until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait for a condition, and fail naming `what` if it does not come in time."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < seconds, f"not within {seconds:g} s: {what}"
        time.sleep(0.3)  # each question starts processes, which slow the tests beside this one
