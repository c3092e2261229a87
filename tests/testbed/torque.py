# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Torque as the batch system of a bed: its double, with a MoM on every node.

As that of PBS it has no server process: its state is one folder of the machine that all hosts of the bed mount, with
one lock. A node mounts the home of its MoM where Torque has it.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from torque_double.cluster import PROGRAMS, SERVER_PROGRAMS

from testbed.archive import NodeFile, enabled
from testbed.errors import BedError
from testbed.podman import Podman, Volume
from testbed.state import Bed, Host

TESTS = Path(__file__).resolve().parent.parent
LIBRARY = "/opt/testbed/lib"
EXEC, HOME, CLUSTER = "/opt/torque", "/var/spool/torque", "/var/spool/torque-cluster"
GOOD = frozenset({"free", "job-exclusive"})
POLL_SECONDS = 0.2
CONFIG = "$pbsserver ctl\n$usecp *:/ /\n$prologalarm 320\n$status_update_time 2\n"
# The double imports what it shares with that of PBS.
LIBRARIES = ("torque_double", "pbs_double")

PROGRAM = """\
#!/usr/bin/python3 -IS
import os
import sys

sys.pycache_prefix = "/run/testbed/pycache"  # no call compiles what another has
os.environ["TORQUE_DOUBLE_HOSTS"] = {hosts!r}
os.environ["TORQUE_DOUBLE_HOST"] = {host!r}
sys.path.insert(0, {library!r})
from torque_double.{module} import {function}

sys.exit({function}({arguments}, sys.argv[1:]))
"""

UNIT = f"""\
[Unit]
Description=Torque's MoM
After=network.target

[Service]
Type=forking
ExecStart={EXEC}/sbin/pbs_mom
# Jobs live on while it is started anew.
KillMode=process

[Install]
WantedBy=multi-user.target
"""


def make_folders(bed: Bed) -> None:
    """Make the state that all hosts share. Everybody may write it, as there is no server that would do so for users."""
    cluster = _folder(bed)
    for host in bed.nodes:
        mom_priv = cluster / "homes" / host.name / "mom_priv"
        mom_priv.mkdir(parents=True)
        mom_priv.chmod(0o751)
        (mom_priv / "config").write_text(CONFIG)
        (mom_priv.parent / "server_name").write_text("ctl\n")
    # The MoMs live as long as this process of their containers.
    (cluster / "owner").write_text("1")
    (cluster / "lock").touch()
    cluster.chmod(0o777)
    (cluster / "lock").chmod(0o666)


def volumes(bed: Bed, host: Host) -> tuple[Volume, ...]:
    """What a host of the batch system mounts."""
    if bed.wlm != "torque" or host.role == "kube":
        return ()
    mounts = [Volume(TESTS / name, f"{LIBRARY}/{name}", read_only=True) for name in LIBRARIES]
    mounts.append(Volume(_folder(bed), CLUSTER))
    if host.role == "node":
        mounts.append(Volume(_folder(bed) / "homes" / host.name, HOME))
    return tuple(mounts)


def files(bed: Bed, host: Host) -> list[NodeFile]:
    """What makes `host` part of the batch system."""
    if bed.wlm != "torque" or host.role == "kube":
        return []
    made = []
    for command in (*PROGRAMS, *SERVER_PROGRAMS):
        text = _program(bed, host, "double", "run", f"{command!r}, {CLUSTER!r}")
        made.append(NodeFile(f"{EXEC}/bin/{command}", text, mode=0o755))
        made.append(NodeFile(f"/usr/local/bin/{command}", target=f"{EXEC}/bin/{command}"))
    if host.role != "node":
        return [*made, NodeFile(f"{HOME}/server_name", "ctl\n")]
    home = f"{CLUSTER}/homes/{host.name}"  # where all hosts find it
    place = f"{host.name!r}, {home!r}, {CLUSTER!r}"
    made.append(NodeFile(f"{EXEC}/sbin/pbs_mom", _program(bed, host, "mom", "run", place), mode=0o755))
    made.append(NodeFile(f"{EXEC}/sbin/momctl", _program(bed, host, "momctl", "control", place), mode=0o755))
    made.append(NodeFile("/usr/local/sbin/momctl", target=f"{EXEC}/sbin/momctl"))
    return [*made, NodeFile("/lib/systemd/system/pbs_mom.service", UNIT), enabled("pbs_mom.service")]


def states(podman: Podman, bed: Bed) -> dict[str, str]:
    """Node → state as the server says; raises where it does not answer."""
    done = podman.exec(bed.host("ctl").container, [f"{EXEC}/bin/pbsnodes", "-x"], timeout=30)
    return dict(re.findall(r"<Node><name>([^<]*)</name><state>([^<]*)</state>", done.out))


def await_free(podman: Podman, bed: Bed, *, timeout: float) -> None:
    """Wait until the server calls every node free."""
    deadline = time.monotonic() + timeout
    while waiting := [f"{node} {state}" for node, state in states(podman, bed).items() if state != "free"]:
        if time.monotonic() > deadline:
            raise BedError(f"Torque is not ready after {timeout:g} s: {', '.join(waiting)}")
        time.sleep(POLL_SECONDS)


def _folder(bed: Bed) -> Path:
    return bed.dir / "torque"


def _program(bed: Bed, host: Host, module: str, function: str, arguments: str) -> str:
    hosts = " ".join(one.name for one in (*bed.controllers[:1], *bed.nodes))
    name = "ctl" if host.role == "controller" else host.name
    given = {"hosts": hosts, "host": name, "library": LIBRARY, "module": module, "function": function}
    return PROGRAM.format(arguments=arguments, **given)
