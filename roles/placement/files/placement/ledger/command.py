# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One command: an argv list, the C locale, a time limit, and nothing left running when that has passed."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# Only what PBS's programs need to find their server.
_KEPT: Final = ("PBS_CONF_FILE", "PBS_EXEC", "PBS_HOME", "PBS_SERVER", "HOME")
# Seconds in which what is asked to end does, within the time limit.
_GRACE: Final = 0.5
_ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "TZ": "UTC0"}


class CommandError(Exception):
    """The command gave no answer; the message names it and says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What it said."""

    status: int
    out: str
    err: str

    @property
    def reason(self) -> str:
        """The first line of the complaint."""
        return next((line.strip() for line in self.err.splitlines() if line.strip()), "it printed nothing")


def run(argv: Sequence[str], *, timeout: float, environment: Mapping[str, str] | None = None) -> Answer:
    """Run the program. End what it started itself with it."""
    known = os.environ if environment is None else environment
    chosen = {**{name: known[name] for name in _KEPT if name in known}, **_ENVIRONMENT}
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=chosen,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise CommandError(f"{argv[0]}: {error.strerror}") from error
    try:
        out, err = process.communicate(timeout=max(timeout / 2, timeout - _GRACE))
    except subprocess.TimeoutExpired:
        _end(process)
        raise CommandError(f"{argv[0]}: no answer in {timeout:g} s") from None
    return Answer(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process with all that it has started. Terminate first: sudo can pass on only that."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_GRACE)
    for stream in (process.stdout, process.stderr):
        # What somebody else's process may still hold open is not waited for.
        if stream is not None:
            stream.close()
