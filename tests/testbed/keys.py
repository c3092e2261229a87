# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of one bed: how its people log in, how its hosts prove themselves, how its batch system trusts."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from testbed.recipe import ADMINISTRATOR
from testbed.run import run
from testbed.state import Bed, Host

MUNGE_KEY_BYTES = 128


def ssh_dir(bed: Bed) -> Path:
    """Readable for whoever asked for the bed, and nobody else."""
    return bed.dir / "ssh"


def identity(bed: Bed) -> Path:
    """The private key of the bed's administrator."""
    return ssh_dir(bed) / "id_ed25519"


def host_key(bed: Bed, host: Host) -> Path:
    """The private key of one host."""
    return bed.dir / "hostkeys" / host.name


def known_hosts(bed: Bed) -> Path:
    """The public keys of all hosts, so that ssh checks them as on a real site."""
    return ssh_dir(bed) / "known_hosts"


def munge_key(bed: Bed) -> Path:
    """The secret that all hosts of the batch system share."""
    return bed.dir / "munge.key"


def make(bed: Bed) -> None:
    """Make all keys of a bed."""
    ssh_dir(bed).mkdir(mode=0o700)
    host_key(bed, bed.hosts[0]).parent.mkdir(mode=0o700)
    generate(identity(bed), comment=f"{ADMINISTRATOR}@{bed.name}")
    lines = []
    for host in bed.hosts:
        key = host_key(bed, host)
        generate(key, comment=host.name)
        lines.append(f"{host.name},{host.ip} {key.with_suffix('.pub').read_text()}")
    known_hosts(bed).write_text("".join(lines))
    munge_key(bed).touch(mode=0o600)
    munge_key(bed).write_bytes(secrets.token_bytes(MUNGE_KEY_BYTES))
    for path in (ssh_dir(bed), *ssh_dir(bed).iterdir()):
        os.chown(path, bed.uid, -1)


def generate(path: Path, *, comment: str) -> None:
    """One ed25519 key pair without a passphrase."""
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)], timeout=30)


def ssh_command(bed: Bed, host: Host, *, user: str = ADMINISTRATOR) -> list[str]:
    """`ssh` to a host of the bed, independent of the configuration of whoever calls."""
    options = [f"UserKnownHostsFile={known_hosts(bed)}", "GlobalKnownHostsFile=/dev/null", "StrictHostKeyChecking=yes"]
    options += ["IdentitiesOnly=yes", "BatchMode=yes", "ConnectTimeout=60", "LogLevel=ERROR"]
    flags = [part for option in options for part in ("-o", option)]
    return ["ssh", "-F", "/dev/null", "-i", str(identity(bed)), *flags, f"{user}@{host.ip}"]
