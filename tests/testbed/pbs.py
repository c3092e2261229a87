# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PBS as the batch system of a bed: the double of the tests, installed where OpenPBS lies, with a MoM on every node.

The double has no server process. Its state is one folder of the machine that all hosts of the bed mount, with one lock,
so that a command on any host, a second controller too, is the server. Each MoM runs the hooks on its own host, and
keeps its home there too.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from pbs_double.cluster import PROGRAMS

from testbed.archive import NodeFile, enabled
from testbed.errors import BedError
from testbed.podman import Podman, Volume
from testbed.state import Bed, Host

DOUBLE = Path(__file__).resolve().parent.parent / "pbs_double"
LIBRARY = "/opt/testbed/lib"
EXEC, HOME, CLUSTER = "/opt/pbs", "/var/spool/pbs", "/var/spool/pbs-cluster"
GOOD = frozenset({"free", "job-busy", "job-exclusive"})
POLL_SECONDS = 0.2

PROGRAM = """\
#!/usr/bin/python3 -IS
import os
import sys

sys.dont_write_bytecode = True
os.environ["PBS_DOUBLE_HOSTS"] = {hosts!r}
sys.path.insert(0, {library!r})
from pbs_double.{module} import run

sys.exit(run({first!r}, {cluster!r}, sys.argv[1:]))
"""

CONF = f"""\
PBS_EXEC={EXEC}
PBS_HOME={HOME}
PBS_SERVER=ctl
PBS_START_SERVER={{server:d}}
PBS_START_SCHED={{server:d}}
PBS_START_COMM={{server:d}}
PBS_START_MOM={{mom:d}}
PBS_CORE_LIMIT=0
"""

UNIT = f"""\
[Unit]
Description=Portable Batch System
After=network.target

[Service]
Type=forking
ExecStart={EXEC}/sbin/pbs_mom
# Jobs live on while MoM is started anew.
KillMode=process

[Install]
WantedBy=multi-user.target
"""


def make_folders(bed: Bed) -> None:
    """The state that all hosts share. Everybody may write it, as there is no server that would do so for users."""
    cluster = _folder(bed)
    for host in bed.nodes:
        for part in ("mom_priv/hooks/tmp", "mom_logs"):
            (cluster / "homes" / host.name / part).mkdir(parents=True)
        program = cluster / "sbin" / host.name / "pbs_python"
        program.parent.mkdir(parents=True)
        program.write_text(_program(bed, "pbs_python", host.name))
        program.chmod(0o755)
    # The MoMs live as long as this process of their containers.
    (cluster / "owner").write_text("1")
    (cluster / "lock").touch()
    cluster.chmod(0o777)
    (cluster / "lock").chmod(0o666)


def volumes(bed: Bed, host: Host) -> tuple[Volume, ...]:
    """What a host of the batch system mounts."""
    if bed.wlm != "pbs" or host.role == "kube":
        return ()
    return (Volume(_folder(bed), CLUSTER), Volume(DOUBLE, f"{LIBRARY}/pbs_double", read_only=True))


def files(bed: Bed, host: Host) -> list[NodeFile]:
    """What makes `host` part of the batch system."""
    if bed.wlm != "pbs" or host.role == "kube":
        return []
    is_node = host.role == "node"
    made = [NodeFile("/etc/pbs.conf", CONF.format(server=not is_node, mom=is_node))]
    for command in PROGRAMS:
        made.append(NodeFile(f"{EXEC}/bin/{command}", _program(bed, "double", command), mode=0o755))
        made.append(NodeFile(f"/usr/local/bin/{command}", target=f"{EXEC}/bin/{command}"))
    if is_node:
        made += [
            NodeFile(HOME, target=f"{CLUSTER}/homes/{host.name}"),
            NodeFile(f"{EXEC}/sbin/pbs_mom", _program(bed, "mom", host.name), mode=0o755),
            NodeFile("/lib/systemd/system/pbs.service", UNIT),
            enabled("pbs.service"),
        ]
    return made


def states(podman: Podman, bed: Bed) -> dict[str, str]:
    """Node → state as the server says; raises where it does not answer."""
    command = [f"{EXEC}/bin/pbsnodes", "-av", "-F", "json"]
    done = podman.exec(bed.host("ctl").container, command, timeout=30)
    return {name: node["state"] for name, node in json.loads(done.out)["nodes"].items()}


def await_free(podman: Podman, bed: Bed, *, timeout: float) -> None:
    """Wait until the server calls every node free."""
    deadline = time.monotonic() + timeout
    while waiting := [f"{node} {state}" for node, state in states(podman, bed).items() if state != "free"]:
        if time.monotonic() > deadline:
            raise BedError(f"PBS is not ready after {timeout:g} s: {', '.join(waiting)}")
        time.sleep(POLL_SECONDS)


def _folder(bed: Bed) -> Path:
    return bed.dir / "pbs"


def _program(bed: Bed, module: str, first: str) -> str:
    hosts = " ".join(host.name for host in (*bed.controllers[:1], *bed.nodes))
    return PROGRAM.format(hosts=hosts, library=LIBRARY, module=module, first=first, cluster=CLUSTER)
