# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs one program: argv list, C locale, fixed PATH, bounded time, and an error that names what was run.

PRIVATE to the collection. Every module that calls a tool calls it here, so that its output always parses the same.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import typing as t
from dataclasses import dataclass

# sudo may hand over a PATH without sbin.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LAST_WORDS = 1.0


class CommandError(Exception):
    """A program could not be run, took too long, or exited with a status that was not expected."""


class MissingProgramError(CommandError):
    """There is no such program on this host."""


@dataclass(frozen=True)
class Completed:
    """What a program answered."""

    argv: t.Tuple[str, ...]
    rc: int
    out: str
    err: str


def last_line(text: str) -> str:
    """Return the last line that says something: most tools put their reason there."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def run(
    argv: t.Sequence[str],
    *,
    timeout: float,
    ok: t.Container[int] = (0,),
    env: t.Optional[t.Mapping[str, str]] = None,
    text: t.Optional[str] = None,
    pass_fds: t.Sequence[int] = (),
) -> Completed:
    """Run `argv` and return its answer; any exit status outside `ok` is an error.

    `pass_fds`: open files that the program inherits, such as a lock that holds as long as it runs.
    """
    given = None if text is None else text.encode("utf-8", "surrogateescape")
    shown = " ".join(shlex.quote(word) for word in argv)
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE if text is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(
                {"PATH": PATH, "LC_ALL": "C", "LANGUAGE": "C", "HOME": os.environ.get("HOME", "/root")}, **(env or {})
            ),
            pass_fds=tuple(pass_fds),
            start_new_session=True,  # so that a timeout ends its children too
        )
    except FileNotFoundError as error:
        raise MissingProgramError(f"{argv[0]}: command not found (needed for: {shown})") from error
    except OSError as error:
        raise CommandError(f"cannot run {shown}: {error.strerror}") from error
    with process:
        try:
            answer = process.communicate(given, timeout=timeout)
        except subprocess.TimeoutExpired as error:
            os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # a child in a session of its own may keep the pipe
                process.communicate(timeout=_LAST_WORDS)
            raise CommandError(f"{shown}: no answer within {timeout:g} s, stopped") from error
    # Not decoded by subprocess, which would turn every kind of line end into one.
    out, err = (part.decode("utf-8", "surrogateescape") for part in answer)
    if process.returncode not in ok:
        reason = last_line(err) or last_line(out) or "it printed nothing"
        raise CommandError(f"{shown}: exit status {process.returncode}: {reason}")
    return Completed(tuple(argv), process.returncode, out, err)
