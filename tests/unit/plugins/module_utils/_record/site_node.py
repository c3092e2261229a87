# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site's node to begin with, and one call of the module or a restore on it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import typing as t
from dataclasses import replace

from ansible_collections.converged.hpc.plugins.module_utils._record.model.items import MadeItem
from ansible_collections.converged.hpc.plugins.module_utils._record.request import desired as desired_
from ansible_collections.converged.hpc.plugins.module_utils._record.request.contents import Contents
from ansible_collections.converged.hpc.plugins.module_utils._record.run.session import Report, Session
from unit.plugins.module_utils._record.fake_node import MOUNTED, MOUNTINFO, FakeNode, Package, World

RECORD = "/var/lib/converged/record"


def _in_memory() -> t.Optional[str]:
    """Where fsync costs nothing, if extended attributes work there (Linux 6.6 and newer)."""
    with contextlib.suppress(OSError), tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        os.setxattr(file.name, "user.test", b"1")
        return "/dev/shm"
    return None


MEMORY = _in_memory()
# What a program makes of a node by itself when it starts, as a kubelet does.
MADE = (("sysctl", "kernel.panic", "10"), ("mount", MOUNTED, "on itself"), ("filter", "ruleset", "more"))
SITE_CONF = "# the site's own\nProlog=/site/prolog\n\nalpha 0\n"


def new_world(root: str) -> World:
    """A node of a site: files with attributes, services, packages, kernel settings."""
    world = World(root)
    world.write("/etc/site.conf", SITE_CONF, mode=0o640)
    world.write("/etc/app/one.conf", "one\n", mode=0o604)
    world.write("/etc/lines.conf", SITE_CONF)
    world.write("/etc/bare.conf", "no newline")
    world.write("/etc/old.conf", "old\n")
    world.write("/etc/systemd/system/site.service", "[Service]\nExecStart=/bin/site\n")
    world.write("/etc/systemd/system/idle.service", "[Service]\nExecStart=/bin/idle\n")
    world.write("/proc/sys/net/ipv4/ip_forward", "0\n")
    world.write("/sys/module/loaded_before/refcnt", "0\n")
    world.write("/usr/bin/dpkg-query", "")
    for folder in ("/etc/sysctl.d", "/etc/modules-load.d", "/var/lib", "/opt"):
        os.makedirs(world.at(folder), exist_ok=True)
    os.setxattr(world.at("/etc/app/one.conf"), "user.site", b"kept")
    for path in ("/etc/site.conf", "/etc/app/one.conf", "/etc/lines.conf", "/etc/old.conf", "/etc/bare.conf"):
        os.utime(world.at(path), ns=(10**18, 10**18))
    world.running.add("site.service")
    world.enable("site.service")
    world.offered = {
        "daemon": Package(
            "daemon",
            {"/usr/lib/systemd/system/daemon.service": "[Service]\n", "/usr/bin/daemon": "x"},
            {"/etc/daemon/daemon.conf": "as it came\n", "/etc/daemon/more.conf": "as it came\n"},
            needs=("library",),
        ),
        "library": Package("library", {"/usr/lib/library.so": "so"}),
        "editor": Package("editor", {"/usr/bin/editor": "e"}),
        "tool": Package("tool", {"/usr/bin/tool": "t"}, {"/etc/tool/tool.conf": "as it came\n"}),
        "base": Package("base"),
    }
    world.installed = {"base"}
    world.changes_the_node = "ours.service"
    # The site has had it, and has kept its configuration.
    world.configured = {"tool"}
    world.write("/etc/tool/tool.conf", "as the site has it\n")
    world.tables = {"inet site": {"input": True}, "ip filter": {"FORWARD": False}}
    world.write("/proc/sys/kernel/panic", "0\n")
    world.write(MOUNTINFO, "1 0 8:1 /volume / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /proc rw - proc proc rw\n")
    os.makedirs(world.at(MOUNTED))
    os.makedirs(world.at("/usr/lib/systemd/system"), exist_ok=True)
    return world


def call(world: World, host: FakeNode, arguments: t.Dict[str, t.Any], *, check: bool = False) -> t.Any:
    """One module call: contents are given as text and travel as they do in a bundle."""
    inline: t.Dict[str, bytes] = {}
    files = []
    for item in arguments.get("files", []):
        data = item["text"].encode()
        sha256 = hashlib.sha256(data).hexdigest()
        inline[sha256] = data
        files.append(dict(item, sha256=sha256, size=len(data)))
    made = tuple(MadeItem(*item) for item in arguments.get("made", ()))
    wanted = replace(desired_.parse(dict(arguments, files=files), inline=inline), made=made)
    session = Session(host, RECORD, wait=0)
    return session.converge(desired_.resolve(host, wanted), Contents(inline), check=check, show=True)


def restore(host: FakeNode, role: str = "") -> Report:
    return Session(host, RECORD, wait=0).restore(role)


@contextlib.contextmanager
def world_in_a_folder() -> t.Iterator[World]:
    root = tempfile.mkdtemp(dir=MEMORY)
    try:
        yield new_world(root)
    finally:
        shutil.rmtree(root)
