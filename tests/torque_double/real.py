# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster of the Torque that is installed: a server and two execution hosts, each in namespaces of its own.

Torque is built for one place (`--prefix=/opt/torque`), but may lie elsewhere: TORQUE_EXEC names that folder, and every
host sees it at its place. Nothing of a cluster is seen from outside, and all of it ends with the process that made it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from torque_double.cluster import CALLER, CORES, HOSTS, OFTEN, PROGRAMS, SERVER, USERS, Cluster

_ADDRESSES = {SERVER: "10.98.0.1", **{host: f"10.98.0.{number}" for number, host in enumerate(HOSTS, 2)}}
EXEC, HOME = "/opt/torque", "/var/spool/torque"
SERVER_PROGRAM = "sbin/pbs_server"
_START = 120.0
_FOLDERS = (
    *("aux", "checkpoint", "spool", "undelivered", "mom_logs", "server_logs", "sched_logs", "job_logs"),
    *("mom_priv/jobs", "sched_priv/accounting", "server_priv/accounting", "server_priv/acl_svr", "server_priv/jobs"),
    *("server_priv/arrays", "server_priv/credentials", "server_priv/hostlist", "server_priv/queues"),
    *("server_priv/acl_groups", "server_priv/acl_hosts", "server_priv/acl_users", "server_priv/disallowed_types"),
)
_KEEPER = """
    set -e
    mount --make-rprivate /
    mount --bind "$1/hosts" /etc/hosts
    mount --bind "$1/passwd" /etc/passwd
    mount --bind "$1/group" /etc/group
    mkdir -p "$1/seen"
    mount --rbind "$3" "$1/seen"
    mount -t tmpfs -o mode=755 tmpfs /opt
    mkdir /opt/torque
    mount --move "$1/seen" /opt/torque
    mount -t tmpfs -o mode=755 tmpfs /var/spool
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir /run/torque-auth
    hostname "$2"
    ip link set lo up
    echo ready
    # The first process of a host takes in orphans that have ended: MoM waits for a process of a job until it is gone.
    sleep infinity & wait
"""


