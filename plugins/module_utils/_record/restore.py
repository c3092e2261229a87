# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done so that a node is as it was before us. Pure: record and found in, steps and verdicts out.

It is planned, done and planned again until nothing is left to do; the last plan is the proof. Nothing that the site has
made since is lost: its version of a whole file is kept aside, its lines in an edited file stay, and what is not ours
to take away (a unit it started, a setting it changed) is left and named.
"""

from __future__ import annotations

import typing as t

from .kinds import packet_filter
from .kinds.package import CONFIGURED, is_installed
from .model import FILE, NOTHING, key
from .observe import Found
from .undo import PHASES, Undo
from .undo_paths import PathsUndo
from .undo_units import UnitsUndo
from .view import Entry, View


def plan_undo(
    view: View,
    found: Found,
    entries: t.Sequence[Entry],
    *,
    role: str,
    text_of: t.Callable[[str], bytes],
    done: t.Container[str] = (),
) -> Undo:
    """`role` empty means every role. `done`: units that were started again in an earlier round."""
    return _Undoer(view, found, role, text_of, done).run(entries)


class _Undoer(PathsUndo, UnitsUndo):
    def run(self, entries: t.Sequence[Entry]) -> Undo:
        packages = []
        for entry in sorted(entries, key=lambda entry: entry.order, reverse=True):
            if self.is_shared(entry.key) and not self.is_edited(entry.key):
                self.undo.shared.append(entry.key)
            elif entry.kind == "path":
                self.path(entry)
            elif entry.kind == "unit":
                self.unit(entry)
            elif entry.kind == "package":
                packages.append(entry)
            elif entry.kind == "mount":
                self._mount(entry)
            elif entry.kind == "filter":
                self._tables(entry)
            else:
                self._kernel(entry)
        self._packages(packages)
        self.directories()
        self.reload()
        self.undo.steps = [step for name in PHASES for step in self.phases[name]]
        return self.undo

    def _kernel(self, entry: Entry) -> None:
        was, now = entry.state, self.found.state(entry.key)
        wrote = self.wrote(entry.key)
        if not wrote or was == now:
            self.undo.proved.append(entry.key)
        elif entry.kind == "module":
            self.step("kernel", "module", entry.name, "unload", f"unload kernel module {entry.name}")
        elif now not in wrote:
            self.undo.site[entry.key] = (
                f"sysctl {entry.name}: is {now}, which the site set since; before us it was {was}"
            )
        elif was is None:
            self.undo.left[entry.key] = f"the setting came with a kernel module, which is still loaded (now {now})"
        else:
            self.step("kernel", "sysctl", entry.name, "set", f"set {entry.name} = {was}", was)

    def _mount(self, entry: Entry) -> None:
        """Fewer mounts than before are the site's doing."""
        more = int(self.found.mounts[entry.name]) - int(str(entry.state))
        if more <= 0:
            self.undo.proved.append(entry.key)
        else:
            self.step("unmount", "mount", entry.name, "unmount", f"unmount {entry.name} from itself", more)

    def _tables(self, entry: Entry) -> None:
        now = self.found.tables
        if now is None:
            self.undo.left[entry.key] = "nft does not tell what the packet filter holds: see `nft --json list ruleset`"
            return
        going, staying = packet_filter.to_delete(now, str(entry.state))
        if going:
            text = f"delete from the packet filter: {', '.join(going)}"
            self.step("kernel", "filter", entry.name, "delete", text, tuple(going))
        elif staying:
            self.undo.site[entry.key] = f"packet filter: {', '.join(staying)} came since, and holds rules of others"
        else:
            self.undo.proved.append(entry.key)

    def _packages(self, entries: t.Sequence[Entry]) -> None:
        going: t.Dict[str, t.List[str]] = {"purge": [], "remove": []}
        for entry in entries:
            now = self.found.packages.get(entry.name, "")
            # What a package was that is there now tells whether its configuration is ours to take away.
            if is_installed(entry.state) or now in ("", entry.state) or not self.wrote(entry.key):
                self.undo.proved.append(entry.key)
            elif entry.name in self.found.needed:
                needer = self.found.needed[entry.name]
                others = [role for role in self.view.claims.get(key("package", needer), {}) if role != self.role]
                if self.role and others:
                    self.undo.passed[entry.key] = others
                else:
                    self.undo.left[entry.key] = f"is needed by {needer}, which is the site's"
            else:
                going["remove" if entry.state == CONFIGURED else "purge"].append(entry.name)
        self._save(going["purge"])
        for verb, found in going.items():
            if found:
                names = " ".join(found)
                self.step("packages", "package", names, verb, f"{verb} packages {names}", tuple(found))

    def _save(self, packages: t.Sequence[str]) -> None:
        """Configuration that the site has changed, or had before us, is recorded, goes, and comes back."""
        for file in self.found.own_files:
            this = key("path", file.path)
            entry = self.view.entries.get(this)
            if file.package not in packages:
                continue
            if entry is not None and entry.state != NOTHING:
                self.undo.saved.append(file)  # with its folders, which may go too
            elif entry is None and file.is_there and not file.is_pristine:
                self.undo.saved.append(file)
                self.undo.site[this] = f"{file.path}: stays as you have it, though package {file.package} is purged"
                self.step("packages", "absent", file.path, "remove", f"set {file.path} aside", FILE)
