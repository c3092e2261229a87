# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs commands as root on a host of a bed: in a container by its namespaces, on a machine over ssh."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from testbed import keys, machines
from testbed.down import podman_of
from testbed.run import Completed, failure, run
from testbed.state import Bed, Host

# How long a connection without use is kept, and after how many silent times of 15 s it is given up.
KEPT_SECONDS, SILENCES = 120, 8


def execute(
    bed: Bed,
    host: Host,
    argv: Sequence[str],
    *,
    timeout: float,
    input: str | bytes | None = None,
    check: bool = True,
) -> Completed:
    """Run a command as root on a host; status 255 where the host does not run."""
    if not host.machine:
        return podman_of(bed).exec(host.container, argv, timeout=timeout, input=input, check=check)
    what = f"{host.container}: {argv[0]}"
    done = run(remote(bed, host, argv), timeout=timeout, input=input, check=False, what=what)
    if check and done.rc != 0:
        raise failure(what, done)
    return done


def remote(bed: Bed, host: Host, argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` as root on a machine.

    Only root here shares a connection: the folder of its socket is root's.
    """
    socket = machines.control_socket(bed.name, host.name)
    shared = ["ControlMaster=auto", f"ControlPath={socket}", f"ControlPersist={KEPT_SECONDS}"]
    shared += ["ServerAliveInterval=15", f"ServerAliveCountMax={SILENCES}"]
    options = [part for option in (shared if os.geteuid() == 0 else ()) for part in ("-o", option)]
    command, *rest = keys.ssh_command(bed, host, user="root")
    return [command, *options, *rest, shlex.join(argv)]
