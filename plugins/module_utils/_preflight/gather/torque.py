# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what a MoM of Torque runs around jobs on this host: its scripts, their rights, and the time it gives them.

PRIVATE to the collection.
"""

from __future__ import annotations

import os
import re
import stat
import typing as t

from . import node

HOME = "/var/spool/torque"
FOLDER = "/etc/converged/torque"
OURS = b"# converged.hpc: Torque runs this as its script"
BASE = ("prologue", "prologue.parallel", "epilogue", "epilogue.parallel")
DEFAULT_ALARM, ALARM_HEAD = 300, 10
LONGEST = 256 * 1024
_NAME = re.compile(r"(?:prologue|epilogue)(?:\.[!-.0-~]{1,200})?", re.ASCII)
_ALARM = re.compile(r"^[ \t]*\$prologalarm[ \t]+(\d{1,9})[ \t]*$", re.ASCII | re.MULTILINE)
_SERVER = re.compile(r"^[ \t]*\$pbsserver[ \t]+(\S{1,253})[ \t]*$", re.ASCII | re.MULTILINE)
_USERS = re.compile(r"(?:prologue|epilogue)\.(?:user|precancel)(?:\..*)?", re.ASCII)


def mom(home: str, folder: str = FOLDER) -> t.Dict[str, t.Any]:
    """Return the scripts of mom_priv by name, what is wrong with them, and seconds of Torque's alarm.

    A script of ours stands for the site's, which is kept below ``folder``. ``present`` is false where there is no MoM.
    """
    mom_priv = os.path.join(home, "mom_priv")
    found: t.Dict[str, t.Any] = {"home": home, "present": os.path.isdir(mom_priv), "refused": [], "scripts": []}
    config = node.text_of(os.path.join(mom_priv, "config"))
    found["alarm"] = alarm(config)
    found["servers"] = _SERVER.findall(config)
    for name in names(mom_priv):
        one, wrong = script(mom_priv, name, os.path.join(folder, "site"))
        found["scripts"].append(one)
        found["refused"] += [f"{mom_priv}/{name} {wrong}"] if wrong else []
    if not found["present"]:
        found["refused"].append(f"{mom_priv} is no folder: no MoM of Torque has been here, or torque_home is another")
    return found


def alarm(config: str) -> int:
    """Return the time in seconds that Torque gives a script, by the text of mom_priv/config."""
    found = [int(text) for text in _ALARM.findall(config)]
    shortest = min(found) if found else DEFAULT_ALARM
    return shortest - ALARM_HEAD if shortest > ALARM_HEAD else shortest


def names(mom_priv: str) -> t.List[str]:
    """Return all names by which Torque may run a script here: its own, and those of job types, which users choose."""
    try:
        there = os.listdir(mom_priv)
    except OSError:
        return []
    return sorted(name for name in there if _NAME.fullmatch(name))


def script(mom_priv: str, name: str, kept: str) -> t.Tuple[t.Dict[str, t.Any], str]:
    """Return one script of the site, and why Torque would not run it or it cannot be kept, "" for nothing."""
    path = os.path.join(mom_priv, name)
    seen: t.Dict[str, t.Any] = {"name": name, "ours": False, "content": None, "mode": ""}
    wrong, content = _regular(path)
    if not wrong and OURS in content:
        seen["ours"] = True
        path = os.path.join(kept, name)
        if not os.path.lexists(path):
            return seen, ""
        wrong, content = _regular(path)
    if wrong:
        return seen, wrong
    status = os.lstat(path)
    seen["mode"] = format(stat.S_IMODE(status.st_mode), "04o")
    wrong = rights(status.st_uid, status.st_mode, users=bool(_USERS.fullmatch(name)))
    try:
        seen["content"] = content.decode("utf-8")
    except UnicodeDecodeError:
        wrong = wrong or "is no script but a program: have a script in its place that runs it"
    return seen, wrong


def rights(uid: int, mode: int, *, users: bool) -> str:
    """Return what keeps Torque from running a script with this owner and mode, "" for nothing."""
    shown = f"{stat.S_IMODE(mode):04o}"
    if uid != 0:
        return f"belongs to user {uid}, and Torque runs it as root's only: chown root"
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"has mode {shown}, so others than root may write it, and Torque does not run it: chmod go-w"
    needed = stat.S_IRUSR | stat.S_IXUSR | (stat.S_IROTH | stat.S_IXOTH if users else 0)
    if mode & needed != needed:
        return f"has mode {shown}, with which Torque does not run it: chmod {'a' if users else 'u'}+rx"
    return ""


def _regular(path: str) -> t.Tuple[str, bytes]:
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return f"is a link to {os.readlink(path)!a}: put the script itself there", b""
        if not stat.S_ISREG(status.st_mode):
            return "is no file: remove it", b""
        if status.st_size > LONGEST:
            return (
                f"has {status.st_size} bytes, more than {LONGEST}: have a short script in its place that runs it",
                b"",
            )
        with open(path, "rb") as stream:
            return "", stream.read(LONGEST)
    except OSError as error:
        return f"cannot be read: {error.strerror}", b""
