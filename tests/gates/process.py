# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a gate's commands in a process group of their own, so that all of it can be stopped, politely first."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# A fixture that takes a test bed down needs this long after an interrupt.
GRACE = 120.0
TIMED_OUT = 124
INTERRUPTED = 130

_running: set[int] = set()
_interrupted = threading.Event()
_lock = threading.Lock()


def run(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path, deadline: float) -> int:
    """The command's exit status; TIMED_OUT when it had to be stopped at the deadline (a monotonic time).

    After an interrupt nothing is started any more.
    """
    with log.open("ab") as out:
        out.write(f"$ {' '.join(argv)}\n".encode())
        out.flush()
        with _lock:
            if _interrupted.is_set():
                return INTERRUPTED
            try:
                child = subprocess.Popen(
                    argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
                )
            except OSError as error:
                out.write(f"{argv[0]}: {error.strerror}\n".encode())
                return 127
            _running.add(child.pid)
        try:
            return child.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            out.write(b"\nstopped: the gate's time is over\n")
            _stop(child)
            return TIMED_OUT
        finally:
            with _lock:
                _running.discard(child.pid)


def interrupt_all() -> None:
    """Passes an interrupt on to every command that runs; what has not ended in time, or at the next one, is killed."""
    _interrupted.set()
    _signal_all(signal.SIGINT)
    ends = time.monotonic() + GRACE
    try:
        while _running and time.monotonic() < ends:
            time.sleep(0.1)
    finally:
        _signal_all(signal.SIGKILL)


def _signal_all(number: signal.Signals) -> None:
    with _lock:
        for pid in _running:
            _signal(pid, number)


def _stop(child: subprocess.Popen[bytes]) -> None:
    _signal(child.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=GRACE)
    _signal(child.pid, signal.SIGKILL)
    child.wait(timeout=GRACE)


def _signal(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return
