# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The map from files to the gates that read them: `scopes.toml`, as data.

Every tracked file belongs to one set, the first whose pattern matches it. A gate names the sets that can change its
outcome. A file that belongs to no set counts as an input of every gate: a forgotten entry costs time and hides nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

MAP = Path(__file__).with_name("scopes.toml")
# The set of what runs every gate: the gates themselves, the pinned tools.
EVERYWHERE = "everywhere"


@dataclass(frozen=True, slots=True)
class Scope:
    """End-to-end tests that share beds: one process of pytest, one gate."""

    name: str
    tests: tuple[str, ...]  # files or folders, relative to the checkout
    reads: tuple[str, ...]
    soak: bool  # some of its tests are part of `make soak` only
    repeated: int  # parts of `make soak` into which its repeated tests are divided
    alone: bool = False  # its part of `make soak` runs beside no other gate
    only_soak: bool = False  # no test of it is part of every change
    also: str = ""  # another word that asks for its part of `make soak`, together with others
    machine: str = ""  # the only kind of processor on which it can run; other hosts have no such gate

    def runs_on(self, machine: str) -> bool:
        """Return whether a host with this kind of processor can run it."""
        return self.machine in ("", machine)


@dataclass(frozen=True, slots=True)
class FileMap:
    """The contents of scopes.toml."""

    sets: Mapping[str, tuple[str, ...]]  # name -> patterns; `*` matches `/` too
    gates: Mapping[str, tuple[str, ...]]  # gate -> sets
    scopes: tuple[Scope, ...]

    def set_of(self, path: str) -> str | None:
        """Return the set that a file belongs to."""
        return next(
            (name for name, patterns in self.sets.items() if any(fnmatchcase(path, one) for one in patterns)), None
        )

    def inputs(self, reads: Iterable[str], files: Iterable[Path]) -> list[Path]:
        """Return the files that decide the outcome of a gate that reads these sets."""
        wanted = {EVERYWHERE, None, *reads}
        return sorted(path for path in files if self.set_of(path.as_posix()) in wanted)

    def unread(self, reads: Iterable[str], files: Iterable[Path]) -> set[str]:
        """Return the files that are no input of such a gate, and the folders without one; these end in a slash."""
        every = {*files}
        read = {*self.inputs(reads, every)}
        above = {folder for path in read for folder in path.parents}
        folders = {folder for path in every for folder in path.parents} - above
        return {path.as_posix() for path in every - read} | {f"{folder}/" for folder in folders}


def load(path: Path = MAP) -> FileMap:
    """Read the map; raise ValueError where a gate reads a set that does not exist."""
    data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    sets = {name: tuple(patterns) for name, patterns in data["files"].items()}
    groups = {name: tuple(names) for name, names in data["groups"].items()}

    def sets_of(name: str) -> tuple[str, ...]:
        return tuple(member for one in groups[name] for member in sets_of(one)) if name in groups else (name,)

    def expanded(owner: str, names: Iterable[str]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for name in names:
            members = sets if name == "*" else sets_of(name.removeprefix("-"))
            unknown = sorted({*members} - sets.keys())
            if unknown:
                raise ValueError(f"{path}: '{owner}' reads the set '{unknown[0]}', which is not in [files] or [groups]")
            for member in members:
                found.pop(member, None) if name.startswith("-") else found.setdefault(member)
        return tuple(found)

    scopes = tuple(
        Scope(
            name=name,
            tests=tuple(one["tests"]),
            reads=expanded(name, [name, *one["reads"]]),
            soak=one.get("soak", False),
            repeated=one.get("repeated", 0),
            alone=one.get("alone", False),
            only_soak=one.get("only_soak", False),
            also=one.get("also", ""),
            machine=one.get("machine", ""),
        )
        for name, one in data["scopes"].items()
    )
    return FileMap(sets, {name: expanded(name, names) for name, names in data["gates"].items()}, scopes)
