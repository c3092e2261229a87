# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a double of a PBS cluster: a folder of programs that share one state, and a MoM for each execution host."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import time
import typing as t
from pathlib import Path

from pbs_double import control, homes, jobs, pbsnodes, qmgr, schedule, transitions
from pbs_double.cluster import HOSTS, PROGRAMS, SERVER_PROGRAMS, Cluster
from pbs_double.state import Job, Refused, State, opened

_PROGRAM = """\
#!{python} -IS
import sys
sys.pycache_prefix = {folder!r} + "/pycache"  # no call compiles what another has
sys.path.insert(0, {tests!r})
from pbs_double.{module} import run
sys.exit(run({first!r}, {folder!r}, sys.argv[1:]))
"""
_ON_HOST = """\
#!/bin/sh
export PBS_HOME='{home}' PATH='{sbin}:{bin}':"$PATH"
exec "$@"
"""
_MAIN = {
    "qsub": jobs.qsub,
    "qstat": jobs.qstat,
    "qmgr": qmgr.main,
    "pbsnodes": pbsnodes.main,
    "qdel": control.qdel,
    "qhold": control.qhold,
    "qrls": control.qrls,
    "qsig": control.qsig,
    "qrerun": control.qrerun,
    "pbs_release_nodes": control.pbs_release_nodes,
    "qterm": control.qterm,
    "pbs_server": control.pbs_server,
}


@contextlib.contextmanager
def started(folder: Path) -> t.Iterator[Cluster]:
    """A new cluster whose nodes are free; its MoMs end with it, and with the process that made it."""
    from pbs_double.inside import answered  # here, because a command of the double does not need it

    cluster = Cluster(folder / "bin", folder / "on", functools.partial(answered, run, str(folder)))
    (folder / "owner").write_text(str(os.getpid()))
    for program in (*PROGRAMS, *SERVER_PROGRAMS):
        _write_program(cluster.bin_dir / program, "double", program, folder)
    for host in HOSTS:
        for part in ("mom_priv/hooks/tmp", "mom_logs"):
            (homes.home(folder, host) / part).mkdir(parents=True)
        sbin = folder / "sbin" / host
        for program in ("mom", "python"):
            _write_program(sbin / f"pbs_{program}", "mom" if program == "mom" else "pbs_python", host, folder)
        _write(cluster.host_dir / host, _ON_HOST.format(home=homes.home(folder, host), sbin=sbin, bin=cluster.bin_dir))
    try:
        for host in HOSTS:
            assert cluster.on(host, "pbs_mom").rc == 0
        yield cluster
    finally:
        for host in HOSTS:
            if homes.lock_of(folder, host).exists() and homes.mom_runs(folder, host):
                os.killpg(int(homes.lock_of(folder, host).read_text()), signal.SIGKILL)


def run(program: str, folder: str, arguments: list[str]) -> int:
    """One command."""
    sys.setrecursionlimit(10_000)  # JSON within JSON may be as deep as PBS has it
    if program == "qdel":
        # the MoM answers nothing while it runs hooks of a job that begins
        _wait(Path(folder), arguments, lambda _state, job: job.after == "begun")
    with opened(Path(folder)) as state:
        if time.time() >= state.server_hangs_from:
            state.server_is_down = True
        if state.server_is_down and program != "pbs_server":
            return control.unreachable(program, arguments)
        schedule.advance(state, time.time())
        status = _MAIN[program](state, arguments)
        schedule.advance(state, time.time())
        sys.stdout.flush()
    if program == "qdel":
        # nor does it say that it has heard of this before its own preterm hooks have run
        _wait(Path(folder), arguments, transitions.hears_of_end)
    if program == "qrerun":
        _wait(Path(folder), arguments, lambda _state, job: job.after == "queued")
    return status


def _wait(folder: Path, words: list[str], under_way: t.Callable[[State, Job], bool]) -> None:
    while True:
        with opened(folder) as state:
            schedule.advance(state, time.time())
            named = [job for word in words for job in _meant(state, word)]
            if not any(under_way(state, job) and not set(job.hosts) & state.down for job in named):
                return
        time.sleep(0.05)


def _meant(state: State, word: str) -> list[Job]:
    try:
        job = jobs.found_job(state, word)
    except Refused:  # the command has said so, or this is an option
        return []
    return [job, *jobs.parts_of(state, job)]


def _write_program(path: Path, module: str, first: str, folder: Path) -> None:
    tests = str(Path(__file__).resolve().parents[1])
    _write(path, _PROGRAM.format(python=sys.executable, tests=tests, module=module, first=first, folder=str(folder)))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
