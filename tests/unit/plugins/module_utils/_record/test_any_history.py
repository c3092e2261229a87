# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Any sequence of roles, site edits and kills, then restore: the node is as it was, or the difference is named."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import typing as t

from ansible_collections.converged.hpc.plugins.module_utils._record import desired as desired_
from ansible_collections.converged.hpc.plugins.module_utils._record.contents import Contents
from ansible_collections.converged.hpc.plugins.module_utils._record.session import Report, Session
from hypothesis import given, note
from hypothesis import strategies as st
from unit.plugins.module_utils._record.fake_node import FakeNode, Killed, Mortal, Package, World

RECORD = "/var/lib/converged/record"
FILES = ("/etc/app/one.conf", "/etc/app/two.conf", "/etc/site.conf", "/opt/new/deep/three.bin")
LINES = ("alpha 1", "beta 2", "gamma 3", "Prolog=/ours")
UNITS = ("site.service", "idle.service", "ours.service", "daemon.service")
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
            needs=("library",),
        ),
        "library": Package("library", {"/usr/lib/library.so": "so"}),
        "editor": Package("editor", {"/usr/bin/editor": "e"}),
        "base": Package("base"),
    }
    world.installed = {"base"}
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
    wanted = desired_.parse(dict(arguments, files=files), inline=inline)
    session = Session(host, RECORD, wait=0)
    return session.converge(desired_.resolve(host, wanted), Contents(inline), check=check, show=True)


def restore(host: FakeNode, role: str = "") -> Report:
    return Session(host, RECORD, wait=0).restore(role)


files = st.lists(
    st.builds(
        lambda path, text, mode: {"path": path, "text": text, "mode": mode},
        st.sampled_from(FILES[:2] + FILES[3:]),
        st.sampled_from(["one\n", "ours 1\n", "ours 2\n"]),
        st.sampled_from([None, "0644", "0600"]),
    ),
    max_size=3,
    unique_by=lambda item: item["path"],
)
line_edits = st.lists(
    st.builds(
        lambda path, edit: {"path": path, "create": True, **edit},
        st.sampled_from(["/etc/lines.conf", "/etc/site.conf", "/etc/bare.conf", "/etc/fresh.conf"]),
        st.sampled_from(
            [
                {"line": "extra 1"},
                {"line": "extra 2"},
                {"line": "Prolog=/ours", "regexp": "^Prolog="},
                {"line": "alpha 0", "state": "absent"},
            ]
        ),
    ),
    max_size=3,
)
units = st.lists(
    st.builds(
        lambda name, state, enabled: {"name": name, "state": state, "enabled": enabled},
        st.sampled_from(UNITS[:2]),
        st.sampled_from([None, "started", "stopped"]),
        st.sampled_from([None, True, False]),
    ),
    max_size=2,
    unique_by=lambda item: item["name"],
)


@st.composite
def roles(draw: st.DrawFn) -> t.Dict[str, t.Any]:
    """What a role may ask for."""
    own = draw(st.booleans())
    package = draw(st.booleans())
    wanted_files = draw(files)
    unit = [
        {
            "path": "/etc/systemd/system/ours.service",
            "text": draw(st.sampled_from(["[Service]\nA=1\n", "[Service]\nA=2\n"])),
        }
    ]
    return {
        "role": "main",
        "packages": ["daemon"] if package else [],
        "kernel_modules": draw(st.lists(st.sampled_from(["fresh_module", "loaded-before"]), max_size=2, unique=True)),
        "sysctls": draw(st.sampled_from([[], [{"name": "net.ipv4.ip_forward", "value": "1"}]])),
        "directories": [
            {"path": "/opt/new/deep"},
            *draw(st.sampled_from([[], [{"path": "/srv/data", "mode": "0750"}]])),
        ],
        "files": wanted_files + (unit if own else []),
        "lines": draw(line_edits),
        "links": draw(
            st.sampled_from(
                [[], [{"path": "/etc/link", "target": "app/one.conf"}], [{"path": "/etc/link", "target": "x"}]]
            )
        ),
        "absent": draw(st.sampled_from([[], ["/etc/old.conf"]])),
        "units": [
            *draw(units),
            *([{"name": "ours.service", "state": "started", "enabled": True}] if own else []),
            *([{"name": "daemon", "state": draw(st.sampled_from(["started", "stopped"]))}] if package else []),
        ],
    }


@contextlib.contextmanager
def world_in_a_folder() -> t.Iterator[World]:
    root = tempfile.mkdtemp()
    try:
        yield new_world(root)
    finally:
        shutil.rmtree(root)


@given(wanted=st.lists(roles(), min_size=1, max_size=3))
def test_after_any_roles_a_restore_gives_the_very_node_back(wanted: t.List[t.Dict[str, t.Any]]) -> None:
    with world_in_a_folder() as world:
        before = world.listing()
        for arguments in wanted:
            call(world, FakeNode(world), arguments)
        report = restore(FakeNode(world))
        note(str(report))
        assert not report.left
        assert not report.site
        assert world.listing() == before


@given(wanted=st.lists(roles(), min_size=1, max_size=3), second=roles())
def test_what_was_done_is_not_done_again_and_check_mode_foretells_it(
    wanted: t.List[t.Dict[str, t.Any]], second: t.Dict[str, t.Any]
) -> None:
    with world_in_a_folder() as world:
        for arguments in wanted:
            call(world, FakeNode(world), arguments)
        untouched = world.listing()
        foretold = call(world, FakeNode(world), second, check=True)
        assert world.listing() == untouched
        done = call(world, FakeNode(world), second)
        assert foretold.changed == done.changed
        settled = visible(world)
        again = call(world, FakeNode(world), second)
        assert again.steps == []
        assert not again.changed
        assert visible(world) == settled


@given(wanted=st.lists(roles(), min_size=1, max_size=3), life=st.integers(0, 400), second_life=st.integers(0, 400))
def test_killed_anywhere_then_run_again_or_restored_nothing_is_lost(
    wanted: t.List[t.Dict[str, t.Any]], life: int, second_life: int
) -> None:
    with world_in_a_folder() as world:
        before = world.listing()
        with contextlib.suppress(Killed):
            host = Mortal(world, life)
            for arguments in wanted:
                call(world, host, arguments)
        with contextlib.suppress(Killed):
            call(world, Mortal(world, second_life), wanted[-1])
        with contextlib.suppress(Killed):
            restore(Mortal(world, life % 60))
        with contextlib.suppress(Killed):
            restore(Mortal(world, second_life % 60))
        report = restore(FakeNode(world))
        note(str(report))
        assert not report.left
        assert world.listing() == before


@given(wanted=roles(), life=st.integers(0, 400))
def test_killed_anywhere_the_next_run_ends_where_an_unharmed_one_does(wanted: t.Dict[str, t.Any], life: int) -> None:
    with world_in_a_folder() as world, world_in_a_folder() as unharmed:
        with contextlib.suppress(Killed):
            call(world, Mortal(world, life), wanted)
        call(world, FakeNode(world), wanted)
        call(unharmed, FakeNode(unharmed), wanted)
        assert visible(world) == visible(unharmed)
        assert not call(world, FakeNode(world), wanted).changed


def visible(world: World) -> t.Dict[str, t.Any]:
    """Without the record and times."""
    listing = world.listing()
    return {
        name: what[:-1] if isinstance(what, tuple) and what[0] == "file" else what
        for name, what in listing.items()
        if not name.startswith(RECORD)
    }
