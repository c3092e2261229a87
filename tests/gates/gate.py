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

from gates.process import TIMED_OUT, run

# No gate of `make test` may have a longer limit: one that hangs must end, with its log, before CI's own limit.
LONGEST_LIMIT = 40 * 60.0


class GateFailure(Exception):
    """What a gate found wrong; everything else it has to say is in its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One run of the gates: where things are, the seed, and this gate's log."""

    checkout: Path
    cache: Path  # shared by all checkouts
    own: Path  # this checkout's part of it
    scratch: Path  # this run's own, removed at its end: two runs in one checkout do not meet
    logs: Path
    seed: int | None  # None: random tests take the seeds that the repository keeps
    quick: bool  # `make check`: fewer samples, one interpreter
    environ: Mapping[str, str]
    log: Path
    deadline: float  # monotonic seconds

    def run(self, argv: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        """Run a command with its output in the gate's log; fail the gate on a status other than 0."""
        words = [str(word) for word in argv]
        status = run(
            words, cwd=cwd or self.checkout, env={**self.environ, **(env or {})}, log=self.log, deadline=self.deadline
        )
        if status == TIMED_OUT:
            raise GateFailure(f"'{words[0]}' was stopped at the gate's time limit")
        if status != 0:
            raise GateFailure(f"'{words[0]}' ended with status {status}")

    def say(self, text: str) -> None:
        """Add a line to the gate's log."""
        with self.log.open("a", encoding="utf-8") as log:
            log.write(text + "\n")

    def timings(self) -> dict[str, str]:
        """Return the setting by which pytest's plugin `gates.timings` keeps the seconds of this gate's tests."""
        return {"CONVERGED_TIMINGS": str(self.logs / "timings" / f"{self.log.stem}.json")}

    def settings(self) -> dict[str, Any]:
        """Return the table [tool.converged] of pyproject.toml."""
        whole = tomllib.loads((self.checkout / "pyproject.toml").read_text(encoding="utf-8"))
        settings: dict[str, Any] = whole["tool"]["converged"]
        return settings

    def files(self, *patterns: str) -> list[Path]:
        """Return tracked files, and new ones that git does not ignore, relative to the checkout."""
        return listed_files(self.checkout, *patterns)

    def payload_roots(self) -> list[Path]:
        """Return the folders roles/*/files that hold Python."""
        return sorted({Path(*path.parts[:3]) for path in self.files("roles/*/files/**.py")})


def listed_files(checkout: Path, *patterns: str) -> list[Path]:
    """Return tracked files, and new ones that git does not ignore, that match git's pathspecs."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    done = subprocess.run(argv, cwd=checkout, capture_output=True, text=True, timeout=60, check=True)
    found = {Path(name) for name in done.stdout.split("\0") if name}
    return sorted(path for path in found if (checkout / path).is_file())


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One thing that must hold, and one entry of the pool."""

    name: str
    action: Callable[[Context], None]
    tiers: frozenset[str]
    reads: tuple[str, ...] | None = None  # sets of files (scopes.toml) that decide its outcome; None: run it always
    group: str = ""  # GATE=GROUP runs all gates of the group
    also: str = ""  # another word that asks for this gate, together with others
    on_bed: bool = False  # waits for the gate `supplies`
    alone: bool = False  # starts when no other gate runs, and none starts beside it
    limit: float = 20 * 60.0  # seconds


def commands(*argvs: Sequence[str]) -> Callable[[Context], None]:
    """Return the action of a gate that is nothing but commands."""

    def action(context: Context) -> None:
        for argv in argvs:
            context.run(argv)

    return action


def existing(context: Context, names: Sequence[str]) -> Iterator[str]:
    """Return those of the folders that exist: parts of the project arrive one by one."""
    return (name for name in names if (context.checkout / name).is_dir())
