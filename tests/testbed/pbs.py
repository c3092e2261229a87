# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PBS as the batch system of a bed, with a MoM on every node: OpenPBS where the machine has it, otherwise its double.

OpenPBS stays where it is installed, for that place is compiled in; hosts see it there, and where it lies as a rule. The
double has no server process. Its state is one folder of the machine that all hosts of the bed mount, with one lock,
so that a command on any host, a second controller too, is the server. Each MoM runs the hooks on its own host, and
keeps its home there too. Nodes that are virtual machines mount nothing: they have a folder of their own, and borrow
the state from the first controller.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from pbs_double.cluster import PROGRAMS
from pbs_double.lender import PORT as LENDER_PORT
from pbs_double.real import HOME, installation, settings

from testbed.archive import NodeFile, enabled
from testbed.errors import BedError
from testbed.layout import Request
from testbed.podman import Podman, Volume
from testbed.recipe import DEFAULT_DEBIAN
from testbed.state import Bed, Host

DOUBLE = Path(__file__).resolve().parent.parent / "pbs_double"
LIBRARY = "/opt/testbed/lib"
# Of a virtual machine, which has its programs on a disk that cannot be written at that place.
OWN_LIBRARY = "/usr/local/lib/testbed"
EXEC, CLUSTER, START = "/opt/pbs", "/var/spool/pbs-cluster", "/usr/local/sbin/start-pbs"
GOOD = frozenset({"free", "job-busy", "job-exclusive"})
POLL_SECONDS = 0.2
HOME_FOLDERS = ("mom_priv/hooks/tmp", "mom_logs")

PROGRAM = """\
#!/usr/bin/python3 -IS
import os
import sys

sys.pycache_prefix = "/run/testbed/pycache"  # no call compiles what another has
os.environ["PBS_DOUBLE_HOSTS"] = {hosts!r}
os.environ["PBS_DOUBLE_LENDER"] = {lender!r}
sys.path.insert(0, {library!r})
from pbs_double.{module} import run

sys.exit(run({first!r}, {cluster!r}, sys.argv[1:]))
"""

UNIT = """\
[Unit]
Description=Portable Batch System
After=network.target

[Service]
Type=forking
ExecStart={start}
# With `process` jobs live on while MoM is started anew.
KillMode={kill}

[Install]
WantedBy=multi-user.target
"""

LENDER_UNIT = f"""\
[Unit]
Description=The state of PBS for hosts that cannot mount its folder

[Service]
ExecStart={EXEC}/sbin/pbs_lender

[Install]
WantedBy=multi-user.target
"""

SCRIPT = f"""\
#!/bin/sh -e
# At its first start a host makes its home. Output of jobs stays on it: there is no ssh from one to another.
if [ ! -e {HOME}/pbs_version ]; then
    {{root}}/libexec/pbs_habitat
    echo '$usecp *:/ /' >> {HOME}/mom_priv/config
fi
{{daemons}}
"""


def installed_for(request: Request) -> str:
    """Where the OpenPBS is that this bed can have: one server, and hosts with the libraries that it was built with."""
    fits = request.wlm == "pbs" and request.controllers == 1 and request.debian == DEFAULT_DEBIAN and not request.vm
    root = installation() if fits else None
    return str(root or "")


def make_folders(bed: Bed) -> None:
    """The state that all hosts share. Everybody may write it, as there is no server that would do so for users."""
    if bed.pbs_exec:
        return
    cluster = _folder(bed)
    cluster.mkdir()
    for host in bed.nodes:
        if host.machine:
            continue
        for part in HOME_FOLDERS:
            (cluster / "homes" / host.name / part).mkdir(parents=True)
        program = cluster / "sbin" / host.name / "pbs_python"
        program.parent.mkdir(parents=True)
        program.write_text(_program(bed, host, "pbs_python", host.name))
        program.chmod(0o755)
    # The MoMs live as long as this process of their containers.
    (cluster / "owner").write_text("1")
    (cluster / "lock").touch()
    cluster.chmod(0o777)
    (cluster / "lock").chmod(0o666)


