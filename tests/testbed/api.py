# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The test bed for tests: bring a bed up, run commands on its hosts, take it down.

Beds come and go through the command line, as for a person, so tests need not be root themselves.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from testbed import keys, machines, reach
from testbed.controlplane import admin
from testbed.kube_api import Json
from testbed.recipe import ADMINISTRATOR
from testbed.run import Completed, run
from testbed.state import Bed, BedStore

TESTS = Path(__file__).resolve().parent.parent
COMMAND_SECONDS = 300.0
# A file to which the names of all beds are added that are brought up, so that an interrupted run can be tidied up.
MADE = "CONVERGED_BEDS_MADE"
# A first `up` builds the Kubernetes programs and a node image.
UP_SECONDS = 2400.0


@dataclass(frozen=True, slots=True)
class RunningBed:
    """A bed that is up."""

    bed: Bed

    def exec(
        self,
        host: str,
        argv: Sequence[str],
        *,
        timeout: float = COMMAND_SECONDS,
        input: str | bytes | None = None,
        check: bool = True,
    ) -> Completed:
        """Run a command as root on a host: without ssh, unless the host is a machine."""
        return reach.execute(self.bed, self.bed.host(host), argv, timeout=timeout, input=input, check=check)

    def ssh(
        self,
        host: str,
        argv: Sequence[str],
        *,
        timeout: float = COMMAND_SECONDS,
        input: str | bytes | None = None,
        check: bool = True,
    ) -> Completed:
        """Run a command on a host as its administrator, over ssh."""
        command = [*keys.ssh_command(self.bed, self.bed.host(host), user=ADMINISTRATOR), shlex.join(argv)]
        return run(command, timeout=timeout, input=input, check=check)

    def power_cut(self, host: str) -> None:
        """Take the power from a machine at once; what it had not written to its disk is lost."""
        machines.power_cut(self.bed.name, self.bed.host(host).name)

    def power_on(self, host: str) -> None:
        """Give a machine its power back; it boots, which the caller awaits."""
        machines.power_on(self.bed, self.bed.host(host))

    def kubectl(self, *arguments: str, timeout: float = COMMAND_SECONDS, input: str | None = None) -> str:
        """What kubectl prints, run beside the API server as the cluster's administrator."""
        return self.exec("kube", ["kubectl", *arguments], timeout=timeout, input=input).out

    def objects(self, kind: str) -> dict[str, Json]:
        """`nodes`, or `pods` of the default namespace, by name: for who asks again and again, without a process."""
        path = {"nodes": "/api/v1/nodes", "pods": "/api/v1/namespaces/default/pods"}[kind]
        with closing(admin(self.bed)) as connection:
            return {item["metadata"]["name"]: item for item in connection.items(path)}


def command_line(
    *arguments: str, timeout: float = COMMAND_SECONDS, input: str | None = None, check: bool = True
) -> Completed:
    """Run the command line, as a person does."""
    command = [sys.executable, "-m", "testbed", *arguments]
    settings = {"PYTHONPATH": str(TESTS), "PYTHONDONTWRITEBYTECODE": "1"}
    return run(command, timeout=timeout, input=input, check=check, env=settings)


def bring_up(name: str, *options: str) -> RunningBed:
    """A whole bed; one that is up already is taken as it is."""
    if made := os.environ.get(MADE):
        with Path(made).open("a", encoding="utf-8") as names:
            names.write(f"{name}\n")
    command_line("up", "--name", name, *options, timeout=UP_SECONDS)
    return find(name)


def find(name: str) -> RunningBed:
    """A bed that is there."""
    return RunningBed(BedStore(name).existing())


def take_down(name: str) -> None:
    """Remove a bed."""
    command_line("down", name, timeout=180)
