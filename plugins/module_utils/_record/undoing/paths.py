# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Undo of files, edits, links and directories: what goes back, what is kept aside, what stays the site's. Pure."""

from __future__ import annotations

import hashlib
import typing as t
from dataclasses import replace

from ..kinds.observe import TEXT_LIMIT
from ..model.diff_text import is_text
from ..model.items import ABSENT, DIRECTORY, FILE, LINK, Change, FileWrite, PathState, key
from ..model.line_edits import current_pair, undo_pair
from ..model.replay import Entry
from .builder import UndoBuilder

_MOST_NAMES = 5


def undo_path(builder: UndoBuilder, entry: Entry) -> None:
    """Plan how one path goes back, or say why it stays."""
    was, now = t.cast(PathState, entry.state), builder.found.path(entry.name)
    if builder.is_edited(entry.key):
        _undo_edits(builder, entry, was, now)
    elif not builder.wrote(entry.key) or _same(was, now):
        builder.undo.proved.append(entry.key)
    elif builder.found.is_pristine(entry.name) and now.sha256 not in builder.wrote(entry.key):
        builder.undo.site[entry.key] = f"{entry.name}: is as its package brought it"
    elif DIRECTORY in (was.kind, now.kind) and was.kind != now.kind and ABSENT not in (was.kind, now.kind):
        builder.undo.left[entry.key] = f"was a {was.kind}, is now a {now.kind} that the site made"
    elif now.kind == DIRECTORY and was.kind == ABSENT:
        builder.step("remove directories", "absent", entry.name, "remove", f"remove directory {entry.name}", DIRECTORY)
    elif now.kind not in (ABSENT, FILE, LINK, DIRECTORY):
        builder.undo.left[entry.key] = "is now a special file that the site made"
    else:
        _put_back(builder, entry, was, now)


def _put_back(builder: UndoBuilder, entry: Entry, was: PathState, now: PathState) -> None:
    if now.kind == LINK and now.target not in (*builder.wrote(entry.key), was.target):
        builder.undo.left[entry.key] = f"is now a link to {now.target} that the site made"
        return
    if now.kind == FILE and now.sha256 not in (*builder.wrote(entry.key), was.sha256):
        builder.undo.keep.append((entry.name, now.sha256))
    _show(builder, entry, builder.text_of(was.sha256) if 0 < was.size <= TEXT_LIMIT else b"")
    if was.kind == ABSENT:
        builder.step("remove", "absent", entry.name, "remove", f"remove {entry.name}", now.kind)
    elif was.kind == DIRECTORY:
        verb = "make" if now.kind == ABSENT else "attributes"
        builder.step("make directories", "directory", entry.name, verb, f"put back directory {entry.name}", was)
    elif was.kind == LINK:
        builder.step("put back", "link", entry.name, "make", f"put back link {entry.name} to {was.target}", was)
    else:
        builder.step("put back", "file", entry.name, "write", f"put back {entry.name}", FileWrite(was, exact=True))


def _show(builder: UndoBuilder, entry: Entry, after: bytes) -> None:
    before = builder.found.texts.get(entry.name, b"")
    if entry.key in builder.view.secrets or not (is_text(before) and is_text(after)):
        builder.undo.changes.append(Change(entry.name, "(not shown)\n", "(not shown, as it was)\n"))
    else:
        builder.undo.changes.append(Change(entry.name, before.decode(), after.decode()))


def _undo_edits(builder: UndoBuilder, entry: Entry, was: PathState, now: PathState) -> None:
    if now.kind != FILE:
        if was.kind == now.kind:
            builder.undo.proved.append(entry.key)
        else:
            builder.undo.site[entry.key] = f"{entry.name}: is now {'gone' if now.kind == ABSENT else f'a {now.kind}'}"
        return
    before = builder.found.texts[entry.name]
    text, conflicts, roles = _without_us(builder, entry.key, before)
    for conflict in conflicts:
        shown = "a line of ours was changed since (secret)" if entry.key in builder.view.secrets else conflict
        builder.undo.conflicts.append(f"{entry.name}: {shown}")
    sha256 = hashlib.sha256(text).hexdigest()
    builder.undo.undone += [(entry.key, role, sha256) for role in roles]
    if was.kind == ABSENT and not text and not builder.is_shared(entry.key):
        builder.step("remove", "absent", entry.name, "remove", f"remove {entry.name}", FILE)
        return
    back = sha256 == was.sha256
    want = replace(now, sha256=sha256, size=len(text), mtime_ns=was.mtime_ns if back else now.mtime_ns)
    if text != before or (back and builder.wrote(entry.key) and want.mtime_ns != now.mtime_ns):
        builder.undo.contents[sha256] = text
        _show(builder, entry, text)
        builder.step(
            "put back", "file", entry.name, "write", f"undo edits of {entry.name}", FileWrite(want, exact=back)
        )
    elif builder.is_shared(entry.key):
        builder.undo.shared.append(entry.key)
    elif back:
        builder.undo.proved.append(entry.key)
    else:
        builder.undo.site[entry.key] = f"{entry.name}: keeps what the site changed in it since; our lines are gone"


def _without_us(builder: UndoBuilder, this: str, text: bytes) -> t.Tuple[bytes, t.List[str], t.List[str]]:
    conflicts: t.List[str] = []
    roles: t.List[str] = []
    for edited, role in reversed(list(builder.view.pairs)):
        if edited == this and builder.role in ("", role):
            pair = current_pair(builder.view, this, role, text, builder.text_of)
            if pair is not None:
                undone = undo_pair(pair, text, builder.text_of)
                text, conflicts = undone.text, [*conflicts, *undone.conflicts]
                roles.append(role)
    return text, conflicts, roles


def sort_directories(builder: UndoBuilder) -> None:
    """Let our directories go when they are empty, innermost first; otherwise name what they hold."""
    going = {step.name for step in builder.phases["remove"]}
    staying = []
    for step in sorted(builder.phases["remove directories"], key=lambda step: step.name, reverse=True):
        left = [name for name in builder.found.names.get(step.name, []) if f"{step.name}/{name}" not in going]
        if left:
            builder.undo.left[key("path", step.name)] = "still holds " + _some(left)
            staying.append(step)
        else:
            going.add(step.name)
    kept = [step for step in builder.phases["remove directories"] if step not in staying]
    builder.phases["remove directories"] = sorted(kept, key=lambda step: step.name, reverse=True)
    builder.phases["make directories"].sort(key=lambda step: step.name)


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
