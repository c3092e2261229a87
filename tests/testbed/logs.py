# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gathers what every component of a bed has logged into one folder, for a person who asks why."""

from __future__ import annotations

import base64
import os
import shutil
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from testbed import controlplane, machines, reach
from testbed.down import podman_of
from testbed.errors import BedError
from testbed.parallel import in_parallel
from testbed.paths import logs_dir
from testbed.podman import Podman
from testbed.state import Bed, BedStore, Host

PBS_FOLDERS = tuple(f"/var/spool/pbs/{daemon}_logs" for daemon in ("server", "sched", "comm", "mom"))
FOLDERS = ("/var/log/slurm", "/var/log/pods", "/var/log/mysql", *PBS_FOLDERS)
COMMANDS = {
    "journal.txt": ("journalctl", "--no-pager", "--output=short-precise"),
    "units.txt": ("systemctl", "--no-pager", "--plain", "list-units", "--all"),
    "processes.txt": ("ps", "axfww"),
}


def collect_logs(bed: Bed) -> Path:
    """Make a folder with all logs and return it. What cannot be read is said in it, and stops nothing."""
    folder = logs_dir() / f"{bed.name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    folder.mkdir(parents=True)
    shutil.copyfile(BedStore(bed.name).path, folder / "state.json")
    podman = podman_of(bed)
    in_parallel([partial(collect_host, podman, bed, host, folder / host.name) for host in bed.hosts])
    if bed.kube and controlplane.audit_log(bed).exists():
        shutil.copyfile(controlplane.audit_log(bed), folder / "kube" / "audit.log")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, bed.uid, -1, follow_symlinks=False)
    return folder


def collect_host(podman: Podman, bed: Bed, host: Host, folder: Path) -> None:
    """The logs of one container or machine, running or not."""
    folder.mkdir()
    for name, argv in COMMANDS.items():
        try:
            done = reach.execute(bed, host, argv, timeout=60, check=False)
            (folder / name).write_text(done.out + done.err)
        except BedError as error:
            (folder / name).write_text(f"{error}\n")
    if host.machine:
        collect_machine(bed, host, folder)
        return
    console = podman.call("logs", host.container, check=False, timeout=60)
    (folder / "console.txt").write_text(console.out + console.err)
    for path in FOLDERS:
        # Not every host has every folder.
        podman.call("cp", f"{host.container}:{path}", str(folder), check=False, timeout=60)


def collect_machine(bed: Bed, host: Host, folder: Path) -> None:
    """What a machine's kernel has said, and the folders of its services as one archive."""
    with suppress(FileNotFoundError):
        shutil.copyfile(machines.console(bed, host), folder / "console.txt")
    argv = [
        "sh",
        "-c",
        "tar -c -C / --ignore-failed-read " + " ".join(path.lstrip("/") for path in FOLDERS) + " | base64",
    ]
    with suppress(BedError, ValueError):
        done = reach.execute(bed, host, argv, timeout=60, check=False)
        (folder / "logs.tar").write_bytes(base64.b64decode(done.out))
