# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give commands to the programs that PBS and Torque have in common, and judge how they end.

Both have qmgr with one language, and pbsnodes that takes a mark and nodes. The clients of either add what is theirs.

PRIVATE to the collection.
"""

from __future__ import annotations

import shlex
import typing as t

from .. import _command
from . import attributes, qmgr
from .errors import NoAnswerError, SpecError

# As the doc fragments _pbs and _torque have it.
ARGUMENT_SPEC: t.Dict[str, t.Any] = {
    "bin_dir": {"type": "path"},
    "timeout": {"type": "int", "default": 60},
}
_LONGEST = 100  # nodes named in one command


class Runner(t.Protocol):
    """`_command.run`, or a test's double of it."""

    def __call__(
        self, argv: t.Sequence[str], *, timeout: float, ok: t.Container[int] = (0,), text: str | None = None
    ) -> _command.Completed: ...


class Commands:
    """The default server of the host, through the programs in ``bin_dir``; ``prefix`` may be a way to another host.

    ``timeout`` is in seconds and bounds each command.
    """

    usual_bin_dir: str

    def __init__(
        self,
        *,
        run: Runner = _command.run,
        prefix: t.Sequence[str] = (),
        bin_dir: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        self._run = run
        self._prefix = tuple(prefix)
        self._bin_dir = bin_dir or self.usual_bin_dir
        self._timeout = timeout

    def settings(self) -> dict[qmgr.Key, qmgr.Attributes]:
        """Return what can be set of the server (named "") and of its queues."""
        found = qmgr.printed(self._ask("qmgr", "-c", "print server"))
        if ("server", "") not in found:
            raise NoAnswerError("qmgr -c 'print server' printed nothing about the server")
        return found

    def settings_of(self, kinds: t.Container[str]) -> dict[str, t.Any]:
        """Return what an info module shows of `settings`: ``settings`` of the server, ``queues`` with theirs."""
        if "server" not in kinds and "queues" not in kinds:
            return {}
        settings = self.settings()
        queues = [{"name": name, "attributes": has} for (kind, name), has in settings.items() if kind == "queue"]
        found = {"server": ("settings", settings["server", ""]), "queues": ("queues", queues)}
        return dict(shown for kind, shown in found.items() if kind in kinds)

    def manage(self, command: str) -> None:
        """Give qmgr one command that changes something."""
        self._ask("qmgr", "-c", command)

    def keep_attributes(self, wanted: t.Mapping[str, t.Any], *, only_plan: bool) -> dict[str, t.Any]:
        """Set the attributes of the server that differ, and return what a module exits with.

        With ``only_plan`` nothing is set, and the result is the same.
        """
        steps = attributes.plan(self.settings()["server", ""], wanted)
        commands = attributes.commands("server", "", steps)
        for command in [] if only_plan else commands:
            self.manage(command)
        sides = {side: attributes.shown("server", "", steps, after=side == "after") for side in ("before", "after")}
        return {"changed": bool(commands), "commands": commands, "diff": sides}

    def _mark(self, words: t.Sequence[str], names: t.Sequence[str]) -> list[_command.Completed]:
        """Give pbsnodes a mark for nodes, and return its answers."""
        for name in names:
            qmgr.checked_name("node", name)
        if not all(word.isprintable() for word in words):
            raise SpecError("the comment or note of a node is printable text on one line")
        return [
            self._answer("pbsnodes", *words, *names[first : first + _LONGEST])
            for first in range(0, len(names), _LONGEST)
        ]

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
            reason = "; ".join(line.strip() for line in answer.err.splitlines() if line.strip()) or "it printed nothing"
            raise NoAnswerError(f"{shlex.join(argv)}: exit status {answer.rc}: {reason}")
        return answer
