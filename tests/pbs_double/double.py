# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a double of a PBS cluster: a folder of programs that share one state."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pbs_double import jobs, pbsnodes, qmgr, schedule
from pbs_double.cluster import PROGRAMS, Cluster
from pbs_double.state import opened

_PROGRAM = """\
#!{python} -IS
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, {tests!r})
from pbs_double.double import run
sys.exit(run({program!r}, {state!r}, sys.argv[1:]))
"""
_MAIN = {"qsub": jobs.qsub, "qdel": jobs.qdel, "qstat": jobs.qstat, "qmgr": qmgr.main, "pbsnodes": pbsnodes.main}


def made(folder: Path) -> Cluster:
    """The programs of a new cluster whose nodes are free."""
    (folder / "bin").mkdir()
    tests = str(Path(__file__).resolve().parents[1])
    for program in PROGRAMS:
        path = folder / "bin" / program
        values = {"python": sys.executable, "tests": tests, "program": program, "state": str(folder / "state")}
        path.write_text(_PROGRAM.format(**values))
        path.chmod(0o755)
    return Cluster(folder / "bin")


def run(program: str, state_path: str, arguments: list[str]) -> int:
    """One command."""
    with opened(Path(state_path)) as state:
        schedule.advance(state, time.time())
        status = _MAIN[program](state, arguments)
        schedule.advance(state, time.time())
        sys.stdout.flush()
        return status
