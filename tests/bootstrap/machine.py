# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What there is to know about a machine before anything is installed on it, as one record.

Reading it (this file) and judging it (checks.py) are apart, so that every judgement can be tested with a record.
"""

from __future__ import annotations

import ipaddress
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bootstrap.environment import PROXY_VARIABLES, Places

Network = ipaddress.IPv4Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Facts only; an empty or None value means that it could not be read."""

    distribution: str  # ID of /etc/os-release
    release: str  # VERSION_ID
    architecture: str
    kernel: str
    container: str  # what PID 1 was told it runs in: lxc, docker, wsl ...
    whole_user_range: bool  # false in a rootless container
    root: bool
    sudo: bool
    user: str
    memory: int
    memory_free: int  # what programs could be given without swapping
    disk_free: int | None  # None: the cache would not be a folder on a disk
    cache: str
    cache_owner: str | None  # None: does not exist yet
    cache_possible: bool  # it exists, or this user may make it without root
    cgroup: str  # v1, hybrid, v2, none
    inotify_instances: int
    forwarding_rules: tuple[str, ...]  # iptables -S, or nothing where it cannot be asked
    routes: tuple[Network, ...]
    proxies: tuple[tuple[str, str], ...]


def read_machine(where: Places, environ: Mapping[str, str]) -> Machine:
    """Reads everything; takes some 10 ms and changes nothing."""
    system = os_release(_text("/etc/os-release"))
    root = os.geteuid() == 0
    sudo = not root and shutil.which("sudo") is not None and _succeeds(["sudo", "-n", "true"])
    return Machine(
        distribution=system.get("ID", ""),
        release=system.get("VERSION_ID", ""),
        architecture=platform.machine(),
        kernel=platform.release(),
        container=_container(environ),
        whole_user_range=_text("/proc/self/uid_map").split() in (["0", "0", "4294967295"], []),
        root=root,
        sudo=sudo,
        user=_user_name(os.geteuid()),
        memory=memory_of(_text("/proc/meminfo"), "MemTotal"),
        memory_free=memory_of(_text("/proc/meminfo"), "MemAvailable"),
        disk_free=_disk_free(where.cache),
        cache=str(where.cache),
        cache_owner=_user_name(where.cache.stat().st_uid) if where.cache.exists() else None,
        cache_possible=os.access(_nearest(where.cache), os.W_OK),
        cgroup=cgroup_version(_text("/proc/self/mounts")),
        inotify_instances=int(_text("/proc/sys/fs/inotify/max_user_instances").strip() or 0),
        forwarding_rules=_forwarding_rules([] if root else ["sudo", "-n"]) if root or sudo else (),
        routes=networks(_text("/proc/net/route")),
        proxies=tuple((name, environ[name]) for name in PROXY_VARIABLES if environ.get(name)),
    )


def os_release(text: str) -> dict[str, str]:
    """The fields of /etc/os-release."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name: value.strip().strip("\"'") for name, _, value in pairs}


def memory_of(meminfo: str, name: str) -> int:
    """Return a field of /proc/meminfo in bytes."""
    for line in meminfo.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def cgroup_version(mounts: str) -> str:
    """Which cgroup hierarchies are mounted: v1, hybrid (both), v2 or none."""
    kinds = {fields[2] for fields in map(str.split, mounts.splitlines()) if len(fields) > 2}
    if "cgroup" in kinds:
        return "hybrid" if "cgroup2" in kinds else "v1"
    return "v2" if "cgroup2" in kinds else "none"


def networks(route_table: str) -> tuple[Network, ...]:
    """The destinations of /proc/net/route without the default route."""
    found = []
    for fields in map(str.split, route_table.splitlines()[1:]):
        address, mask = (int.from_bytes(bytes.fromhex(fields[i])[::-1], "big") for i in (1, 7))
        if mask:
            found.append(Network((address, mask.bit_count())))
    return tuple(found)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _succeeds(argv: list[str]) -> bool:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _forwarding_rules(as_root: list[str]) -> tuple[str, ...]:
    try:
        done = subprocess.run(
            [*as_root, "iptables", "-S"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(done.stdout.splitlines()) if done.returncode == 0 else ()


def _container(environ: Mapping[str, str]) -> str:
    if "microsoft" in platform.release().lower():
        return "wsl"
    return _text("/run/systemd/container").strip() or environ.get("container", "")


def _user_name(uid: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return str(uid)


def _disk_free(folder: Path) -> int | None:
    place = _nearest(folder)
    disk = shutil.disk_usage(place)
    return disk.free if place.is_dir() and disk.total else None


def _nearest(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder
