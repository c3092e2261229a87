# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Any sequence of roles, site edits and kills, then restore: the node is as it was, or the difference is named."""

from __future__ import annotations

import contextlib
import os
import typing as t

from hypothesis import given, note
from hypothesis import strategies as st
from unit.plugins.module_utils._record.fake_node import FakeNode, Killed, Mortal, World
from unit.plugins.module_utils._record.site_node import MADE, RECORD, call, restore, world_in_a_folder

FILES = ("/etc/app/one.conf", "/etc/app/two.conf", "/opt/new/deep/three.bin")
UNITS = ("site.service", "idle.service")

files = st.lists(
    st.builds(
        lambda path, text, mode: {"path": path, "text": text, "mode": mode},
        st.sampled_from(FILES),
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
        st.sampled_from(UNITS),
        st.sampled_from([None, "started", "stopped"]),
        st.sampled_from([None, True, False]),
    ),
    max_size=2,
    unique_by=lambda item: item["name"],
)


# Built once: Hypothesis looks through every new strategy, which takes longer than to draw from it.
yes_or_no = st.booleans()
unit_texts = st.sampled_from(["[Service]\nA=1\n", "[Service]\nA=2\n"])
other_packages = st.sampled_from([(), ("tool",)])
kernel_modules = st.lists(st.sampled_from(["fresh_module", "loaded-before"]), max_size=2, unique=True)
other_directories = st.sampled_from([(), ({"path": "/srv/data", "mode": "0750"},)])
links = st.sampled_from([(), *(({"path": "/etc/link", "target": target},) for target in ("app/one.conf", "x"))])
gone = st.sampled_from([(), ("/etc/old.conf",)])
states = st.sampled_from(["started", "stopped"])


@st.composite
def roles(draw: st.DrawFn) -> t.Dict[str, t.Any]:
    """What a role may ask for."""
    own = draw(yes_or_no)
    package = draw(yes_or_no)
    wanted_files = draw(files)
    if package and draw(yes_or_no):
        wanted_files.append({"path": "/etc/daemon/daemon.conf", "text": "ours\n", "mode": None})
    unit = [
        {
            "path": "/etc/systemd/system/ours.service",
            "text": draw(unit_texts),
        }
    ]
    return {
        "role": "main",
        "packages": [*(["daemon"] if package else []), *draw(other_packages)],
        "made": MADE if own else (),
        "kernel_modules": draw(kernel_modules),
        "sysctls": [{"name": "net.ipv4.ip_forward", "value": "1"}] if draw(yes_or_no) else [],
        "directories": [
            {"path": "/opt/new/deep"},
            *draw(other_directories),
        ],
        "files": wanted_files + (unit if own else []),
        "lines": draw(line_edits),
        "links": [*draw(links)],
        "absent": [*draw(gone)],
        "units": [
            *draw(units),
            *([{"name": "ours.service", "state": "started", "enabled": True}] if own else []),
            *([{"name": "daemon", "state": draw(states)}] if package else []),
        ],
    }


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


EDITED = (
    *FILES,
    "/etc/daemon/daemon.conf",
    "/etc/daemon/more.conf",
    "/etc/tool/tool.conf",
    "/etc/lines.conf",
    "/etc/site.conf",
    "/etc/bare.conf",
    "/etc/fresh.conf",
    "/etc/old.conf",
)


@given(wanted=st.lists(roles(), min_size=1, max_size=3), edited=st.lists(st.sets(st.sampled_from(EDITED)), min_size=3))
def test_what_the_site_writes_in_between_stays_or_is_kept(
    wanted: t.List[t.Dict[str, t.Any]], edited: t.List[t.Set[str]]
) -> None:
    with world_in_a_folder() as world:
        marks = []
        for at, arguments in enumerate(wanted):
            call(world, FakeNode(world), arguments)
            for path in sorted(name for name in edited[at] if os.path.exists(world.at(name))):
                marks.append(f"site mark {at} in {path};")
                world.write(path, world.text(path) + marks[-1] + "\n")
        report = restore(FakeNode(world))
        note(str(report))
        there = [path for path in EDITED if os.path.exists(world.at(path))]
        text = "".join(world.text(path) for path in [*there, *report.kept])
        assert [mark for mark in marks if mark not in text] == []


def visible(world: World) -> t.Dict[str, t.Any]:
    """Without the record and times."""
    listing = world.listing()
    return {
        name: what[:-1] if isinstance(what, tuple) and what[0] == "file" else what
        for name, what in listing.items()
        if not name.startswith(RECORD)
    }
