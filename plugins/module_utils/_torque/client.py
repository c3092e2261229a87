# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands to Torque that the collection gives, one method each; their answers are read in `parse`.

The language of qmgr is that of PBS, and so are attributes of a server: both are those of ``_pbs``.

PRIVATE to the collection.
"""

from __future__ import annotations

import os
import shutil
import typing as t

from .. import _command
from .._pbs.commands import Commands
from .._pbs.errors import NoAnswerError, SpecError
from . import parse

BIN_DIR = "/usr/local/bin"
HOME = "/var/spool/torque"
# Where an administrator's own build lies, beside the search path.
_FOLDERS = ("/usr/local/bin", "/opt/torque/bin", "/usr/bin")
_MOST_NOTE = 250


def bin_dir(given: str | None) -> str:
    """Return the folder of Torque's programs: the given one, else the first here that has them."""
    if given:
        return given
    found = shutil.which("pbsnodes", path=os.pathsep.join([os.environ.get("PATH", ""), *_FOLDERS]))
    return os.path.dirname(found) if found else BIN_DIR


class Torque(Commands):
    """The default server of the host, through the programs of Torque."""

    usual_bin_dir = BIN_DIR

    def server_host(self) -> str:
        """Name of the server's host, as the server itself has it."""
        for line in self._ask("qmgr", "-c", "list server").splitlines():
            kind, _blank, name = line.partition(" ")
            if kind == "Server" and name.strip():
                return name.strip()
        raise NoAnswerError("qmgr -c 'list server' listed no server")

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

    def _mark(self, words: t.Sequence[str], names: t.Sequence[str]) -> list[_command.Completed]:
        """Set a mark of nodes. pbsnodes ends with 0 whatever it did: a line on its other output is a refusal."""
        if not all(len(word) <= _MOST_NOTE for word in words):
            raise SpecError(f"the note of a node is printable text on one line, of at most {_MOST_NOTE} characters")
        answers = super()._mark(words, names)
        for answer in answers:
            if answer.err.strip():
                raise NoAnswerError(f"pbsnodes {words[0]}: {_command.last_line(answer.err)}")
        return answers
