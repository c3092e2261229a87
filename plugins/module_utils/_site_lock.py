# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep two operators from changing a site at once, by one small file on the primary batch controller.

A playbook is no process on that host, so nothing there tells whether it still runs. The file names the operator's host
and process. A run on the same host can see whether that process is alive. The error of a run on another host says what
to do. The file lies in /run: after a reboot there is no lock.

PRIVATE to the collection.
"""

from __future__ import annotations

import fcntl
import json
import os
import typing as t

PATH = "/run/converged.hpc.lock"
Holder = t.Dict[str, t.Any]


class LockError(Exception):
    """Another run has the lock, or its file cannot be used."""


def take(path: str, mine: Holder, *, over: str = "", check: bool = False) -> bool:
    """Take the lock, and return whether it is new. ``over`` is the token of a holder that is known to be gone."""
    if check and not os.path.exists(path):
        return True
    with _opened(path) as file:
        held = _read(file)
        if held and held["token"] == mine["token"]:
            return False
        if held and held["token"] != over:
            raise LockError(said(held))
        if not check:
            _write(file, mine)
        return True


def leave(path: str, mine: Holder, *, check: bool = False) -> bool:
    """Leave the lock; return whether it was ours and is free now."""
    if not os.path.exists(path):
        return False
    with _opened(path) as file:
        held = _read(file)
        if not held or held["token"] != mine["token"]:
            return False
        if not check:
            _write(file, {})
        return True


def holder(path: str) -> Holder:
    """Return the holder of the lock; nothing for a lock that is free."""
    if not os.path.exists(path):
        return {}
    with _opened(path) as file:
        return _read(file)


def said(held: Holder) -> str:
    """Say in words which run holds the lock."""
    return (
        f"{held['who']} changes this site (process {held['pid']} on {held['host']}, since {held['since']}): "
        "wait for it; if it is dead, run again with -e converged_take_lock=true"
    )


def _opened(path: str) -> t.TextIO:
    try:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "r+")
    except OSError as error:
        raise LockError(f"{path}: {error.strerror}") from error
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def _read(file: t.TextIO) -> Holder:
    file.seek(0)
    text = file.read()
    try:
        held: Holder = json.loads(text) if text.strip() else {}
    except ValueError:
        return {}  # a write that was cut off: no run can have begun after it
    return held if {"token", "who", "pid", "host", "since"} <= set(held) else {}


def _write(file: t.TextIO, held: Holder) -> None:
    file.seek(0)
    file.truncate()
    file.write(json.dumps(held) if held else "")
    file.flush()
    os.fsync(file.fileno())