def volumes(bed: Bed, host: Host) -> tuple[Volume, ...]:
    """What a host of the batch system mounts."""
    if bed.wlm != "pbs" or host.role == "kube" or host.machine:
        return ()
    if bed.pbs_exec:
        return (Volume(Path(bed.pbs_exec), bed.pbs_exec, read_only=True),)
    return (Volume(_folder(bed), CLUSTER), Volume(DOUBLE, f"{LIBRARY}/pbs_double", read_only=True))


def files(bed: Bed, host: Host) -> list[NodeFile]:
    """What makes `host` part of the batch system."""
    if bed.wlm != "pbs" or host.role == "kube":
        return []
    made = [NodeFile("/etc/pbs.conf", settings(bed.pbs_exec or EXEC, "ctl", serves=host.role != "node"))]
    made += [NodeFile(f"/usr/local/bin/{command}", target=f"{EXEC}/bin/{command}") for command in PROGRAMS]
    return made + (_openpbs(bed.pbs_exec, host) if bed.pbs_exec else _double(bed, host))


def _openpbs(root: str, host: Host) -> list[NodeFile]:
    is_node = host.role == "node"
    daemons = ("pbs_mom",) if is_node else ("pbs_comm", "pbs_server", "pbs_sched")
    script = SCRIPT.format(root=root, daemons="\n".join(f"{root}/sbin/{daemon}" for daemon in daemons))
    made = [NodeFile(START, script, mode=0o755), *_unit(START, kill="process" if is_node else "control-group")]
    return made if root == EXEC else [*made, NodeFile(EXEC, target=root)]


def _double(bed: Bed, host: Host) -> list[NodeFile]:
    made = [NodeFile(f"{EXEC}/bin/{name}", _program(bed, host, "double", name), mode=0o755) for name in PROGRAMS]
    if host.role == "node":
        mom = f"{EXEC}/sbin/pbs_mom"
        made += [
            NodeFile(HOME, target=f"{CLUSTER}/homes/{host.name}"),
            NodeFile(mom, _program(bed, host, "mom", host.name), mode=0o755),
            *_unit(mom, kill="process"),
        ]
    if host.machine:
        made += _own_folder(bed, host)
    elif host == bed.controllers[0] and any(node.machine for node in bed.nodes):
        lender = f"{EXEC}/sbin/pbs_lender"
        made += [
            NodeFile(lender, _program(bed, host, "lender", host.name), mode=0o755),
            NodeFile("/lib/systemd/system/pbs-lender.service", LENDER_UNIT),
            enabled("pbs-lender.service"),
        ]
    return made


def _own_folder(bed: Bed, host: Host) -> list[NodeFile]:
    """What other hosts mount, on the disk of a virtual machine."""
    made = [NodeFile(f"{CLUSTER}/homes/{host.name}/{part}") for part in HOME_FOLDERS]
    program = _program(bed, host, "pbs_python", host.name)
    made += [
        NodeFile(f"{CLUSTER}/owner", "1"),
        NodeFile(f"{CLUSTER}/sbin/{host.name}/pbs_python", program, mode=0o755),
    ]
    sources = sorted(DOUBLE.glob("*.py"))
    return made + [NodeFile(f"{OWN_LIBRARY}/{DOUBLE.name}/{path.name}", path.read_bytes()) for path in sources]


def _unit(start: str, *, kill: str) -> list[NodeFile]:
    return [NodeFile("/lib/systemd/system/pbs.service", UNIT.format(start=start, kill=kill)), enabled("pbs.service")]


def introduce_nodes(podman: Podman, bed: Bed) -> None:
    """What an administrator tells OpenPBS once; the double knows its hosts, and lets root submit."""
    for words in ("set server acl_roots = root", *(f"create node {host.name}" for host in bed.nodes)):
        if bed.pbs_exec:
            podman.exec(bed.host("ctl").container, [f"{EXEC}/bin/qmgr", "-c", words], timeout=60)


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


def _program(bed: Bed, host: Host, module: str, first: str) -> str:
    hosts = " ".join(one.name for one in (*bed.controllers[:1], *bed.nodes))
    lender = f"{bed.controllers[0].name}:{LENDER_PORT}" if host.machine else ""
    library = OWN_LIBRARY if host.machine else LIBRARY
    return PROGRAM.format(hosts=hosts, lender=lender, library=library, module=module, first=first, cluster=CLUSTER)
