# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Undo of kernel modules, sysctls, mounts, packet filter and packages. Pure."""

from __future__ import annotations

import typing as t

from ..kinds import packet_filter
from ..kinds.package import CONFIGURED, is_installed
from ..model.items import FILE, NOTHING, key
from ..model.replay import Entry
from .builder import UndoBuilder


def undo_kernel(builder: UndoBuilder, entry: Entry) -> None:
    """Plan how a kernel module or a sysctl goes back, or say why it stays."""
    was, now = entry.state, builder.found.state(entry.key)
    wrote = builder.wrote(entry.key)
    if not wrote or was == now:
        builder.undo.proved.append(entry.key)
    elif entry.kind == "module":
        builder.step("kernel", "module", entry.name, "unload", f"unload kernel module {entry.name}")
    elif now not in wrote:
        builder.undo.site[entry.key] = (
            f"sysctl {entry.name}: is {now}, which the site set since; before us it was {was}"
        )
    elif was is None:
        builder.undo.left[entry.key] = f"the setting came with a kernel module, which is still loaded (now {now})"
    else:
        builder.step("kernel", "sysctl", entry.name, "set", f"set {entry.name} = {was}", was)


def undo_mount(builder: UndoBuilder, entry: Entry) -> None:
    """Plan how mounts of ours go. Fewer mounts than before are the site's doing."""
    more = int(builder.found.mounts[entry.name]) - int(str(entry.state))
    if more <= 0:
        builder.undo.proved.append(entry.key)
    else:
        builder.step("unmount", "mount", entry.name, "unmount", f"unmount {entry.name} from itself", more)


def undo_tables(builder: UndoBuilder, entry: Entry) -> None:
    """Plan which tables and chains of the packet filter go, or name those that stay."""
    now = builder.found.tables
    if now is None:
        builder.undo.left[entry.key] = "nft does not tell what the packet filter holds: see `nft --json list ruleset`"
        return
    going, staying = packet_filter.to_delete(now, str(entry.state))
    if going:
        text = f"delete from the packet filter: {', '.join(going)}"
        builder.step("kernel", "filter", entry.name, "delete", text, tuple(going))
    elif staying:
        builder.undo.site[entry.key] = f"packet filter: {', '.join(staying)} came since, and holds rules of others"
    else:
        builder.undo.proved.append(entry.key)


def undo_packages(builder: UndoBuilder, entries: t.Sequence[Entry]) -> None:
    """Plan which packages are removed, and which of the site's files are saved meanwhile."""
    going: t.Dict[str, t.List[str]] = {"remove": [], "purge": []}
    for entry in entries:
        now = builder.found.packages.get(entry.name, "")
        # What a package was that is there now tells whether its configuration is ours to take away.
        if is_installed(entry.state) or now in ("", entry.state) or not builder.wrote(entry.key):
            builder.undo.proved.append(entry.key)
        elif builder.found.blocked:
            builder.undo.left[entry.key] = builder.found.blocked
        elif entry.name in builder.found.needed:
            needer = builder.found.needed[entry.name]
            others = [role for role in builder.view.claims.get(key("package", needer), {}) if role != builder.role]
            if builder.role and others:
                builder.undo.passed[entry.key] = others
            else:
                builder.undo.left[entry.key] = f"is needed by {needer}, which is the site's"
        else:
            going["remove" if entry.state == CONFIGURED else "purge"].append(entry.name)
    _save(builder, going["purge"])
    if going["remove"]:  # one that is to be purged may need one that is not: dpkg takes them away only together
        going["remove"] += going["purge"]
    for verb, found in going.items():
        if found:
            names = " ".join(found)
            builder.step("packages", "package", names, verb, f"{verb} packages {names}", tuple(found))


def _save(builder: UndoBuilder, packages: t.Sequence[str]) -> None:
    """Save configuration that the site has changed, or had before us: it goes with the package and comes back."""
    for file in builder.found.own_files:
        this = key("path", file.path)
        entry = builder.view.entries.get(this)
        if file.package not in packages:
            continue
        if entry is not None and entry.state != NOTHING:
            builder.undo.saved.append(file)  # with its folders, which may go too
        elif entry is None and file.is_there and not file.is_pristine:
            builder.undo.saved.append(file)
            builder.undo.site[this] = f"{file.path}: stays as you have it, though package {file.package} is purged"
            builder.step("packages", "absent", file.path, "remove", f"set {file.path} aside", FILE)
