# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the whole machine that kubelets, container networks and eight systemds change: saved and put back.

The first bed saves them and the last one puts them back. Which beds there are is written in the
same file as the values, under one lock, so that beds that go at the same moment do not both leave it to the other.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from testbed.paths import bed_dir, cache_dir
from testbed.progress import say
from testbed.state import file_lock, write_synced

PROC_SYS = Path("/proc/sys")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
KEPT = (
    *("vm/overcommit_memory", "vm/panic_on_oom", "vm/max_map_count", "vm/swappiness", "vm/mmap_min_addr"),
    *("kernel/panic", "kernel/panic_on_oops", "kernel/pid_max", "kernel/sysrq", "kernel/core_pattern"),
    *("kernel/core_uses_pid", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "kernel/printk"),
    *("fs/inotify/max_user_instances", "fs/inotify/max_user_watches", "fs/file-max", "fs/nr_open", "fs/aio-max-nr"),
    *("fs/protected_hardlinks", "fs/protected_symlinks", "fs/protected_fifos", "fs/protected_regular"),
    *("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/ipv6/conf/default/forwarding"),
    *("net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"),
)
# Every systemd, containerd and kubelet opens several inotify instances, all as the same user.
RAISED = {"fs/inotify/max_user_instances": 8192, "fs/inotify/max_user_watches": 524288}


def hold(bed: str) -> None:
    """Register a bed; the first one saves the values. May be repeated."""
    with file_lock("sysctls", timeout=30, what="the machine's sysctls"):
        saved = load()
        saved["beds"] = sorted({*saved["beds"], bed})
        write_synced(store(), json.dumps(saved, indent=1))
        for key, least in RAISED.items():
            if int(read(key)) < least:
                (PROC_SYS / key).write_text(str(least))


def release(bed: str) -> None:
    """Strike a bed off; the last one puts back every value that is no longer as it was. May be repeated."""
    with file_lock("sysctls", timeout=30, what="the machine's sysctls"):
        if not store().exists():
            return
        saved = load()
        # One whose folder was removed by hand will never be struck off by itself.
        saved["beds"] = [other for other in saved["beds"] if other != bed and bed_dir(other).exists()]
        if saved["beds"]:
            write_synced(store(), json.dumps(saved, indent=1))
            return
        for key, value in saved["values"].items():
            put_back(key, value)
        store().unlink()


def put_back(key: str, value: str) -> None:
    """One value as it was; one that cannot be set any more is named and keeps nobody from removing the rest."""
    try:
        if read(key) != value:
            (PROC_SYS / key).write_text(value)
    except FileNotFoundError:
        # Its kernel module was unloaded meanwhile: there is nothing to put back.
        return
    except OSError as error:
        say(f"  !!  sysctl {key.replace('/', '.')}: was {value}, and cannot be put back ({error.strerror})")


def store() -> Path:
    """The file with the values of before."""
    return cache_dir() / "sysctls.json"


def load() -> dict[str, Any]:
    """What was saved since the machine booted, or today's values."""
    boot = BOOT_ID.read_text().strip()
    if store().exists():
        saved: dict[str, Any] = json.loads(store().read_text())
        if saved["boot"] == boot:
            return saved
    present = [key for key in KEPT if (PROC_SYS / key).exists()]
    return {"boot": boot, "beds": [], "values": {key: read(key) for key in present}}


def read(key: str) -> str:
    """A value as the kernel prints it."""
    return (PROC_SYS / key).read_text().strip()
