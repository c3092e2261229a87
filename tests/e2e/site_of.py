# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site for the playbooks of the collection: a bed, an inventory, and the questions that tests ask about it.

The hosts are containers on a machine that may have cgroup v1: what that needs is said here, all else are defaults.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from e2e.playing import IN_CONTAINERS, IN_MACHINES, Said, Site
from testbed import api, binaries

SITE_SECONDS = 1200.0
# A play's `serial` is read before there is a host, so only the command line can say it.
ALL_AT_ONCE = {"converged_serial": ["100%"], "converged_after_canary": "go_on"}
# Pods of these are there without a registry.
IMAGE = "localhost/busybox:local"


class ConvertedSite(Site):
    """An administrator's folder for a cluster that `play("site")` converts and `play("restore")` takes back."""

    play_seconds = SITE_SECONDS

    def __init__(self, bed: api.RunningBed, folder: Path) -> None:
        super().__init__(bed, folder)
        self.ask_kubernetes_from_here()
        self.set(
            "all",
            node_kubelet_config={"failCgroupV1": False},
            node_share_linger=2,
            node_share_controller_period=5,
            converged_verify_wait=300,
        )
        # As a site would have it on the path.
        self.set("all", converged_kubectl=str(binaries.build_binaries() / "kubectl"))
        self.set("converged_nodes", **(IN_MACHINES if bed.bed.vm else IN_CONTAINERS))
        self.nodes = sorted(self.hosts["all"]["children"]["converged_nodes"]["hosts"])
        self.controllers = tuple(sorted(self.hosts["all"]["children"]["converged_controllers"]["hosts"]))
        (folder / "hosts.yml").write_text(json.dumps(self.hosts), encoding="utf-8")

    def play(self, playbook: str, *options: str, check: bool = True, **variables: Any) -> Said:
        """Run a playbook of the collection by its name: site, verify, off, on, restore, status.

        `site` converts all nodes in one batch unless told otherwise: a canary costs as long again, and `started` and
        `killed_at` keep the collection's own batches, of which the second follows the canary at once.
        """
        if playbook == "site":
            variables = {**ALL_AT_ONCE, **variables}
        return self.run(f"converged.hpc.{playbook}", *options, check=check, timeout=self.play_seconds, **variables)

    @contextlib.contextmanager
    def started(self, playbook: str | Path, **variables: Any) -> Iterator[subprocess.Popen[str]]:
        """A playbook of the collection, or a file, that runs beside what follows, until it ends or `kill` ends it."""
        name = str(playbook) if isinstance(playbook, Path) else f"converged.hpc.{playbook}"
        if playbook == "site":
            variables = {"converged_after_canary": "go_on", **variables}
        argv, settings = self.command("ansible-playbook", [name, "--extra-vars", json.dumps(variables)])
        env = {**os.environ, **settings}
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as process:
            try:
                yield process
            except BaseException:
                if process.poll() is None:
                    kill(process)
                raise

    def killed_at(self, playbook: str, part: str, task: str) -> None:
        """Runs a playbook until a play of it begins a task, kills it there, and waits for what runs on the hosts."""
        said: list[str] = []
        with self.started(playbook) as process:
            assert process.stdout is not None
            there = False
            for line in process.stdout:
                said.append(line)
                there = line.startswith(f"PLAY [{part}") if line.startswith("PLAY [") else there
                if there and line.startswith("TASK [") and task in line:
                    kill(process)
                    break
        assert process.returncode == -signal.SIGKILL, f"{playbook} never came to {task!a}:\n{''.join(said)}"
        self.let_hosts_end()

    def let_hosts_end(self) -> None:
        """What a run that was killed had begun on the hosts."""
        for host in (*self.controllers, *self.nodes):
            self.until(host, "! pgrep -f '[A]nsiballZ|[B]ECOME-SUCCESS' >/dev/null")


def kill(process: subprocess.Popen[str]) -> None:
    """As a machine that goes down would: at once, and with the workers, which have sessions of their own."""
    process.send_signal(signal.SIGSTOP)
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    workers = [int(pid) for task in tasks for pid in task.read_text(encoding="ascii").split()]
    for pid in (process.pid, *workers):
        os.kill(pid, signal.SIGKILL)
