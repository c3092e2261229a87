# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a gate is, and what it may use while it runs."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gates.process import run


class GateFailure(Exception):
    """What a gate found wrong; everything else it has to say is in its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One run of the gates: where things are, what was drawn, and this gate's log."""

    checkout: Path
    cache: Path  # shared by all checkouts
    own: Path  # this checkout's part of it
    scratch: Path  # this run's own, removed at its end: two runs in one checkout do not meet
    logs: Path
    seed: int
    quick: bool  # `make check`: fewer samples, one interpreter
    environ: Mapping[str, str]
    log: Path
    deadline: float

    def run(self, argv: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        """Runs a command with its output in the gate's log; a status other than 0 fails the gate."""
        words = [str(word) for word in argv]
        status = run(
            words, cwd=cwd or self.checkout, env={**self.environ, **(env or {})}, log=self.log, deadline=self.deadline
        )
        if status != 0:
            raise GateFailure(f"'{words[0]}' ended with status {status}")

    def say(self, text: str) -> None:
        """Adds a line to the gate's log."""
        with self.log.open("a", encoding="utf-8") as log:
            log.write(text + "\n")

    def settings(self) -> dict[str, Any]:
        """The table [tool.converged] of pyproject.toml."""
        whole = tomllib.loads((self.checkout / "pyproject.toml").read_text(encoding="utf-8"))
        settings: dict[str, Any] = whole["tool"]["converged"]
        return settings

    def files(self, *patterns: str) -> list[Path]:
        """Tracked files, and new ones that git does not ignore, relative to the checkout."""
        argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
        done = subprocess.run(argv, cwd=self.checkout, capture_output=True, text=True, timeout=60, check=True)
        found = {Path(name) for name in done.stdout.split("\0") if name}
        return sorted(path for path in found if (self.checkout / path).is_file())

    def payload_roots(self) -> list[Path]:
        """The folders roles/*/files that hold Python."""
        return sorted({Path(*path.parts[:3]) for path in self.files("roles/*/files/**.py")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A thing that must hold."""

    name: str
    what: str
    action: Callable[[Context], None]
    tiers: frozenset[str]
    alone: bool = False  # needs the machine for itself
    timeout: float = 2 * 3600


def commands(*argvs: Sequence[str]) -> Callable[[Context], None]:
    """The action of a gate that is nothing but commands."""

    def action(context: Context) -> None:
        for argv in argvs:
            context.run(argv)

    return action


def existing(context: Context, names: Sequence[str]) -> Iterator[str]:
    """Those of the folders that exist: parts of the project arrive one by one."""
    return (name for name in names if (context.checkout / name).is_dir())
