# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs other programs: argv lists only, always with a time limit, errors that name the command."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from testbed.errors import BedError

QUOTED_LINES = 3
# A machine that others have, too, may stand still for a while: nothing is given up for that.
STALL_SECONDS = 180.0
CHUNK = 1 << 16
RUNNING: set[subprocess.Popen[bytes]] = set()


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
    what: str = "",
    umask: int = -1,
) -> Completed:
    """Run `argv` and wait for its end; `env` adds to the environment. With `check`, a failure raises BedError.

    `timeout` is what it may take on a machine that does not stand still meanwhile; `what` names the command in errors.

    The program gets a session of its own: Ctrl-C ends us, and we decide what becomes of it. It inherits what we made
    inheritable, which is locks: they outlive us until it is done.
    """
    data = input.encode() if isinstance(input, str) else input
    try:
        with subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL if data is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else {**os.environ, **env},
            start_new_session=True,
            close_fds=False,
            umask=umask,
        ) as process:
            RUNNING.add(process)
            try:
                out, err = outputs(process, data, timeout=timeout + STALL_SECONDS)
            except BaseException:
                kill(process)
                raise
            finally:
                RUNNING.discard(process)
    except FileNotFoundError:
        raise BedError(f"{argv[0]}: not found; install it, or put its folder on PATH") from None
    except subprocess.TimeoutExpired:
        raise BedError(f"{what or brief(argv)}: no end after {timeout + STALL_SECONDS:g} s") from None
    done = Completed(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))
    if check and done.rc != 0:
        raise failure(what or brief(argv), done)
    return done


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a program and those of its session's first group; some may be root's, and some may have ended."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(PermissionError):
            process.kill()


def kill_running() -> None:
    """End all programs that threads of this process wait for."""
    for process in tuple(RUNNING):
        kill(process)


def outputs(process: subprocess.Popen[bytes], data: bytes | None, *, timeout: float) -> tuple[bytes, bytes]:
    """Give a program its input and return both outputs at its end, although what it left behind may hold them open."""
    deadline = time.monotonic() + timeout
    assert process.stdout is not None
    assert process.stderr is not None
    out, err, left = bytearray(), bytearray(), memoryview(data or b"")
    sources = {process.stdout.fileno(): out, process.stderr.fileno(): err}
    end = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(end, selectors.EVENT_READ)
            for source in sources:
                os.set_blocking(source, False)
                selector.register(source, selectors.EVENT_READ)
            if process.stdin is not None:
                os.set_blocking(process.stdin.fileno(), False)
                selector.register(process.stdin, selectors.EVENT_WRITE)
            ready = set[int]()
            while end not in ready:
                ready = {key.fd for key, _events in selector.select(max(0.0, deadline - time.monotonic()))}
                if not ready and time.monotonic() >= deadline:
                    raise subprocess.TimeoutExpired(process.args, timeout)
                for source in ready & sources.keys():
                    if not take(source, sources[source]):
                        selector.unregister(source)
                if process.stdin is not None and not process.stdin.closed and process.stdin.fileno() in ready:
                    left = left[give(process.stdin.fileno(), left) :]
                    if not left:
                        selector.unregister(process.stdin)
                        process.stdin.close()
        for source, into in sources.items():
            while take(source, into):
                pass
    finally:
        os.close(end)
    return bytes(out), bytes(err)


def take(source: int, into: bytearray) -> bool:
    """Read what a pipe has now; false where it has nothing."""
    try:
        chunk = os.read(source, CHUNK)
    except BlockingIOError:
        return False
    into += chunk
    return bool(chunk)


def give(target: int, data: memoryview) -> int:
    """Write what a pipe takes now, and return how much that was; a program that reads no more is given nothing."""
    try:
        return os.write(target, data)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(data)


def failure(what: str, done: Completed) -> BedError:
    """Return the error that says how a command has failed."""
    return BedError(f"{what}: exit status {done.rc}: {last_lines(done.err or done.out)}")


def brief(argv: Sequence[str], *, limit: int = 100) -> str:
    """The command as one short line for a message."""
    line = " ".join(argv).replace("\n", " ")
    return line if len(line) <= limit else line[: limit - 3] + "..."


def last_lines(text: str) -> str:
    """The end of an output as one line; the end is where programs say why."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-QUOTED_LINES:]) or "(no output)"
