# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hands one job to `nodeshare controller` and waits, bounded, for its answer. It runs for every job: it must be cheap.

Usage: hand_over.py prolog|epilog SOCKET SECONDS. The job comes from the environment that slurmctld sets. The exit
status is 0 in any case: batch never depends on Kubernetes; what the controller does not do, the nodes do.
"""

# `socket`, `json`, `re` and `typing` would each cost as much processor time as all the rest: hence the module below
# `socket`, and annotations in quotes.
import _socket
import os
import sys
import syslog
import time

LONGEST_LIST = 65536
LONGEST_ANSWER = 65536
CONNECT_SECONDS = 2.0
TELL_SECONDS = 2.0
PAUSE = 0.05
_DIGITS = frozenset("0123456789")
_HOSTLIST = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ[],._-")


class Refused(Exception):
    """What the environment says is not a job."""


def request(event: str, environ: "os._Environ[str]") -> bytes:
    """Return the line for the controller. Only plain digits and host lists get into it, so nothing needs quoting."""
    run = environ.get("SLURM_JOB_RESTART_COUNT") or environ.get("SLURM_RESTART_COUNT") or "0"
    job, nodes = environ.get("SLURM_JOB_ID", ""), environ.get("SLURM_JOB_NODELIST", "")
    for name, text, allowed, longest in (
        ("job id", job, _DIGITS, 10),
        ("restart count", run, _DIGITS, 9),
        ("node list", nodes, _HOSTLIST, LONGEST_LIST),
    ):
        if not 0 < len(text) <= longest or not allowed.issuperset(text) or text[0] in "-._,]":
            raise Refused("{} {} is none".format(name, ascii(text[:60])))
    words = (("event", event), ("wlm", "slurm"), ("job", job), ("run", run), ("nodes", nodes))
    return ("{" + ", ".join('"{}": "{}"'.format(*word) for word in words) + "}\n").encode("ascii")


def hand_over(path: str, line: bytes, seconds: float) -> str:
    """Send the line; return why there was no answer, or nothing."""
    until = time.monotonic() + seconds
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        _connect(link, path, min(until, time.monotonic() + CONNECT_SECONDS))
        sent = 0
        while sent < len(line):
            _bound(link, until)
            sent += link.send(line[sent:])
        answer = b""
        while b"\n" not in answer:
            _bound(link, until)
            piece = link.recv(4096)
            if not piece or len(answer) > LONGEST_ANSWER:
                return "the connection ended without an answer"
            answer += piece
    except _socket.timeout:
        return "no answer within {:g} s".format(seconds)
    except OSError as error:
        return "{}: {}".format(path, error.strerror or error)
    finally:
        link.close()
    return ""


def _connect(link: "_socket.socket", path: str, until: float) -> None:
    """Connect. A listener with a full queue refuses at once; it gets a moment, as many jobs may start together."""
    while True:
        _bound(link, until)
        try:
            return link.connect(path)
        except BlockingIOError:
            time.sleep(PAUSE)


def _bound(link: "_socket.socket", until: float) -> None:
    left = until - time.monotonic()
    if left <= 0:
        raise _socket.timeout
    link.settimeout(left)


def main(argv: "list[str]", environ: "os._Environ[str]") -> None:
    event, path, seconds = argv
    try:
        reason = hand_over(path, request(event, environ), float(seconds))
    except Refused as refused:
        reason = str(refused)
    if reason:
        _tell("event={} job={} {}".format(event, ascii(environ.get("SLURM_JOB_ID", "")[:20]), reason))


def _tell(text: str) -> None:
    """Tell the system log, for TELL_SECONDS at most: a log that takes nothing must hold up no job.

    The C library tries a second time when a signal ends its first try, so only the third signal raises.
    """
    import signal

    ticks = []

    def tick(_number: int, _frame: object) -> None:
        ticks.append(1)
        if len(ticks) == 3:
            raise _socket.timeout

    signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, TELL_SECONDS, 0.1)
    try:
        syslog.openlog("converged-slurm")
        syslog.syslog(syslog.LOG_WARNING, text)
    except _socket.timeout:
        pass  # the job goes on without a line
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
