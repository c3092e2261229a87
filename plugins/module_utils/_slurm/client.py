# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands to Slurm that the collection gives, one method each; their answers are read in `parse`.

PRIVATE to the collection.
"""

from __future__ import annotations

import contextlib
import typing as t

from .. import _command
from .._shared import hostlist
from . import parse, version
from .errors import ConfError, NoAnswerError, NoProgramsError

# As the doc fragment _slurm has it.
ARGUMENT_SPEC: t.Dict[str, t.Any] = {"bin_dir": {"type": "path"}, "timeout": {"type": "int", "default": 60}}
TIMEOUT = 60.0  # a client asks each of several controllers for about ten seconds
_FIELDS = ",".join(f"{name}:{parse.SEPARATOR}" for name in parse.JOB_FIELDS)


class Runner(t.Protocol):
    """`_command.run`, or a test's double of it."""

    def __call__(self, argv: t.Sequence[str], *, timeout: float, ok: t.Container[int] = (0,)) -> _command.Completed: ...


class Slurm:
    """One cluster, reached through the programs in ``bin_dir``, or on PATH; ``prefix`` may be a way to another host."""

    def __init__(
        self,
        *,
        run: Runner = _command.run,
        prefix: t.Sequence[str] = (),
        bin_dir: str | None = None,
        conf_path: str | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self._run = run
        self._prefix = tuple(prefix)
        self._bin_dir = bin_dir
        self._conf_path = conf_path
        self._timeout = timeout

    def version(self) -> version.Version:
        """Return the release of the programs, and ask no daemon. A compute node may have slurmd and no scontrol."""
        try:
            return version.parse(self._ask("scontrol", "--version"))
        except NoAnswerError as error:
            with contextlib.suppress(NoAnswerError):
                return version.parse(self._ask("slurmd", "-V"))
            raise error

    def config(self) -> dict[str, parse.Setting]:
        return parse.config(self._ask("scontrol", "show", "config"))

    def nodes(self) -> list[parse.Node]:
        return parse.nodes(self._ask("scontrol", "--all", "--oneliner", "show", "node"))

    def partitions(self) -> list[parse.Partition]:
        return parse.partitions(self._ask("scontrol", "--all", "--oneliner", "show", "partition"))

    def jobs(self) -> list[parse.Job]:
        """Return all jobs that slurmctld still knows, array tasks one by one."""
        words = ("--all", "--array", "--noheader", "--states=all", f"--Format={_FIELDS}")
        return parse.jobs(self._ask("squeue", *words, SLURM_TIME_FORMAT="%s"))

    def drain(self, names: t.Sequence[str], reason: str) -> None:
        self._update(names, "state=drain", f"reason={reason}")

    def explain(self, names: t.Sequence[str], reason: str) -> None:
        """Change the reason and nothing else."""
        self._update(names, f"reason={reason}")

    def undrain(self, names: t.Sequence[str]) -> None:
        """Take the drain back; a node that is down stays down."""
        self._update(names, "state=undrain")

    def reconfigure(self) -> None:
        self._ask("scontrol", "reconfigure")

    def check_conf(self, path: str) -> None:
        """Let Slurm's own parser read a slurm.conf, without a daemon; its objection is the error."""
        argv = ("env", f"SLURM_CONF={path}", self._program("scontrol"), "show", "hostnames", "localhost")
        try:
            answer = self._run(argv, timeout=self._timeout, ok=range(256))
        except _command.CommandError as error:
            raise NoAnswerError(str(error)) from error
        if answer.rc != 0:
            raise ConfError(f"Slurm would refuse it: {'; '.join(answer.err.split(chr(10))).strip('; ')}")

    def _update(self, names: t.Sequence[str], *words: str) -> None:
        self._ask("scontrol", "update", f"nodename={hostlist.fold(names)}", *words)

    def _ask(self, program: str, *words: str, **environment: str) -> str:
        if self._conf_path is not None:
            environment["SLURM_CONF"] = self._conf_path
        assignments = [f"{name}={value}" for name, value in sorted(environment.items())]
        env = ("env", *assignments) if assignments else ()
        try:
            return self._run((*self._prefix, *env, self._program(program), *words), timeout=self._timeout).out
        except _command.MissingProgramError as error:
            raise NoProgramsError(f"{error}: {self._where()}") from error
        except _command.CommandError as error:
            raise NoAnswerError(str(error)) from error

    def _where(self) -> str:
        """Return what an administrator should do about programs that are not there."""
        if self._bin_dir:
            return f"{self._bin_dir} is what slurm_bin_dir or bin_dir says: correct it"
        return (
            "Slurm's programs are neither on the search path nor beside slurmctld or slurmd:"
            " set slurm_bin_dir to their folder, such as /opt/slurm/bin"
        )

    def _program(self, name: str) -> str:
        return f"{self._bin_dir}/{name}" if self._bin_dir else name
