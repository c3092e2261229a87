# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a program, bounded in time and in what it may say.

What a program prints grows with what users submit. No more of it is kept than fits, and a program that does not end in
time is ended with all that it has started.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from typing import Dict, Tuple

from ..model.answer import Answer

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
SECONDS = 20.0  # for one question to the batch system
LONGEST = 64 << 20  # bytes of an answer
LONGEST_ERROR = 64 << 10  # bytes that are kept of what it says to stderr


class TooLongError(OSError):
    """An answer longer than allowed."""


def run_bounded(argv: Tuple[str, ...], *, seconds: float = SECONDS, longest: int = LONGEST) -> Answer:
    """Run a program and return what it says.

    OSError: it cannot be started, does not end within `seconds`, or (TooLongError) says more than `longest` bytes.
    """
    try:
        # A session of its own: all that the program has started ends with it. Nothing of our environment goes on.
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": PATH, "LC_ALL": "C", "SYSTEMD_PAGER": ""},
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise OSError("{}: {}".format(argv[0], error.strerror)) from error
    try:
        out, err = _read(process, argv, time.monotonic() + seconds, seconds, longest)
    except BaseException:
        _end(process)
        raise
    return Answer(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def _read(
    process: "subprocess.Popen[bytes]", argv: Tuple[str, ...], give_up: float, seconds: float, longest: int
) -> Tuple[bytes, bytes]:
    """Read both pipes to their ends, then wait for the end of the program."""
    assert process.stdout is not None
    assert process.stderr is not None
    said: Dict[int, bytearray] = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    out, err = said.values()
    late = OSError("{}: no end within {:g} s".format(" ".join(argv[:2]), seconds))
    with process.stdout, process.stderr, selectors.DefaultSelector() as pipes:
        for number in said:
            pipes.register(number, selectors.EVENT_READ)
        while pipes.get_map():
            left = give_up - time.monotonic()
            if left <= 0:
                raise late
            for ready, _events in pipes.select(left):
                part = os.read(ready.fd, 1 << 16)
                if not part:
                    pipes.unregister(ready.fd)
                said[ready.fd] += part
                del err[LONGEST_ERROR:]
                if len(out) > longest:
                    raise TooLongError("{}: more than {} bytes".format(" ".join(argv[:2]), longest))
        try:
            process.wait(max(0.0, give_up - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise late from error
    return bytes(out), bytes(err)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill the program's session. One that hangs in the kernel is left to it: there is no wait without a bound."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
