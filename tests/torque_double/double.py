# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a double of a Torque cluster: a folder of programs that share one state, and a MoM for each execution host."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import time
import typing as t
from pathlib import Path

from torque_double import control, pbsnodes, qmgr, qstat, qsub, schedule, sessions
from torque_double.cluster import HOSTS, OFTEN, PROGRAMS, SERVER, SERVER_PROGRAMS, Cluster
from torque_double.state import opened

_PROGRAM = """\
#!{python} -IS
import sys
sys.pycache_prefix = {folder!r} + "/pycache"  # no call compiles what another has
sys.path.insert(0, {tests!r})
from torque_double.{module} import {function}
sys.exit({function}({first!r}, {folder!r}, sys.argv[1:]))
"""
_ON_HOST = """\
#!/bin/sh
export PBS_HOME='{home}' TORQUE_DOUBLE_HOST='{host}' PATH='{sbin}:{bin}':"$PATH"
exec "$@"
"""
_MAIN: dict[str, t.Callable[..., int]] = {
    "qsub": qsub.main,
    "qstat": qstat.main,
    "qmgr": qmgr.main,
    "pbsnodes": pbsnodes.main,
    "qdel": control.qdel,
    "qhold": control.qhold,
    "qrls": control.qrls,
    "qsig": control.qsig,
    "qrerun": control.qrerun,
    "qalter": control.qalter,
    "qterm": control.qterm,
    "pbs_server": control.pbs_server,
}
_DELETION_WAITS = 5.0


@contextlib.contextmanager
def started(folder: Path) -> t.Iterator[Cluster]:
    """A new cluster whose nodes are free; its MoMs and jobs end with it, and with the process that made it."""
    from pbs_double.inside import answered  # here, because a command of the double does not need it

    cluster = Cluster(folder / "bin", folder / "on", functools.partial(answered, run, str(folder)))
    (folder / "owner").write_text(str(os.getpid()))
    for program in (*PROGRAMS, *SERVER_PROGRAMS):
        _write_program(cluster.bin_dir / program, "double", "run", program, str(folder))
    for host in HOSTS:
        home = home_of(folder, host)
        (home / "mom_priv").mkdir(parents=True)
        (home / "mom_priv/config").write_text(f"$usecp *:/ /\n$pbsserver {SERVER}\n{OFTEN}\n")
        sbin = folder / "sbin" / host
        _write_program(sbin / "pbs_mom", "double", "run_mom", host, str(folder))
        _write_program(sbin / "momctl", "double", "run_momctl", host, str(folder))
        _write(cluster.host_dir / host, _ON_HOST.format(home=home, host=host, sbin=sbin, bin=cluster.bin_dir))
    try:
        for host in HOSTS:
            assert cluster.on(host, "pbs_mom").rc == 0
        yield cluster
    finally:
        with opened(folder) as state:
            (folder / "owner").write_text("gone")
            left = {number for job in state.jobs.values() for number in (job.session, job.watcher) if number}
        for host in HOSTS:
            lock = home_of(folder, host) / "mom_priv/mom.lock"
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(lock.read_text()), signal.SIGKILL)
        for session in left:
            sessions.end(session)


def home_of(folder: Path, host: str) -> Path:
    """The folder of a host's MoM."""
    return folder / "homes" / host


def run_mom(host: str, folder: str, arguments: list[str]) -> int:
    """`pbs_mom` of a cluster that was started here."""
    from torque_double import mom

    return mom.run(host, str(home_of(Path(folder), host)), folder, arguments)


def run_momctl(host: str, folder: str, arguments: list[str]) -> int:
    """`momctl` of a cluster that was started here."""
    from torque_double import momctl

    return momctl.control(host, str(home_of(Path(folder), host)), folder, arguments)


def run(program: str, folder: str, arguments: list[str]) -> int:
    """One command."""
    with opened(Path(folder)) as state:
        if state.server_is_down and program != "pbs_server":
            return control.unreachable(program)
        schedule.advance(state, time.time())
        status = _MAIN[program](state, arguments)
        schedule.advance(state, time.time())
        sys.stdout.flush()
    if program == "qdel" and status == 0:
        _await_deletion(Path(folder), arguments)
    return status


def _await_deletion(folder: Path, words: list[str]) -> None:
    """While a job's prologue runs, its deletion is waited for some seconds."""
    deadline = time.monotonic() + _DELETION_WAITS
    while time.monotonic() < deadline:
        with opened(folder) as state:
            named = [job for job in state.jobs.values() if job.id in words or str(job.number) in words]
            if not any(job.stage == "begin" and job.deleted for job in named):
                return
        time.sleep(0.1)


def _write_program(path: Path, module: str, function: str, first: str, folder: str) -> None:
    tests = str(Path(__file__).resolve().parents[1])
    values = {"python": sys.executable, "tests": tests, "module": module, "function": function, "first": first}
    _write(path, _PROGRAM.format(**values, folder=folder))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
