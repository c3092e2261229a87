# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs other programs: argv lists only, always with a time limit, errors that name the command."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.errors import BedError

QUOTED_LINES = 3
# A machine that others have, too, may stand still for a while: nothing is given up for that.
STALL_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Completed:
    """What a program left: exit status and both outputs."""

    rc: int
    out: str
    err: str


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    input: str | bytes | None = None,
    check: bool = True,
    env: Mapping[str, str] | None = None,
) -> Completed:
    """Run `argv` and wait for it; `env` adds to the environment. With `check`, a failure raises BedError.

    `timeout` is what it may take on a machine that does not stand still meanwhile.

    The program gets a session of its own: Ctrl-C ends us, and we decide what becomes of it. It inherits what we made
    inheritable, which is locks: they outlive us until it is done.
    """
    data = input.encode() if isinstance(input, str) else input
    try:
        process = subprocess.run(
            argv,
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True,
            timeout=timeout + STALL_SECONDS,
            env=None if env is None else {**os.environ, **env},
            check=False,
            start_new_session=True,
            close_fds=False,
        )
    except FileNotFoundError:
        raise BedError(f"{argv[0]}: not found; install it, or put its folder on PATH") from None
    except subprocess.TimeoutExpired:
        raise BedError(f"{brief(argv)}: no end after {timeout + STALL_SECONDS:g} s") from None
    done = Completed(
        process.returncode, process.stdout.decode(errors="replace"), process.stderr.decode(errors="replace")
    )
    if check and done.rc != 0:
        raise BedError(f"{brief(argv)}: exit status {done.rc}: {last_lines(done.err or done.out)}")
    return done


def brief(argv: Sequence[str], *, limit: int = 100) -> str:
    """The command as one short line for a message."""
    line = " ".join(argv).replace("\n", " ")
    return line if len(line) <= limit else line[: limit - 3] + "..."


def last_lines(text: str) -> str:
    """The end of an output as one line; the end is where programs say why."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-QUOTED_LINES:]) or "(no output)"
