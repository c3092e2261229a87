# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands to PBS that the collection gives, one method each; their answers are read in `answers` and `qmgr`.

PRIVATE to the collection.
"""

from __future__ import annotations

import json
import shlex
import typing as t

from .. import _command
from . import parse, qmgr
from .errors import NoAnswerError, SpecError

BIN_DIR = "/opt/pbs/bin"
# As the doc fragments _pbs and _torque have it.
ARGUMENT_SPEC: t.Dict[str, t.Any] = {
    "bin_dir": {"type": "path"},
    "timeout": {"type": "int", "default": 60},
}
TIMEOUT = 60.0
CONTENT = "application/x-python"
CONFIG = "application/x-config"
CGROUPS = "pbs_cgroups"  # which PBS brings
# qstat prints times in the zone of who asks.
_UTC = ("env", "TZ=UTC0")
_LONGEST = 100  # nodes named in one command


class Runner(t.Protocol):
    """`_command.run`, or a test's double of it."""

    def __call__(
        self, argv: t.Sequence[str], *, timeout: float, ok: t.Container[int] = (0,), text: str | None = None
    ) -> _command.Completed: ...


class Pbs:
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

    def server(self) -> tuple[str, dict[str, str]]:
        """Name of the server and everything it says of itself."""
        found = qmgr.listed(self._ask("qmgr", "-c", "list server"))
        for (kind, name), attributes in found.items():
            if kind == "server":
                return name, attributes
        raise NoAnswerError("qmgr -c 'list server' listed no server")

    def settings(self) -> dict[qmgr.Key, qmgr.Attributes]:
        """Return what can be set of the server (named "") and of its queues."""
        found = qmgr.printed(self._ask("qmgr", "-c", "print server"))
        if ("server", "") not in found:
            raise NoAnswerError("qmgr -c 'print server' printed nothing about the server")
        return found

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

    def manage(self, command: str) -> None:
        """Give qmgr one command that changes something."""
        self._ask("qmgr", "-c", command)

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

    def _mark(self, words: t.Sequence[str], names: t.Sequence[str]) -> None:
        for name in names:
            qmgr.checked_name("node", name)
        if not all(word.isprintable() for word in words):
            raise SpecError("the comment of a node is printable text on one line")
        for first in range(0, len(names), _LONGEST):
            self._ask("pbsnodes", *words, *names[first : first + _LONGEST])

    def _ask(self, program: str, *words: str, text: str | None = None, env: t.Sequence[str] = ()) -> str:
        return self._answer(program, *words, text=text, env=env).out

    def _answer(
        self, program: str, *words: str, text: str | None = None, env: t.Sequence[str] = ()
    ) -> _command.Completed:
        argv = (*self._prefix, *env, f"{self._bin_dir}/{program}", *words)
        try:
            answer = self._run(argv, timeout=self._timeout, ok=range(256), text=text)
        except _command.CommandError as error:
            raise NoAnswerError(str(error)) from error
        if answer.rc != 0:  # the reason stands in the first line, its number in the last
            reason = "; ".join(answer.err.split("\n")).strip("; ") or "it printed nothing"
            raise NoAnswerError(f"{shlex.join(argv)}: exit status {answer.rc}: {reason}")
        return answer