def place(environ: t.Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of the installed Torque; None where there is none, or where TORQUE_EXEC is empty."""
    given = environ.get("TORQUE_EXEC", EXEC)
    return Path(given) if given and (Path(given) / SERVER_PROGRAM).exists() else None


def installation() -> Path | None:
    """Return the folder of the installed Torque if this process may start it."""
    return place() if os.geteuid() == 0 else None


@contextlib.contextmanager
def started(root: Path, folder: Path) -> t.Iterator[Cluster]:
    """A cluster whose nodes are free, until it is no longer needed."""
    with contextlib.ExitStack() as stack:
        _write_names(folder)
        keepers = {host: stack.enter_context(_keeper(root, folder, host)) for host in _ADDRESSES}
        _connect(keepers)
        for host, pid in keepers.items():
            _prepare(host, pid)
        server = keepers[SERVER]
        _inside(server, ["sh", "-c", f"yes | {EXEC}/sbin/pbs_server -t create"])
        cluster = _programs(folder, keepers)
        for host in HOSTS:
            _inside(keepers[host], [f"{EXEC}/sbin/pbs_mom"])
        for command in (
            "set server scheduling = True",
            "create queue batch",
            "set queue batch queue_type = Execution",
            "set queue batch resources_default.nodes = 1",
            "set queue batch resources_default.walltime = 01:00:00",
            "set queue batch enabled = True",
            "set queue batch started = True",
            "set server default_queue = batch",
            f"set server submit_hosts = {SERVER}",
            "set server keep_completed = 300",
            # The scheduler looks at once at a job that is new, but not at a node that has become free.
            "set server scheduler_iteration = 10",
            *(f"create node {host} np={CORES}" for host in HOSTS),
        ):
            answer = cluster.call("qmgr", "-c", command)
            if answer.rc != 0:
                sys.exit(f"{command}: {answer}")
        _inside(server, [f"{EXEC}/sbin/pbs_sched"])
        _wait_until_free(cluster)
        yield cluster


def _programs(folder: Path, keepers: t.Mapping[str, int]) -> Cluster:
    """The programs as they are called on the server's host, and a way to the others."""
    cluster = Cluster(folder / "bin", folder / "on")
    server = shlex.join(_enter(keepers[SERVER]))
    as_user = f'${{{CALLER}:+setpriv --reuid "${CALLER}" --regid "${CALLER}" --init-groups}}'
    lines = {cluster.bin_dir / each: f'{server} {as_user} {EXEC}/bin/{each} "$@"' for each in (*PROGRAMS, "qterm")}
    # it stays behind, and must not keep what its caller reads
    lines[cluster.bin_dir / "pbs_server"] = f'{server} {EXEC}/sbin/pbs_server "$@" >/dev/null 2>&1 </dev/null'
    path = ["env", f"PBS_HOME={HOME}", f"PATH={EXEC}/sbin:{EXEC}/bin:{os.environ['PATH']}"]
    for host, pid in keepers.items():
        lines[cluster.host_dir / host] = f'{shlex.join([*_enter(pid), *path])} "$@"'
    for program, line in lines.items():
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\nexec {line}\n")
        program.chmod(0o755)
    return cluster


def _write_names(folder: Path) -> None:
    """Hosts and users as the cluster's hosts know them."""
    hosts = "".join(f"{address} {name}\n" for name, address in _ADDRESSES.items())
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
    users = "".join(f"{name}:x:{uid}:{uid}::/:/bin/sh\n" for name, uid in USERS.items())
    (folder / "passwd").write_text(Path("/etc/passwd").read_text() + users)
    groups = "".join(f"{name}:x:{uid}:\n" for name, uid in USERS.items())
    (folder / "group").write_text(Path("/etc/group").read_text() + groups)


@contextlib.contextmanager
def _keeper(root: Path, folder: Path, host: str) -> t.Iterator[int]:
    """The first process of a host; with it, and with the process of the tests, all others of the host end."""
    namespaces = ["--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    inner = ["sh", "-c", _KEEPER, "sh", str(folder), host, str(root)]
    argv = ["setpriv", "--pdeathsig", "KILL", "unshare", *namespaces, *inner]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                sys.exit(f"the namespaces of {host} cannot be made")
            yield int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        finally:
            process.kill()


def _connect(keepers: t.Mapping[str, int]) -> None:
    """A bridge in the server's namespace, with a leg in each other."""
    server = ["nsenter", "-t", str(keepers[SERVER]), "-n", "ip"]
    _run([*server, "link", "add", "bridge", "type", "bridge"])
    _run([*server, "addr", "add", f"{_ADDRESSES[SERVER]}/24", "dev", "bridge"])
    _run([*server, "link", "set", "bridge", "up"])
    for number, host in enumerate(HOSTS):
        leg, pid = f"leg{number}", str(keepers[host])
        _run([*server, "link", "add", leg, "type", "veth", "peer", "name", "eth0", "netns", pid])
        _run([*server, "link", "set", leg, "master", "bridge", "up"])
        inside = ["nsenter", "-t", pid, "-n", "ip"]
        _run([*inside, "addr", "add", f"{_ADDRESSES[host]}/24", "dev", "eth0"])
        _run([*inside, "link", "set", "eth0", "up"])


def _prepare(host: str, pid: int) -> None:
    """The home that an installation would have, and the daemon by which every program says its user."""
    lines = [f"mkdir -p -m 755 {HOME}", f"cd {HOME}"]
    lines += [f"mkdir -p {folder}" for folder in _FOLDERS]
    lines += ["chmod 1777 spool undelivered", "chmod 751 mom_priv mom_priv/jobs", f"echo {SERVER} > server_name"]
    lines += ["printf 'PATH=/bin:/usr/bin\\nLANG=C\\n' > pbs_environment"]
    if host != SERVER:
        lines += [f"printf '%s\\n' '$usecp *:/ /' '$pbsserver {SERVER}' '$loglevel 7' '{OFTEN}' > mom_priv/config"]
    else:
        lines += [f"cp -a {EXEC}/share/sched_priv/. sched_priv/ 2>/dev/null || true"]
    _inside(pid, ["sh", "-ec", "\n".join([*lines, f"{EXEC}/sbin/trqauthd"])])


def _enter(pid: int) -> list[str]:
    return ["nsenter", "-t", str(pid), "--net", "--uts", "--ipc", "--mount", "--pid", "--"]


def _inside(pid: int, argv: list[str]) -> None:
    _run([*_enter(pid), *argv])


def _wait_until_free(cluster: Cluster) -> None:
    deadline = time.monotonic() + _START
    while cluster.call("pbsnodes", "-x").out.count("<state>free</state>") < len(HOSTS):
        if time.monotonic() > deadline:
            sys.exit(f"nodes are not free after {_START:g} s:\n{cluster.call('pbsnodes').out}")
        time.sleep(0.5)


def _run(argv: list[str]) -> None:
    with open(os.devnull, "wb") as null:
        done = subprocess.run(argv, stdout=null, stderr=subprocess.PIPE, stdin=null, timeout=_START, check=False)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(argv)}: {done.returncode}: {done.stderr.decode()}")
