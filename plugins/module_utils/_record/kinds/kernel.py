# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel settings and modules as they run now. What makes them last is a file like any other."""

from __future__ import annotations

import re
import typing as t

from ..host.host import Host, reason
from ..model.errors import RecordError

_LOADED = "loaded"
_SECONDS = 60


def sysctl_path(name: str) -> str:
    """Return a sysctl's path, by sysctl(8)'s rule: the first of '.' and '/' separates, the other stands for it."""
    slash, dot = name.find("/"), name.find(".")
    if slash != -1 and (dot == -1 or slash < dot):
        return "/proc/sys/" + name
    return "/proc/sys/" + name.translate(str.maketrans("./", "/."))


def read_sysctl(host: Host, name: str) -> t.Optional[str]:
    """Return a sysctl's value with single spaces; None where the kernel does not have it."""
    path = sysctl_path(name)
    if host.lstat(path) is None:
        return None
    try:
        return " ".join(host.read(path).decode("utf-8", "replace").split())
    except OSError as error:
        raise RecordError(f"sysctl {name}: cannot read {path}: {reason(error)}") from error


def write_sysctl(host: Host, name: str, value: str) -> None:
    """Set a sysctl and read it back: some settings take another value than they are given."""
    path = sysctl_path(name)
    try:
        host.write_value(path, value)
    except OSError as error:
        raise RecordError(f"sysctl {name}: cannot set {value!r}: {reason(error)}") from error
    found = read_sysctl(host, name)
    if found != value:
        raise RecordError(f"sysctl {name}: set to {value!r}, but the kernel says {found!r}: ask for what it accepts")


def read_module(host: Host, name: str) -> str:
    """Return `loaded`, also for a module that is built in, or nothing."""
    return _LOADED if host.lstat(f"/sys/module/{name}") is not None else ""


def is_waiting(host: Host, name: str) -> bool:
    """Return whether the running kernel could load a module from a file and has not; False where nothing tells."""
    if read_module(host, name):
        return False
    try:
        release = host.read("/proc/sys/kernel/osrelease").decode("utf-8", "replace").strip()
        known = host.read(f"/lib/modules/{release}/modules.dep").decode("utf-8", "replace")
    except OSError:
        return False
    # A module that is built in has no file, and perhaps no folder in /sys/module either.
    return re.search(rf"/{re.escape(name)}\.ko[.a-z0-9]*:", known) is not None


def load_module(host: Host, name: str) -> None:
    """Load a kernel module by modprobe, with what it needs."""
    host.run(["modprobe", "--", name], timeout=_SECONDS)


def unload_module(host: Host, name: str) -> t.Optional[str]:
    """Unload this module alone, as what it depends on may be the site's; say why if it is in use."""
    path = f"/sys/module/{name}/refcnt"
    if host.lstat(path) is None:
        return "it is built into the kernel"
    users = host.read(path).decode().strip()
    if users != "0":
        return f"it is in use ({users} times)"
    host.run(["rmmod", "--", name], timeout=_SECONDS)
    return None
