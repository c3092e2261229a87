# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds processes of pods that have an accelerator open. A killed process lets go of one seconds after it has ended.

Files are told by their device number, as a container may call its device as it likes. Nothing is asked of a network
file system, which may hang.
"""

import os
import re
import stat
from typing import Dict, FrozenSet, Iterator, Optional, Tuple

from .processes import uid_in

ACCELERATORS = re.compile(r"nvidia[0-9]+|nvidia-uvm|kfd|dri/renderD[0-9]+|accel/accel[0-9]+|davinci[0-9]+", re.ASCII)
FOLDERS = ("", "dri", "accel")
LOCAL = ("devtmpfs", "tmpfs", "overlay", "ext2", "ext3", "ext4", "xfs", "btrfs", "ramfs", "rootfs")


def accelerators(dev: str) -> Dict[int, str]:
    """Return the accelerators of this machine, by device number."""
    found: Dict[int, str] = {}
    for folder in FOLDERS:
        for name in _names(os.path.join(dev, folder)):
            path = os.path.join(dev, folder, name)
            number = _number(path) if ACCELERATORS.fullmatch(os.path.join(folder, name)) else None
            if number is not None:
                found[number] = path
    return found


def holders(proc: str, known: Dict[int, str]) -> Dict[str, str]:
    """Return by pod uid a process that has one of these devices open, in words."""
    found: Dict[str, str] = {}
    for pid in _names(proc) if known else ():
        if not pid.isdigit():
            continue
        for task in _tasks(os.path.join(proc, pid)):
            uid = _pod_of(task)
            for number in _open_devices(task) if uid else ():
                if number in known:
                    found[uid] = "process {} of pod {} has {}".format(pid, uid, known[number])
    return found


def _tasks(process: str) -> Tuple[str, ...]:
    """Return the process, or the threads that are left of one that has ended: these have its files."""
    state = _text(os.path.join(process, "stat")).rpartition(")")[2].split()[:1]
    if state != ["Z"]:
        return (process,)
    return tuple(os.path.join(process, "task", name) for name in _names(os.path.join(process, "task")))


def _pod_of(task: str) -> str:
    for line in _text(os.path.join(task, "cgroup")).splitlines():
        uid = uid_in(line.split(":", 2)[-1])
        if uid:
            return uid
    return ""


def _open_devices(task: str) -> Iterator[int]:
    mounts = _local_mounts(task)
    for name in _names(os.path.join(task, "fd")):
        mount = re.search(r"^mnt_id:\s*([0-9]+)$", _text(os.path.join(task, "fdinfo", name)), re.MULTILINE)
        number = _number(os.path.join(task, "fd", name)) if mount and mount.group(1) in mounts else None
        if number is not None:
            yield number


def _local_mounts(task: str) -> FrozenSet[str]:
    """Return the ids of mounts whose kind is known and that have no network behind them."""
    found = set()
    for line in _text(os.path.join(task, "mountinfo")).splitlines():
        first, _dash, rest = line.partition(" - ")
        if rest.split(" ")[0] in LOCAL:
            found.add(first.split(" ")[0])
    return frozenset(found)


def _number(path: str) -> Optional[int]:
    try:
        seen = os.stat(path)
    except OSError:
        return None  # closed, or ended, meanwhile
    return seen.st_rdev if stat.S_ISCHR(seen.st_mode) else None


def _names(path: str) -> Tuple[str, ...]:
    try:
        return tuple(os.listdir(path))
    except OSError:
        return ()  # ended meanwhile, or not here at all


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(1 << 20)
    except OSError:
        return ""
