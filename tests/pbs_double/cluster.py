# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster as tests see it, whatever is behind it: a folder of programs, a server and two execution hosts."""

from __future__ import annotations

import os
import time
import typing as t
from dataclasses import dataclass
from pathlib import Path

SERVER, *HOSTS = os.environ.get("PBS_DOUBLE_HOSTS", "pbs-srv pbs-n1 pbs-n2").split()
CALLER = "PBS_TEST_CALLER"  # who calls a program, where it is not root
PROGRAMS = ("qsub", "qstat", "qdel", "qhold", "qrls", "qsig", "qrerun", "qmgr", "pbsnodes", "pbs_release_nodes")
SERVER_PROGRAMS = ("qterm", "pbs_server")
IN_PROCESS = ("qstat", "pbsnodes", "qmgr")  # tests call them again and again, and they wait for no MoM


class Answer(t.NamedTuple):
    """What a program said."""

    rc: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """Programs that reach one server, as root where nobody else is named, and a way to each execution host.

    ``inside`` runs a command without its program, where there is such a way.
    """

    bin_dir: Path
    host_dir: Path
    inside: t.Callable[[str, t.Sequence[str]], Answer] | None = None

    def call(self, program: str, *words: str, text: str = "", user: str = "") -> Answer:
        """One command; nothing is judged."""
        if self.inside and program in IN_PROCESS and words and not (text or user):
            return self.inside(program, words)
        return _answer([str(self.bin_dir / program), *words], text, user)

    def on(self, host: str, script: str) -> Answer:
        """A shell script on an execution host, where $PBS_HOME is its MoM's."""
        return _answer([str(self.host_dir / host), "sh", "-c", script])


def _answer(argv: list[str], text: str = "", user: str = "") -> Answer:
    import subprocess  # here, because a command of the double needs only the names above

    env = {**os.environ, **({CALLER: user} if user else {})}
    done = subprocess.run(argv, input=text.encode(), capture_output=True, timeout=300, check=False, env=env)
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def until(question: t.Callable[[], t.Any]) -> t.Any:
    """The first answer that is true; five minutes are enough on a busy machine."""
    deadline = time.monotonic() + 300
    while not (found := question()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return found
