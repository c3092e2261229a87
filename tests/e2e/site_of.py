# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Slurm site for the playbooks of the collection: a bed, an inventory, and the questions that tests ask about it.

The hosts are containers on a machine that may have cgroup v1: what that needs is said here, all else are defaults.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from e2e import listing
from e2e.playing import IN_CONTAINERS, Said, Site
from testbed import api, binaries
from testbed.run import Completed

SITE_SECONDS = 1200.0
LISTING = Path(listing.__file__)
# Pods of these are there without a registry.
IMAGE = "localhost/busybox:local"


class ConvertedSite(Site):
    """An administrator's folder for a cluster that `play("site")` converts and `play("restore")` takes back."""

    def __init__(self, bed: api.RunningBed, folder: Path) -> None:
        super().__init__(bed, folder)
        self.ask_kubernetes_from_here()
        self.set(
            "all", node_kubelet_config={"failCgroupV1": False}, node_share_linger=2, node_share_controller_period=5
        )
        # As a site would have it on the path.
        self.set("all", converged_kubectl=str(binaries.build_binaries() / "kubectl"))
        self.set("converged_nodes", **IN_CONTAINERS)
        self.nodes = sorted(self.hosts["all"]["children"]["converged_nodes"]["hosts"])
        self.controllers = sorted(self.hosts["all"]["children"]["converged_controllers"]["hosts"])
        (folder / "hosts.yml").write_text(json.dumps(self.hosts), encoding="utf-8")

    def play(self, playbook: str, *options: str, check: bool = True, **variables: Any) -> Said:
        """A playbook of the collection by its name: site, verify, off, on, restore, status."""
        return self.run(f"converged.hpc.{playbook}", *options, check=check, timeout=SITE_SECONDS, **variables)

    def node(self, name: str, command: str, *, check: bool = True, input: str | None = None) -> str:
        """What a shell command prints, run as root on a host."""
        return self.bed.exec(name, ["sh", "-c", command], check=check, input=input).out

    def ctl(self, command: str, *, check: bool = True, input: str | None = None) -> str:
        """The same on the first batch controller."""
        return self.node(self.controllers[0], command, check=check, input=input)

    def kubectl(self, *words: str, input: str | None = None) -> str:
        return self.bed.kubectl(*words, input=input)

    def objects(self, kind: str) -> dict[str, dict[str, Any]]:
        """All objects of a kind in the default namespace, by name."""
        items = json.loads(self.kubectl("get", kind, "--output=json"))["items"]
        return {item["metadata"]["name"]: item for item in items}

    def srun(self, *words: str, check: bool = True, timeout: float = 120.0) -> Completed:
        """A job of the cluster's administrator, waited for."""
        return self.bed.ssh(self.controllers[0], ["srun", *words], check=check, timeout=timeout)

    def quiet(self) -> None:
        """Until every job has left its nodes: an Epilog may run behind srun."""
        done = 'until test -z "$(squeue -h -t R,CG)"; do sleep 0.1; done'
        self.bed.exec(self.controllers[0], ["timeout", "60", "sh", "-c", done])

    def listing(self, host: str) -> dict[str, object]:
        """Everything on a host, but for the state that Slurm's daemons save whenever they like."""
        text = LISTING.read_text(encoding="utf-8")
        things: dict[str, object] = json.loads(self.bed.exec(host, ["python3", "-"], input=text, timeout=120).out)
        return {name: thing for name, thing in things.items() if not name.startswith("/var/lib/slurm/")}

    def started(self, playbook: str | Path) -> subprocess.Popen[str]:
        """A playbook of the collection, or a file, that runs beside what follows, in a process group of its own."""
        (self.folder / "hosts.yml").write_text(json.dumps(self.hosts), encoding="utf-8")
        name = str(playbook) if isinstance(playbook, Path) else f"converged.hpc.{playbook}"
        argv = [str(Path(sys.executable).with_name("ansible-playbook")), "--inventory", str(self.folder / "hosts.yml")]
        settings = {
            **os.environ,
            "ANSIBLE_NOCOLOR": "1",
            "PYTHONUNBUFFERED": "1",
        }
        return subprocess.Popen(
            [*argv, name],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=settings,
            start_new_session=True,
        )
