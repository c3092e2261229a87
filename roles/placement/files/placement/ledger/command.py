# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One command: an argv list, the C locale, a time limit, and nothing left running when that has passed."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# Only what PBS's programs need to find their server.
_KEPT: Final = ("PBS_CONF_FILE", "PBS_EXEC", "PBS_HOME", "PBS_SERVER", "HOME")
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
    """Runs it. What it started itself ends with it."""
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
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _give_up(process)
        raise CommandError(f"{argv[0]}: no answer in {timeout:g} s") from None
    return Answer(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def _give_up(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except PermissionError:
        # What sudo runs is not ours to end; sudo does that itself, by the time limit of its rule.
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    else:
        process.communicate()
