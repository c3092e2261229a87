# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads from a node all that a plan needs, and nothing else: one value that `plan` and `restore` then work on."""

from __future__ import annotations

import os
import typing as t
from dataclasses import dataclass, field

from ..host.host import Host
from ..host.paths import parents
from ..model.errors import RecordError
from ..model.items import (
    DIRECTORY,
    FILE,
    NOTHING,
    Desired,
    DirectoryItem,
    FileItem,
    PathState,
    State,
    UnitState,
    split_key,
)
from ..model.replay import View
from . import kernel, mount, package, packet_filter, path, unit

TEXT_LIMIT = 1 << 16
MADE_KINDS = ("sysctl", "mount", "filter")


@dataclass
class Found:
    """A node as it is."""

    paths: t.Dict[str, PathState] = field(default_factory=dict)
    texts: t.Dict[str, bytes] = field(default_factory=dict)  # of files that are edited, or shown in a diff
    names: t.Dict[str, t.List[str]] = field(default_factory=dict)  # what directories hold
    immutable: t.Set[str] = field(default_factory=set)
    sysctls: t.Dict[str, t.Optional[str]] = field(default_factory=dict)
    mounts: t.Dict[str, str] = field(default_factory=dict)  # directories -> how often each is mounted on itself
    tables: t.Optional[packet_filter.Tables] = None
    modules: t.Dict[str, str] = field(default_factory=dict)
    packages: t.Dict[str, str] = field(default_factory=dict)
    configured: t.Set[str] = field(default_factory=set)  # packages that were removed and not purged
    needed: t.Dict[str, str] = field(default_factory=dict)  # packages of ours that cannot go -> who needs them
    blocked: str = ""  # why no package of ours can go now
    own_files: t.List[package.OwnFile] = field(default_factory=list)  # configuration of packages of ours
    units: t.Dict[str, UnitState] = field(default_factory=dict)
    owners: t.Dict[str, t.Optional[int]] = field(default_factory=dict)
    groups: t.Dict[str, t.Optional[int]] = field(default_factory=dict)
    ids: t.Tuple[int, int] = (0, 0)

    def path(self, name: str) -> PathState:
        """Return what is at a path that was looked at."""
        return self.paths.get(name, NOTHING)

    def state(self, key: str) -> State:
        """Return what the record calls the state of a thing."""
        kind, name = split_key(key)
        if kind == "path":
            return self.path(name)
        if kind == "unit":
            return self.units[name]
        if kind == "sysctl":
            return self.sysctls[name]
        if kind == "module":
            return self.modules[name]
        if kind == "mount":
            return self.mounts[name]
        if kind == "filter":
            return None if self.tables is None else self.tables.state
        return self.packages.get(name, package.CONFIGURED if name in self.configured else "")

    def is_pristine(self, path: str) -> bool:
        """Return whether a file is configuration of a package of ours, as the package brought it."""
        return any(file.path == path and file.is_pristine for file in self.own_files)


def observe(host: Host, desired: Desired, *, show: bool) -> Found:
    """Read all that `desired` speaks of. `show`: also the texts that a diff needs."""
    found = Found(ids=host.ids())
    files = [item.path for item in desired.files]
    edits = [item.path for item in desired.edits]
    directories = [item.path for item in desired.directories]
    places = [*files, *edits, *directories, *(item.path for item in desired.links), *desired.absent]
    inputs = [name for item in desired.units for name in item.restart_on or ()]
    above = [folder for name in places for folder in parents(name)]
    for name in dict.fromkeys([*places, *inputs, *above]):
        found.paths[name] = path.read(host, name)
    found.immutable = {
        name for name in [*places] if found.path(name).kind in (FILE, DIRECTORY) and host.immutable(name)
    }
    for name in desired.absent:
        if found.path(name).kind == DIRECTORY:
            found.names[name] = host.names(name)
    shown = [item.path for item in desired.files if show and not item.secret]
    for name in [*edits, *shown]:
        state = found.path(name)
        if state.kind == FILE and (name in edits or state.size <= TEXT_LIMIT):
            found.texts[name] = host.read(name)
    wanted: t.List[t.Union[FileItem, DirectoryItem]] = [*desired.files, *desired.directories]
    found.owners = {item.owner: host.owner_id(item.owner) for item in wanted if item.owner}
    found.groups = {item.group: host.group_id(item.group) for item in wanted if item.group}
    found.sysctls = {name: kernel.read_sysctl(host, name) for name in dict(desired.sysctls)}
    found.modules = {name: kernel.read_module(host, name) for name in desired.modules}
    _look_at_made(host, found, {kind: [item.name for item in desired.made if item.kind == kind] for kind in MADE_KINDS})
    if desired.packages:
        packages = package.manager(host)
        found.packages, found.configured = packages.installed(), packages.configured()
    found.units = unit.read_all(host, _units(desired))
    return found


def _look_at_made(host: Host, found: Found, names: t.Mapping[str, t.Sequence[str]]) -> None:
    found.sysctls.update((name, kernel.read_sysctl(host, name)) for name in names.get("sysctl", ()))
    found.mounts = {name: mount.read(host, name) for name in names.get("mount", ())}
    if names.get("filter"):
        found.tables = packet_filter.read(host)


def _units(desired: Desired) -> t.List[str]:
    """Return units that are named, and those with unit files or drop-ins of ours: systemd may have to read them."""
    if not (desired.units or desired.files or desired.links):
        return []
    named = [item.name for item in desired.units]
    places = [*(item.path for item in desired.files), *(item.path for item in desired.links), *desired.absent]
    owned = [unit.unit_of(name) for name in places]
    known = [name for name in owned if os.path.splitext(name)[1] in _LOADABLE and "@." not in name]
    return list(dict.fromkeys([*named, *known]))


_LOADABLE = (".service", ".socket", ".timer", ".target", ".path", ".mount", ".automount", ".slice", ".swap")


def look_again(host: Host, view: View, keys: t.Iterable[str], role: str = "", cut: str = "") -> Found:
    """Read what the record's `keys` are now.

    `role`: the one that lets go of them, or empty for all. `cut`: why packages that are half-way could not be ended.
    """
    found = Found(ids=host.ids())
    names: t.Dict[str, t.List[str]] = {}
    for key in keys:
        kind, name = split_key(key)
        names.setdefault(kind, []).append(name)
    for place in names.get("path", []):
        state = found.paths[place] = path.read(host, place)
        edited = any(pair[0] == f"path:{place}" for pair in view.pairs)
        if state.kind == DIRECTORY:
            found.names[place] = host.names(place)
        elif state.kind == FILE and (edited or state.size <= TEXT_LIMIT):
            found.texts[place] = host.read(place)
    _look_at_made(host, found, names)
    found.modules = {name: kernel.read_module(host, name) for name in names.get("module", [])}
    if "package" in names:
        packages = package.manager(host)
        found.packages = packages.present()
        there = {name for name, state in found.packages.items() if state != package.CONFIGURED}
        ours = [name for name in names["package"] if view.wrote.get(f"package:{name}") and name in there]
        going = [name for name in ours if not role or not set(view.claims.get(f"package:{name}", {})) - {role}]
        try:
            if cut and not set(packages.half_unpacked()).isdisjoint(view.packages()):
                found.blocked = cut  # without the others it could not be unpacked again
            found.needed = package.needed(packages, going)
        except RecordError as error:  # the rest goes back all the same
            found.blocked = str(error)
    ours = view.packages()
    if ours and ("package" in names or found.paths):
        found.own_files = package.manager(host).own_files(ours)
    found.units = unit.read_all(host, names.get("unit", []))
    return found
