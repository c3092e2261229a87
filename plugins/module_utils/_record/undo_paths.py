# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Undo of files, edits, links and directories: what goes back, what is kept aside, what stays the site's. Pure."""

from __future__ import annotations

import hashlib
import typing as t
from dataclasses import replace

from .edits import current_pair, undo_pair
from .model import ABSENT, DIRECTORY, FILE, LINK, Change, FileWrite, PathState, key
from .observe import TEXT_LIMIT
from .shown import is_text
from .undo import UndoDraft
from .view import Entry

_MOST_NAMES = 5


class PathsUndo(UndoDraft):
    """Everything that has a path."""

    def path(self, entry: Entry) -> None:
        """One of them."""
        was, now = t.cast(PathState, entry.state), self.found.path(entry.name)
        if self.is_edited(entry.key):
            self._edited(entry, was, now)
        elif not self.wrote(entry.key) or _same(was, now):
            self.undo.proved.append(entry.key)
        elif self.found.is_pristine(entry.name) and now.sha256 not in self.wrote(entry.key):
            self.undo.site[entry.key] = f"{entry.name}: is as its package brought it"
        elif DIRECTORY in (was.kind, now.kind) and was.kind != now.kind and ABSENT not in (was.kind, now.kind):
            self.undo.left[entry.key] = f"was a {was.kind}, is now a {now.kind} that the site made"
        elif now.kind == DIRECTORY and was.kind == ABSENT:
            self.step("remove directories", "absent", entry.name, "remove", f"remove directory {entry.name}", DIRECTORY)
        elif now.kind not in (ABSENT, FILE, LINK, DIRECTORY):
            self.undo.left[entry.key] = "is now a special file that the site made"
        else:
            self._put_back(entry, was, now)

    def _put_back(self, entry: Entry, was: PathState, now: PathState) -> None:
        if now.kind == LINK and now.target not in (*self.wrote(entry.key), was.target):
            self.undo.left[entry.key] = f"is now a link to {now.target} that the site made"
            return
        if now.kind == FILE and now.sha256 not in (*self.wrote(entry.key), was.sha256):
            self.undo.keep.append((entry.name, now.sha256))
        self._show(entry, self.text_of(was.sha256) if 0 < was.size <= TEXT_LIMIT else b"")
        if was.kind == ABSENT:
            self.step("remove", "absent", entry.name, "remove", f"remove {entry.name}", now.kind)
        elif was.kind == DIRECTORY:
            verb = "make" if now.kind == ABSENT else "attributes"
            self.step("make directories", "directory", entry.name, verb, f"put back directory {entry.name}", was)
        elif was.kind == LINK:
            self.step("put back", "link", entry.name, "make", f"put back link {entry.name} to {was.target}", was)
        else:
            self.step("put back", "file", entry.name, "write", f"put back {entry.name}", FileWrite(was, exact=True))

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
        if was.kind == ABSENT and not text and not self.is_shared(entry.key):
            self.step("remove", "absent", entry.name, "remove", f"remove {entry.name}", FILE)
            return
        back = sha256 == was.sha256
        want = replace(now, sha256=sha256, size=len(text), mtime_ns=was.mtime_ns if back else now.mtime_ns)
        if text != before or (back and self.wrote(entry.key) and want.mtime_ns != now.mtime_ns):
            self.undo.contents[sha256] = text
            self._show(entry, text)
            self.step(
                "put back", "file", entry.name, "write", f"undo edits of {entry.name}", FileWrite(want, exact=back)
            )
        elif self.is_shared(entry.key):
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

    def directories(self) -> None:
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
