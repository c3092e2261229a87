# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster of the OpenPBS that is installed: a server and two execution hosts, each in namespaces of its own.

Every host is a process that keeps a network, a host name and a mount namespace; the server's holds the bridge. Nothing
of this is seen from outside, and all of it ends with these processes.
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

from pbs_double.cluster import CALLER, HOSTS, PROGRAMS, SERVER, Cluster

_ADDRESSES = {SERVER: "10.99.0.1", **{host: f"10.99.0.{number}" for number, host in enumerate(HOSTS, 2)}}
# PBS wants a home below folders that only root writes; every host has a file system of its own there.
HOME = "/var/spool/pbs"
SERVER_PROGRAM = "sbin/pbs_server"
_CONF = "/var/spool/pbs.conf"
_START = 120.0


def settings(root: str | Path, server: str, *, serves: bool) -> str:
    """pbs.conf of the server's host, or of one with a MoM. Times in logs are exact, so that they can be measured."""
    lines = [f"PBS_EXEC={root}", f"PBS_HOME={HOME}", f"PBS_SERVER={server}"]
    lines += [f"PBS_START_{daemon}={int(serves)}" for daemon in ("SERVER", "SCHED", "COMM")]
    lines += [f"PBS_START_MOM={int(not serves)}", "PBS_CORE_LIMIT=0", "PBS_LOG_HIGHRES_TIMESTAMP=1"]
    return "\n".join(lines) + "\n"


def place(environ: t.Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of the installed OpenPBS; None where there is none, or where PBS_EXEC is empty."""
    given = environ.get("PBS_EXEC", "/opt/pbs")
    return Path(given) if given and (Path(given) / SERVER_PROGRAM).exists() else None


def installation() -> Path | None:
    """Return the folder of the installed OpenPBS if this process may start it."""
    return place() if os.geteuid() == 0 else None


@contextlib.contextmanager
def started(root: Path, folder: Path) -> t.Iterator[Cluster]:
    """A cluster whose nodes are free, until it is no longer needed."""
    with contextlib.ExitStack() as stack:
        keepers = {host: stack.enter_context(_keeper(folder, host)) for host in _ADDRESSES}
        _connect(keepers)
        for host, pid in keepers.items():
            _prepare(root, folder, host, pid)
            _inside(pid, [f"{root}/libexec/pbs_habitat"])
        for host in HOSTS:
            # output stays on the host: there is no ssh between them
            _inside(keepers[host], ["sh", "-c", f"echo '$usecp *:/ /' >> {HOME}/mom_priv/config"])
            _inside(keepers[host], [f"{root}/sbin/pbs_mom"])
        for daemon in ("pbs_comm", "pbs_server", "pbs_sched"):
            _inside(keepers[SERVER], [f"{root}/sbin/{daemon}"])
        cluster = _programs(root, folder, keepers)
        for host in HOSTS:
            cluster.call("qmgr", "-c", f"create node {host}")
        cluster.call("qmgr", "-c", "set server acl_roots = root")
        _wait_until_free(cluster)
        yield cluster


def _programs(root: Path, folder: Path, keepers: t.Mapping[str, int]) -> Cluster:
    """The programs as they are called on the server's host, and a way to the others."""
    cluster = Cluster(folder / "bin", folder / "on")
    server = shlex.join(_enter(keepers[SERVER]))
    as_user = f'${{{CALLER}:+setpriv --reuid "${CALLER}" --regid "${CALLER}" --init-groups}}'
    lines = {cluster.bin_dir / each: f'{server} {as_user} {root}/bin/{each} "$@"' for each in (*PROGRAMS, "qterm")}
    # it stays behind, and must not keep what its caller reads
    lines[cluster.bin_dir / "pbs_server"] = f'{server} {root}/sbin/pbs_server "$@" >/dev/null 2>&1 </dev/null'
    path = ["env", f"PBS_HOME={HOME}", f"PATH={root}/sbin:{root}/bin:{os.environ['PATH']}"]
    for host, pid in keepers.items():
        lines[cluster.host_dir / host] = f'{shlex.join([*_enter(pid), *path])} "$@"'
    for program, line in lines.items():
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\nexec {line}\n")
        program.chmod(0o755)
    return cluster


@contextlib.contextmanager
def _keeper(folder: Path, host: str) -> t.Iterator[int]:
    """The first process of a host; with it, and with whoever runs the tests, all others of the host end."""
    inner = """
        set -e
        mount --make-rprivate /
        mount --bind "$1/hosts" /etc/hosts
        mount -t tmpfs -o mode=755 tmpfs /var/spool
        hostname "$2"
        ip link set lo up
        echo ready
        exec sleep infinity
    """
    lines = [f"{address} {name}\n" for name, address in _ADDRESSES.items()]
    (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(lines))
    namespaces = ["--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    argv = ["setpriv", "--pdeathsig", "KILL", "unshare", *namespaces, "sh", "-c", inner, "sh", str(folder), host]
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
        leg = f"leg{number}"
        pid = str(keepers[host])
        _run([*server, "link", "add", leg, "type", "veth", "peer", "name", "eth0", "netns", pid])
        _run([*server, "link", "set", leg, "master", "bridge", "up"])
        inside = ["nsenter", "-t", pid, "-n", "ip"]
        _run([*inside, "addr", "add", f"{_ADDRESSES[host]}/24", "dev", "eth0"])
        _run([*inside, "link", "set", "eth0", "up"])


def _prepare(root: Path, folder: Path, host: str, pid: int) -> None:
    """Users read it too, who may not look into the tests' folder."""
    (folder / f"{host}.conf").write_text(settings(root, SERVER, serves=host == SERVER))
    _inside(pid, ["install", "-m", "644", f"{folder}/{host}.conf", _CONF])


def _enter(pid: int) -> list[str]:
    return [
        "env",
        f"PBS_CONF_FILE={_CONF}",
        *("nsenter", "-t", str(pid), "--net", "--uts", "--ipc", "--mount", "--pid", "--"),
    ]


def _inside(pid: int, argv: list[str]) -> None:
    _run([*_enter(pid), *argv])


def _wait_until_free(cluster: Cluster) -> None:
    deadline = time.monotonic() + _START
    while cluster.call("pbsnodes", "-av").out.count("state = free") < len(HOSTS):
        if time.monotonic() > deadline:
            sys.exit(f"nodes are not free after {_START:g} s:\n{cluster.call('pbsnodes', '-av').out}")
        time.sleep(0.5)


def _run(argv: list[str]) -> None:
    with open(os.devnull, "wb") as null:
        done = subprocess.run(argv, stdout=null, stderr=subprocess.PIPE, stdin=null, timeout=_START, check=False)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(argv)}: {done.returncode}: {done.stderr.decode()}")
