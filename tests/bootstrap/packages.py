# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the distribution's packages the targets need, and the installation of those that are missing.

There is no stamp: what dpkg says is the truth, and asking takes some 20 ms.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from bootstrap.errors import BootstrapError
from bootstrap.machine import Machine
from bootstrap.run import run, step

CODE = ("ca-certificates", "git", "python3-venv")
TEST_BED = (
    "podman",
    "crun",
    "runc",  # the one that accepts hybrid cgroups
    "netavark",
    "aardvark-dns",
    "iptables",
    "nftables",
    "iproute2",
    "procps",
    "openssh-client",
    "mmdebstrap",  # node images from pinned suites, whatever the host is
    "debian-archive-keyring",
    "dpkg-dev",  # dpkg-scanpackages, for the nodes' local repository
    "gcc",  # the pause image is one static program
    "libc6-dev",
    "busybox-static",
    "xz-utils",
)
# Nodes that are virtual machines; no demo has one.
MACHINES = ("qemu-system-x86", "qemu-utils", "e2fsprogs")


def needed(*, test_bed: bool, machines: bool = False) -> tuple[str, ...]:
    """The packages for a target."""
    return (*CODE, *(TEST_BED if test_bed else ()), *(MACHINES if machines else ()))


def missing(packages: Iterable[str], installed: Iterable[str]) -> list[str]:
    """Those that have to be installed, in order."""
    there = set(installed)
    return [package for package in packages if package not in there]


def installed_now(packages: Iterable[str]) -> list[str]:
    """Those of the packages that are installed."""
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *packages],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,  # status 1 says that one of them is unknown
    )
    return [
        name for name, _, status in (line.partition(" ") for line in done.stdout.splitlines()) if status == "installed"
    ]


def install(packages: list[str], *, machine: Machine, environ: dict[str, str], log: Path) -> None:
    """Installs them with apt; the packages' services are not started."""
    if not (machine.root or machine.sudo):
        raise BootstrapError(f"missing packages and no root: type: su -c 'apt-get install {' '.join(packages)}'")
    proxies = [f"{name}={value}" for name, value in machine.proxies]
    as_root = ["env"] if machine.root else ["sudo", "-n", "env"]
    apt = [*as_root, "DEBIAN_FRONTEND=noninteractive", *proxies, "apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300"]
    with step(f"installing system packages: {' '.join(packages)}"):
        run([*apt, "update"], timeout=600, log=log, env=environ)
        run([*apt, "install", "--no-install-recommends", *packages], timeout=1800, log=log, env=environ)
