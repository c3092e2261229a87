# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the whole machine that kubelets, container networks and eight systemds change: saved and put back.

The first bed saves them and the last one puts them back. Which beds there are is written in the
same file as the values, under one lock, so that beds that go at the same moment do not both leave it to the other.
A value that no bed has made is an administrator's, who changed it meanwhile: it stays, and is named.
"""

from __future__ import annotations

import json
from collections.abc import Set
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
RAISED = {
    # Every systemd, containerd and kubelet opens several inotify instances, all as the same user.
    "fs/inotify/max_user_instances": 8192,
    "fs/inotify/max_user_watches": 524288,
    # A container begins with the machine's value. The engine sets it to 1 for the first network, while the first bed's
    # containers start: some would begin with 0, and have 1 after their next start.
    "net/ipv4/ip_forward": 1,
}


# What every kubelet sets, whoever starts it.
KUBELETS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
# What each node of a bed has instead, in a file over each: none of these has a namespace, and beds would see each
# other's. None is what a kubelet wants, so that a test sees it change and go back.
OF_NODES = {
    "vm/overcommit_memory": "0",
    "vm/panic_on_oom": "1",
    "kernel/panic": "30",
    "kernel/panic_on_oops": "0",
    "kernel/keys/root_maxkeys": "2000",
    "kernel/keys/root_maxbytes": "2000000",
}
OURS = {**KUBELETS, **{key: str(least) for key, least in RAISED.items()}}


def hold(bed: str) -> None:
    """Register a bed; the first one saves the values. May be repeated."""
    with file_lock("sysctls", timeout=300, what="the machine's sysctls"):
        saved = load()
        saved["beds"] = sorted({*saved["beds"], bed})
        write_synced(store(), json.dumps(saved, indent=1))
        for key, least in RAISED.items():
            if int(read(key)) < least:
                (PROC_SYS / key).write_text(str(least))


def note_changes() -> None:
    """Write down what has become of the values by now: called when a bed is whole, so it is the beds' doing."""
    with file_lock("sysctls", timeout=300, what="the machine's sysctls"):
        saved = load()
        for key, before in saved["values"].items():
            now = current(key)
            if now not in (None, before):
                saved["made"][key] = sorted({*saved["made"].get(key, ()), now})
        write_synced(store(), json.dumps(saved, indent=1))


def release(bed: str) -> None:
    """Strike a bed off; the last one puts back every value that the beds have changed. May be repeated."""
    with file_lock("sysctls", timeout=300, what="the machine's sysctls"):
        if not store().exists():
            return
        saved = load()
        # One whose folder was removed by hand will never be struck off by itself.
        saved["beds"] = [other for other in saved["beds"] if other != bed and bed_dir(other).exists()]
        if saved["beds"]:
            write_synced(store(), json.dumps(saved, indent=1))
            return
        for key, value in saved["values"].items():
            put_back(key, value, made={*saved["made"].get(key, ()), OURS.get(key)})
        store().unlink()


def put_back(key: str, value: str, *, made: Set[str | None]) -> None:
    """One value as it was; one that cannot be set any more is named and keeps nobody from removing the rest."""
    now = current(key)
    if now in (None, value):
        return
    name = key.replace("/", ".")
    if now not in made:
        say(f"  !!  sysctl {name}: is {now}, which no bed has set, and stays so (it was {value} before the first bed)")
        return
    try:
        (PROC_SYS / key).write_text(value)
    except OSError as error:
        say(f"  !!  sysctl {name}: was {value}, and cannot be put back ({error.strerror})")


def current(key: str) -> str | None:
    """The value now, or None where its kernel module was unloaded meanwhile."""
    try:
        return read(key)
    except FileNotFoundError:
        return None


def store() -> Path:
    """The file with the values of before."""
    return cache_dir() / "sysctls.json"


def load() -> dict[str, Any]:
    """What was saved since the machine booted, or today's values."""
    boot = BOOT_ID.read_text().strip()
    if store().exists():
        saved: dict[str, Any] = json.loads(store().read_text())
        if saved["boot"] == boot:
            return {"made": {}, **saved}
    present = [key for key in KEPT if (PROC_SYS / key).exists()]
    return {"boot": boot, "beds": [], "values": {key: read(key) for key in present}, "made": {}}


def read(key: str) -> str:
    """A value as the kernel prints it."""
    return (PROC_SYS / key).read_text().strip()
