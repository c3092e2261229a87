# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands to PBS that the collection gives, one method each; their answers are read in `parse` and `qmgr`.

PRIVATE to the collection.
"""

from __future__ import annotations

import json
import typing as t

from .. import _command
from . import parse, qmgr
from .commands import Commands
from .errors import NoAnswerError

CONTENT = "application/x-python"
CONFIG = "application/x-config"
CGROUPS = "pbs_cgroups"  # which PBS brings
# qstat prints times in the zone of who asks.
_UTC = ("env", "TZ=UTC0")


class Pbs(Commands):
    """The default server of the host, through the programs of OpenPBS."""

    usual_bin_dir = "/opt/pbs/bin"

    def server(self) -> tuple[str, dict[str, str]]:
        """Name of the server and everything it says of itself."""
        found = qmgr.listed(self._ask("qmgr", "-c", "list server"))
        for (kind, name), attributes in found.items():
            if kind == "server":
                return name, attributes
        raise NoAnswerError("qmgr -c 'list server' listed no server")

    def hooks(self) -> dict[str, dict[str, str]]:
        """Return the site's hooks with their attributes."""
        answer = self._answer("qmgr", "-c", "list hook")
        if answer.err.strip():  # without the right to see them, qmgr says so and exits with 0
            raise NoAnswerError(f"qmgr -c 'list hook': {_command.last_line(answer.err)}")
        return {name: attributes for (_kind, name), attributes in qmgr.listed(answer.out).items()}

    def cgroups(self) -> dict[str, t.Any]:
        """Return what PBS's own hook of cgroups is configured to do; empty where it cannot be told."""
        if CGROUPS not in self.hooks():
            return {}
        try:
            found = json.loads(self.stored(CGROUPS, CONFIG))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def stored(self, hook: str, kind: str) -> str:
        """Return the very text that a hook has as its content or configuration; empty where there is none."""
        return self._ask("qmgr", "-c", f"export hook {qmgr.checked_name('hook', hook)} {kind} default")

    def store(self, hook: str, kind: str, text: str) -> None:
        """Replace a text of a hook. PBS compiles a content, and keeps the old one where that fails."""
        self._ask("qmgr", "-c", f"import hook {qmgr.checked_name('hook', hook)} {kind} default -", text=text)

    def queues(self) -> list[parse.Queue]:
        return parse.queues(self._ask("qstat", "-Q", "-f", "-F", "json"))

    def server_host(self) -> str:
        return parse.server_host(self._ask("qstat", "-B", "-f", "-F", "json"))

    def nodes(self) -> list[parse.Node]:
        return parse.nodes(self._ask("pbsnodes", "-av", "-F", "json"))

    def offline(self, names: t.Sequence[str], comment: str) -> None:
        self._mark(["-o", "-C", comment], names)

    def online(self, names: t.Sequence[str]) -> None:
        """Take the mark and its comment away; a node that is down stays down."""
        self._mark(["-r", "-C", ""], names)

    def explain(self, names: t.Sequence[str], comment: str) -> None:
        """Change the comment and nothing else."""
        self._mark(["-C", comment], names)

    def jobs(self) -> list[parse.Job]:
        """Return all jobs that have not ended, sub-jobs of arrays one by one beside their parents."""
        return parse.jobs(self._ask("qstat", "-t", "-f", "-F", "json", env=_UTC))
