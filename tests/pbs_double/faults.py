# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults between whoever calls and a cluster: programs that hang, fail, lose their answer or cut it short."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from pbs_double.cluster import PROGRAMS, Cluster

# Without a fault no interpreter starts: most calls are such calls.
_PROGRAM = """\
#!/bin/sh
[ -e {fault} ] || exec {program} "$@"
exec {python} -IBS -c 'import sys; sys.path.insert(0, sys.argv[1]); from pbs_double.faults import run
sys.exit(run(*sys.argv[2:4], sys.argv[4:]))' {tests} {program} {fault} "$@"
"""


@dataclass(frozen=True, slots=True)
class Fault:
    """What a program does instead of its work, or with ``acts`` after it."""

    hang: float = 0.0
    status: int = 0
    said: str = ""
    acts: bool = False
    cut: int | None = None  # only so many bytes of the answer come, as if all were well


class Faulty:
    """A cluster through programs that can be made to fail."""

    def __init__(self, behind: Cluster, folder: Path) -> None:
        self.cluster = Cluster(folder / "bin", behind.host_dir)
        self._folder = folder
        tests = str(Path(__file__).resolve().parents[1])
        (folder / "bin").mkdir()
        for name in PROGRAMS:
            values = {"python": sys.executable, "tests": tests, "fault": str(folder / f"{name}.fault")}
            values["program"] = str(behind.bin_dir / name)
            path = folder / "bin" / name
            path.write_text(_PROGRAM.format(**{key: shlex.quote(value) for key, value in values.items()}))
            path.chmod(0o755)

    def set(self, program: str, fault: Fault) -> None:
        """From now on, until it is healed."""
        new = self._folder / f"{program}.new"
        new.write_text(json.dumps(asdict(fault)))
        new.replace(self._folder / f"{program}.fault")

    def heal(self, program: str) -> None:
        """It works again."""
        (self._folder / f"{program}.fault").unlink()


def run(program: str, fault_path: str, arguments: list[str]) -> int:
    """One command, with the fault that is set at its start."""
    try:
        fault = Fault(**json.loads(Path(fault_path).read_text()))
    except FileNotFoundError:
        os.execv(program, [program, *arguments])
    if fault.acts or fault.cut is not None:
        # the caller's own time limit ends both
        done = subprocess.run([program, *arguments], capture_output=True, check=False)
        if fault.cut is not None:
            sys.stdout.buffer.write(done.stdout[: fault.cut])
            return done.returncode
    time.sleep(fault.hang)
    sys.stderr.write(fault.said)
    return fault.status
