# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of a machine's disks: whether there is room, and whether what is written lasts. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import typing as t

from ..model import JSON, Findings, Machine, note, refuse, shown, warn

GIB = 1024**3
_LOST_AT_REBOOT = {"tmpfs", "ramfs", "rootfs", "overlay", "nfs", "nfs4", "squashfs", "aufs"}
_SYSTEM_NEEDS = 0.5
_FULL = 0.85


def room(node: Machine) -> Findings:
    """Judge room for images and pods; what lies in /etc and /usr is little. Each file system is judged once."""
    judged = set()
    for path, disk in sorted(node.found["disks"].items(), key=_state_first):
        if disk["read_only"]:
            text = f"{path} lies on {disk['mount']}, which is read-only"
            yield refuse("disk", text, "make it writable, or put the path on a disk of its own")
        elif disk["mount"] not in judged:
            judged.add(disk["mount"])
            yield from _free(path, disk, node.min_free if _is_state(path) else min(node.min_free, _SYSTEM_NEEDS))


def _free(path: str, disk: JSON, needed: float) -> Findings:
    free, size = disk["free"] / GIB, disk["size"] / GIB
    if free < needed:
        text = f"{disk['mount']} has {free:.1f} GiB free, and {path} on it needs {needed:g}"
        yield refuse("disk", text, "free some, or lower share_preflight_min_free")
    elif size and free < (1 - _FULL) * size:
        text = f"{disk['mount']} is {100 - 100 * free / size:.0f} % full"
        yield warn("disk", text, "the kubelet evicts pods from 85 % (images) and 90 % on")


def _is_state(path: str) -> bool:
    return path.startswith("/var/")


def _state_first(item: t.Tuple[str, JSON]) -> t.Tuple[bool, str]:
    return not _is_state(item[0]), item[0]


def stateless(node: Machine) -> Findings:
    """Judge a root that forgets, as Warewulf, xCAT and BCM boot it."""
    lost = {
        disk["mount"]: disk["type"]
        for path, disk in sorted(node.found["disks"].items())
        if disk["type"] in _LOST_AT_REBOOT and path != "/usr"
    }
    names = shown([f"{mount} ({kind})" for mount, kind in sorted(lost.items())])
    if lost and node.found["container"] and set(lost.values()) == {"overlay"}:
        yield note("stateless", f"this node is a container ({node.found['container']}) on {names}")
    elif lost:
        yield refuse(
            "stateless",
            f"{names} does not outlive a reboot or is shared: programs, identity and record would be lost",
            "put /etc, /var/lib/kubelet, /var/lib/containerd and /var/lib/converged on a local disk",
        )
