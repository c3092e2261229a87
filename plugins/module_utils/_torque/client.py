# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands to Torque that the collection gives, one method each; their answers are read in `answers`.

The language of qmgr is that of PBS, and so are attributes of a server: both are those of ``_pbs``.

PRIVATE to the collection.
"""

from __future__ import annotations

import os
import shlex
import shutil
import typing as t

from .. import _command
from .._pbs import qmgr
from .._pbs.client import TIMEOUT, Runner
from .._pbs.errors import NoAnswerError, SpecError
from . import parse

BIN_DIR = "/usr/local/bin"
HOME = "/var/spool/torque"
# Where an administrator's own build lies, beside the search path.
_FOLDERS = ("/usr/local/bin", "/opt/torque/bin", "/usr/bin")
_LONGEST = 100  # nodes named in one command
_MOST_NOTE = 250


def bin_dir(given: str | None) -> str:
    """Return the folder of Torque's programs: the given one, else the first here that has them."""
    if given:
        return given
    found = shutil.which("pbsnodes", path=os.pathsep.join([os.environ.get("PATH", ""), *_FOLDERS]))
    return os.path.dirname(found) if found else BIN_DIR


class Torque:
    """The default server of the host, through the programs in ``bin_dir``; ``prefix`` may be a way to another host."""

    def __init__(
        self,
        *,
        run: Runner = _command.run,
        prefix: t.Sequence[str] = (),
        bin_dir: str = BIN_DIR,
        timeout: float = TIMEOUT,
    ) -> None:
        self._run = run
        self._prefix = tuple(prefix)
        self._bin_dir = bin_dir
        self._timeout = timeout

    def server_host(self) -> str:
        """Name of the server's host, as the server itself has it."""
        for line in self._ask("qmgr", "-c", "list server").splitlines():
            kind, _blank, name = line.partition(" ")
            if kind == "Server" and name.strip():
                return name.strip()
        raise NoAnswerError("qmgr -c 'list server' listed no server")

    def settings(self) -> dict[qmgr.Key, qmgr.Attributes]:
        """Return what can be set of the server (named "") and of its queues."""
        found = qmgr.printed(self._ask("qmgr", "-c", "print server"))
        if ("server", "") not in found:
            raise NoAnswerError("qmgr -c 'print server' printed nothing about the server")
        return found

    def manage(self, command: str) -> None:
        """Give qmgr one command that changes something."""
        self._ask("qmgr", "-c", command)

    def nodes(self) -> list[parse.Node]:
        return parse.nodes(self._ask("pbsnodes", "-x"))

    def jobs(self) -> list[parse.Job]:
        """Return jobs that this user may see; all of them for an operator, or with query_other_jobs at the server."""
        return parse.jobs(self._ask("qstat", "-t", "-x"))

    def offline(self, names: t.Sequence[str], note: str) -> None:
        """Mark nodes and give them a note."""
        self._mark(["-o", "-N", note], names)

    def online(self, names: t.Sequence[str]) -> None:
        """Take the mark and its note away; a node that is down stays down."""
        self._mark(["-c", "-N", "n"], names)

    def explain(self, names: t.Sequence[str], note: str) -> None:
        """Change the note and nothing else."""
        self._mark(["-N", note], names)

    def _mark(self, words: t.Sequence[str], names: t.Sequence[str]) -> None:
        """Set a mark of nodes. pbsnodes ends with 0 whatever it did: a line on its other output is a refusal."""
        for name in names:
            qmgr.checked_name("node", name)
        if not all(word.isprintable() and len(word) <= _MOST_NOTE for word in words):
            raise SpecError(f"the note of a node is printable text on one line, of at most {_MOST_NOTE} characters")
        for first in range(0, len(names), _LONGEST):
            answer = self._answer("pbsnodes", *words, *names[first : first + _LONGEST])
            if answer.err.strip():
                raise NoAnswerError(f"pbsnodes {words[0]}: {_command.last_line(answer.err)}")

    def _ask(self, program: str, *words: str) -> str:
        return self._answer(program, *words).out

    def _answer(self, program: str, *words: str) -> _command.Completed:
        argv = (*self._prefix, f"{self._bin_dir}/{program}", *words)
        try:
            answer = self._run(argv, timeout=self._timeout, ok=range(256))
        except _command.CommandError as error:
            raise NoAnswerError(str(error)) from error
        if answer.rc != 0:
            reason = "; ".join(line.strip() for line in answer.err.splitlines() if line.strip()) or "it printed nothing"
            raise NoAnswerError(f"{shlex.join(argv)}: exit status {answer.rc}: {reason}")
        return answer
