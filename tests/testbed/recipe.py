# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is in a node image, as data: the digest of this data names the cached image.

A node starts as a site has it: Slurm and munge installed but not configured, and nothing of
Kubernetes. The packages that roles install lie beside it in a local repository.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

# Raised when the way an image is built changes what is in it.
FORMAT = 4
SUITES = {12: "bookworm", 13: "trixie"}
DEFAULT_DEBIAN = 12

PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "python3", "python3-apt", "sudo", "openssh-server", "ca-certificates", "curl"),
    *("iproute2", "iputils-ping", "iptables", "nftables", "ethtool", "conntrack", "socat", "kmod", "procps", "mount"),
    *("munge", "slurmd", "slurmctld", "slurm-client"),
)
# What roles install on nodes.
OFFERED_PACKAGES = ("containerd", "runc", "containernetworking-plugins", "python3-venv")
STATIC_PROGRAMS = {"catatonit": "usr/bin/catatonit", "busybox-static": "bin/busybox"}

# Each bed enables what its parts need; hardware, consoles and maintenance timers have no place in a container.
DISABLED_UNITS = ("munge.service", "slurmd.service", "slurmctld.service", "e2scrub_reap.service", "getty@tty1.service")
DISABLED_TIMERS = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "dpkg-db-backup.timer",
)
# systemd-sysctl, systemd-modules-load and systemd-binfmt would change the machine itself: /proc/sys/kernel has no
# namespace, and programs are registered with the machine's own kernel.
MASKED_UNITS = (
    *("systemd-udevd.service", "systemd-udevd-kernel.socket", "systemd-udevd-control.socket", "systemd-logind.service"),
    *("systemd-sysctl.service", "systemd-modules-load.service", "systemd-binfmt.service"),
    *("getty.target", "console-getty.service"),
    *("sys-kernel-debug.mount", "sys-kernel-config.mount", "systemd-remount-fs.service", "systemd-pstore.service"),
)

# The administrator of the nodes, and two people who submit jobs.
ADMINISTRATOR = "ops"
USERS = {ADMINISTRATOR: 1000, "alice": 2001, "bob": 2002}

FILES = {
    f"/etc/sudoers.d/{ADMINISTRATOR}": (0o440, f"{ADMINISTRATOR} ALL=(ALL) NOPASSWD: ALL\n"),
    "/etc/apt/sources.list.d/testbed.list": (0o644, "deb [trusted=yes] file:/opt/testbed/debs ./\n"),
    "/etc/ssh/sshd_config.d/testbed.conf": (0o644, "PasswordAuthentication no\nUseDNS no\nMaxStartups 100:30:200\n"),
    # Ours is the only clock and the only writer: no rotation, no rate limit that would hide a line from a test.
    "/etc/systemd/journald.conf.d/testbed.conf": (0o644, "[Journal]\nStorage=persistent\nRateLimitIntervalSec=0\n"),
    "/etc/machine-id": (0o444, ""),
    "/etc/hostname": (0o644, "node\n"),
}


@dataclass(frozen=True, slots=True)
class Layer:
    """What hosts of some beds have on top, and its units, which nothing starts by itself."""

    title: str
    packages: tuple[str, ...]
    units: tuple[str, ...]


ACCOUNTING, OPENPBS = "accounting", "openpbs"
LAYERS = {
    ACCOUNTING: Layer("slurmdbd and MariaDB", ("slurmdbd", "mariadb-server"), ("slurmdbd.service", "mariadb.service")),
    # OpenPBS itself is the machine's own. libpq-dev has pg_config, by which it finds the programs of its database.
    OPENPBS: Layer(
        "the libraries of OpenPBS and PostgreSQL",
        ("postgresql", "libpq-dev", "libpython3.11", "libhwloc15", "libical3", "libedit2", "libcjson1"),
        ("postgresql.service",),
    ),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """One image: a Debian release, and a layer by its name."""

    debian: int
    layer: str = ""

    @property
    def suite(self) -> str:
        return SUITES[self.debian]

    @property
    def base(self) -> Recipe | None:
        """The image this one is a layer on."""
        return Recipe(self.debian) if self.layer else None

    @property
    def key(self) -> str:
        """The name of the image: readable, and different whenever the contents would be."""
        return f"debian{self.debian}-{self.layer or 'node'}-{self.digest()[:12]}"

    def digest(self) -> str:
        """Covers everything in this module that shapes the image."""
        contents = [FORMAT, PACKAGES, OFFERED_PACKAGES, STATIC_PROGRAMS, DISABLED_UNITS, DISABLED_TIMERS, MASKED_UNITS]
        # The form by which images in caches are known: a layer more must not have all of them built again.
        contents += [USERS, FILES, {"debian": self.debian, "accounting": self.layer == ACCOUNTING}]
        if self.layer:
            contents += [LAYERS[self.layer].packages, LAYERS[self.layer].units]
        return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()
