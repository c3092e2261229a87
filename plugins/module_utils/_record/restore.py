# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done so that a node is as it was before us. Pure: record and found in, steps and verdicts out.

It is planned, done and planned again until nothing is left to do; the last plan is the proof. Nothing that the site has
made since is lost: its version of a whole file is kept aside, its lines in an edited file stay, and what is not ours
to take away (a unit it started, a setting it changed) is left and named.
"""

from __future__ import annotations

import hashlib
import typing as t
from dataclasses import dataclass, field, replace

from .edits import current_pair, undo_pair
from .kinds import unit as systemd
from .model import ABSENT, DIRECTORY, FILE, FORM_LINES, LINK, Change, FileWrite, PathState, Step, UnitState, key
from .observe import TEXT_LIMIT, Found
from .plan_paths import is_text
from .view import Entry, View

_MOST_NAMES = 5


@dataclass
class Undo:
    """One round. `left` is ours and could not be undone; `site` is what the site made of things since, and keeps."""

    steps: t.List[Step] = field(default_factory=list)
    keep: t.List[t.Tuple[str, str]] = field(default_factory=list)  # path, sha256 of what the site made of it
    proved: t.List[str] = field(default_factory=list)
    shared: t.List[str] = field(default_factory=list)
    passed: t.Dict[str, t.List[str]] = field(default_factory=dict)  # what other roles turn out to need
    left: t.Dict[str, str] = field(default_factory=dict)
    site: t.Dict[str, str] = field(default_factory=dict)
    conflicts: t.List[str] = field(default_factory=list)  # lines of ours that the site changed; seen in one round only
    undone: t.List[t.Tuple[str, str, str]] = field(default_factory=list)  # key, role, sha256 of the text without it
    changes: t.List[Change] = field(default_factory=list)
    contents: t.Dict[str, bytes] = field(default_factory=dict)


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


class _Undoer:
    def __init__(
        self, view: View, found: Found, role: str, text_of: t.Callable[[str], bytes], done: t.Container[str]
    ) -> None:
        self.view, self.found, self.role, self.text_of, self.done = view, found, role, text_of, done
        self.undo = Undo()
        self.phases: t.Dict[str, t.List[Step]] = {name: [] for name in _PHASES}

    def run(self, entries: t.Sequence[Entry]) -> Undo:
        packages = []
        for entry in sorted(entries, key=lambda entry: entry.order, reverse=True):
            if self._is_shared(entry.key) and not self._is_edited(entry.key):
                self.undo.shared.append(entry.key)
            elif entry.kind == "path":
                self._path(entry)
            elif entry.kind == "unit":
                self._unit(entry, t.cast(UnitState, entry.state))
            elif entry.kind == "package":
                packages.append(entry)
            else:
                self._kernel(entry)
        self._packages(packages)
        self._directories()
        self._reload()
        self.undo.steps = [step for name in _PHASES for step in self.phases[name]]
        return self.undo

    def _wrote(self, this: str) -> t.List[str]:
        return self.view.wrote.get(this, [])

    def _is_shared(self, this: str) -> bool:
        return bool(self.role) and any(role != self.role for role in self.view.claims.get(this, {}))

    def _is_edited(self, this: str) -> bool:
        return FORM_LINES in self.view.claims.get(this, {}).values()

    def _step(self, phase: str, kind: str, name: str, verb: str, text: str, data: t.Any = None) -> None:
        self.phases[phase].append(Step(kind, name, verb, text, data))

    # Paths

    def _path(self, entry: Entry) -> None:
        was, now = t.cast(PathState, entry.state), self.found.path(entry.name)
        if self._is_edited(entry.key):
            self._edited(entry, was, now)
        elif not self._wrote(entry.key) or _same(was, now):
            self.undo.proved.append(entry.key)
        elif entry.name in self.found.pristine and now.sha256 not in self._wrote(entry.key):
            self.undo.site[entry.key] = f"{entry.name}: is as its package brought it"
        elif DIRECTORY in (was.kind, now.kind) and was.kind != now.kind and ABSENT not in (was.kind, now.kind):
            self.undo.left[entry.key] = f"was a {was.kind}, is now a {now.kind} that the site made"
        elif now.kind == DIRECTORY and was.kind == ABSENT:
            self._step(
                "remove directories", "absent", entry.name, "remove", f"remove directory {entry.name}", DIRECTORY
            )
        elif now.kind not in (ABSENT, FILE, LINK, DIRECTORY):
            self.undo.left[entry.key] = "is now a special file that the site made"
        else:
            self._put_back(entry, was, now)

    def _put_back(self, entry: Entry, was: PathState, now: PathState) -> None:
        if now.kind == LINK and now.target not in (*self._wrote(entry.key), was.target):
            self.undo.left[entry.key] = f"is now a link to {now.target} that the site made"
            return
        if now.kind == FILE and now.sha256 not in (*self._wrote(entry.key), was.sha256):
            self.undo.keep.append((entry.name, now.sha256))
        self._show(entry, self.text_of(was.sha256) if 0 < was.size <= TEXT_LIMIT else b"")
        if was.kind == ABSENT:
            self._step("remove", "absent", entry.name, "remove", f"remove {entry.name}", now.kind)
        elif was.kind == DIRECTORY:
            verb = "make" if now.kind == ABSENT else "attributes"
            self._step("make directories", "directory", entry.name, verb, f"put back directory {entry.name}", was)
        elif was.kind == LINK:
            self._step("put back", "link", entry.name, "make", f"put back link {entry.name} to {was.target}", was)
        else:
            self._step("put back", "file", entry.name, "write", f"put back {entry.name}", FileWrite(was, exact=True))

    def _show(self, entry: Entry, after: bytes) -> None:
        before = self.found.texts.get(entry.name, b"")
        if entry.key in self.view.secrets or not (is_text(before) and is_text(after)):
            self.undo.changes.append(Change(entry.name, "(not shown)\n", "(not shown, as it was)\n"))
        else:
            self.undo.changes.append(Change(entry.name, before.decode(), after.decode()))

    def _edited(self, entry: Entry, was: PathState, now: PathState) -> None:
        if now.kind != FILE:
            if was.kind == now.kind:
                self.undo.proved.append(entry.key)
            else:
                self.undo.site[entry.key] = f"{entry.name}: is now {'gone' if now.kind == ABSENT else f'a {now.kind}'}"
            return
        before = self.found.texts[entry.name]
        text, conflicts, roles = self._without_us(entry.key, before)
        for conflict in conflicts:
            shown = "a line of ours was changed since (secret)" if entry.key in self.view.secrets else conflict
            self.undo.conflicts.append(f"{entry.name}: {shown}")
        sha256 = hashlib.sha256(text).hexdigest()
        self.undo.undone += [(entry.key, role, sha256) for role in roles]
        if was.kind == ABSENT and not text and not self._is_shared(entry.key):
            self._step("remove", "absent", entry.name, "remove", f"remove {entry.name}", FILE)
            return
        back = sha256 == was.sha256
        want = replace(now, sha256=sha256, size=len(text), mtime_ns=was.mtime_ns if back else now.mtime_ns)
        if text != before or (back and self._wrote(entry.key) and want.mtime_ns != now.mtime_ns):
            self.undo.contents[sha256] = text
            self._show(entry, text)
            self._step(
                "put back", "file", entry.name, "write", f"undo edits of {entry.name}", FileWrite(want, exact=back)
            )
        elif self._is_shared(entry.key):
            self.undo.shared.append(entry.key)
        elif back:
            self.undo.proved.append(entry.key)
        else:
            self.undo.site[entry.key] = f"{entry.name}: keeps what the site changed in it since; our lines are gone"

    def _without_us(self, this: str, text: bytes) -> t.Tuple[bytes, t.List[str], t.List[str]]:
        conflicts: t.List[str] = []
        roles: t.List[str] = []
        for edited, role in reversed(list(self.view.pairs)):
            if edited == this and self.role in ("", role):
                pair = current_pair(self.view, this, role, text, self.text_of)
                if pair is not None:
                    undone = undo_pair(pair, text, self.text_of)
                    text, conflicts = undone.text, [*conflicts, *undone.conflicts]
                    roles.append(role)
        return text, conflicts, roles

    def _directories(self) -> None:
        """Ours go when they are empty, innermost first; otherwise what they hold is named."""
        going = {step.name for step in self.phases["remove"]}
        staying = []
        for step in sorted(self.phases["remove directories"], key=lambda step: step.name, reverse=True):
            left = [name for name in self.found.names.get(step.name, []) if f"{step.name}/{name}" not in going]
            if left:
                self.undo.left[key("path", step.name)] = "still holds " + _some(left)
                staying.append(step)
            else:
                going.add(step.name)
        kept = [step for step in self.phases["remove directories"] if step not in staying]
        self.phases["remove directories"] = sorted(kept, key=lambda step: step.name, reverse=True)
        self.phases["make directories"].sort(key=lambda step: step.name)

    # Kernel, packages

    def _kernel(self, entry: Entry) -> None:
        was, now = entry.state, self.found.state(entry.key)
        wrote = self._wrote(entry.key)
        if not wrote or was == now:
            self.undo.proved.append(entry.key)
        elif entry.kind == "module":
            self._step("kernel", "module", entry.name, "unload", f"unload kernel module {entry.name}")
        elif now not in wrote:
            self.undo.site[entry.key] = (
                f"sysctl {entry.name}: is {now}, which the site set since; before us it was {was}"
            )
        elif was is None:
            self.undo.left[entry.key] = f"the setting came with a kernel module, which is still loaded (now {now})"
        else:
            self._step("kernel", "sysctl", entry.name, "set", f"set {entry.name} = {was}", was)

    def _packages(self, entries: t.Sequence[Entry]) -> None:
        going = []
        for entry in entries:
            now = self.found.packages.get(entry.name, "")
            if entry.state or not now or not self._wrote(entry.key):
                self.undo.proved.append(entry.key)
            elif entry.name in self.found.needed:
                needer = self.found.needed[entry.name]
                others = [role for role in self.view.claims.get(key("package", needer), {}) if role != self.role]
                if self.role and others:
                    self.undo.passed[entry.key] = others
                else:
                    self.undo.left[entry.key] = f"is needed by {needer}, which is the site's"
            else:
                going.append(entry.name)
        if going:
            names = " ".join(going)
            self._step("packages", "package", names, "remove", f"remove packages {names}", tuple(going))

    # Units

    def _unit(self, entry: Entry, was: UnitState) -> None:
        now, acted = self.found.units[entry.name], self._wrote(entry.key)
        ours = bool(acted) or not was.exists
        planned = self._count()
        if now.active and not was.active:
            if "start" in acted or "restart" in acted or not was.exists:
                self._step("stop", "unit", entry.name, "stop", f"stop {entry.name}")
            else:
                self.undo.site[entry.key] = f"unit {entry.name}: runs, and the site started it"
        if now.links != was.links:
            if "enable" in acted or "disable" in acted or not was.exists:
                data = (now, was)
                self._step(
                    "stop", "unit", entry.name, "links", f"put back enablement of {entry.name} ({was.enabled})", data
                )
            else:
                self.undo.site[entry.key] = f"unit {entry.name}: is {now.enabled}, and the site made it so"
        if was.active and not now.active and ours:
            self._step("start", "unit", entry.name, "start", f"start {entry.name}")
        elif was.active and not now.active:
            self.undo.site[entry.key] = f"unit {entry.name}: does not run, and the site stopped it"
        elif was.active and "restart" in acted and entry.name not in self.done:
            self._step("start", "unit", entry.name, "restart", f"restart {entry.name} with what it had before us")
        if now.failed and not was.failed and not now.active and ours:
            self._step("start", "unit", entry.name, "reset-failed", f"forget the failure of {entry.name}")
        if now.exists and not was.exists and entry.key not in self.undo.left:
            self.undo.left[entry.key] = "its unit file is still there"
        if planned == self._count() and entry.key not in (*self.undo.site, *self.undo.left):
            self.undo.proved.append(entry.key)

    def _count(self) -> int:
        return sum(len(steps) for steps in self.phases.values())

    def _reload(self) -> None:
        touched = [step for name in ("put back", "remove") for step in self.phases[name]]
        if any(systemd.unit_of(step.name) for step in touched) or any(
            u.needs_reload for u in self.found.units.values()
        ):
            self._step("reload", "unit", "", "reload", "let systemd read its unit files again")


_PHASES = (
    "stop",
    "make directories",
    "put back",
    "remove",
    "remove directories",
    "kernel",
    "packages",
    "reload",
    "start",
)


def _same(was: PathState, now: PathState) -> bool:
    if was.kind != now.kind:
        return False
    if was.kind == LINK:
        return was.target == now.target
    if was.kind == FILE:
        return was.sha256 == now.sha256 and was.mtime_ns == now.mtime_ns and was.same_attributes(now)
    return was.kind == ABSENT or was.same_attributes(now)


def _some(names: t.Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return shown + (f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else "")
