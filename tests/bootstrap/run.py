# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs commands for the bootstrap, with a line of progress for those that take time."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from bootstrap.errors import BootstrapError

TAIL = 15


@contextmanager
def step(text: str) -> Iterator[None]:
    """Says what is being done, and how long it took."""
    began = time.monotonic()
    print(f"  {text} ...", file=sys.stderr, flush=True)
    yield
    print(f"  {text}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)


def run(argv: Sequence[str], *, timeout: float, log: Path | None, env: Mapping[str, str] | None = None) -> None:
    """Runs a command with its output in a log, whose end and name are shown on failure; without one it is shown."""
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") if log else nullcontext() as out:
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired:
            raise BootstrapError(f"'{' '.join(argv)}' did not end within {timeout:.0f} s; see {log}") from None
        except OSError as error:
            raise BootstrapError(f"'{argv[0]}' cannot be started: {error.strerror}") from None
    if done.returncode != 0:
        raise BootstrapError(f"'{' '.join(argv)}' ended with status {done.returncode}" + (tail(log) if log else ""))


def tail(log: Path) -> str:
    """The end of a log, with its name."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:]
    return "\n".join([f"; the end of {log}:", *lines])
