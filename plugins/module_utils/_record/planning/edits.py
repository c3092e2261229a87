# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planning of edits to files that belong to the site. Pure."""

from __future__ import annotations

import hashlib

from ..model.errors import RecordError
from ..model.items import ABSENT, FILE, FORM_LINES, EditItem, FileWrite, PathState, key
from ..model.line_edits import current_pair, undo_pair
from ..model.replay import Pair
from .builder import PlanBuilder
from .files import require_parent, require_writable, show


def plan_edit(builder: PlanBuilder, item: EditItem) -> None:
    """Plan the edits of one file, on its text without our earlier edits."""
    builder.claim(item.path, FORM_LINES, secret=item.secret)
    now = builder.found.path(item.path)
    require_parent(builder, item.path)
    this = key("path", item.path)
    builder.plan.inputs[item.path] = item.spec
    if now.kind == ABSENT and not (item.create or builder.assume):
        raise RecordError(f"{item.path}: there is no such file to edit: make it, or say `create: true`")
    if now.kind not in (ABSENT, FILE):
        raise RecordError(f"{item.path}: wanted a file, found a {now.kind}: move it away first")
    text = builder.found.texts.get(item.path, b"")
    last = current_pair(builder.view, this, builder.desired.role, text, builder.text_of)
    edited = item.edit(text)
    if edited == text and (last is None or last.spec == item.spec) and now.kind == FILE:
        if last is None:
            _add_pair(builder, this, item, text, text, text)
        return
    require_writable(builder, item.path, now)
    without = text if last is None else undo_pair(last, text, builder.text_of).text
    edited = item.edit(without)
    _refuse_lost_lines(builder, item, text, edited)
    sha256 = _add_pair(builder, this, item, text, edited, without)
    if edited == text and now.kind == FILE:
        return
    builder.plan.writes.append((this, sha256))
    uid, gid = (now.uid, now.gid) if now.kind == FILE else builder.found.ids
    mode = now.mode if now.kind == FILE else 0o600 if builder.is_secret(this) else 0o644
    want = PathState(FILE, sha256, len(edited), uid, gid, mode, xattrs=now.xattrs)
    builder.step("file", item.path, "write", f"edit {item.path}", FileWrite(want, new=now.kind == ABSENT))
    show(builder, item.path, now, want)


def _add_pair(builder: PlanBuilder, this: str, item: EditItem, before: bytes, ours: bytes, without: bytes) -> str:
    found = [hashlib.sha256(text).hexdigest() for text in (before, ours, without)]
    builder.plan.contents.update(zip(found, (before, ours, without)))
    builder.plan.edits.append((this, Pair(found[0], found[1], found[2], item.spec)))
    return found[1]


def _refuse_lost_lines(builder: PlanBuilder, item: EditItem, text: bytes, edited: bytes) -> None:
    """Refuse edits that would undo a line of another role."""
    for this, role in builder.view.pairs:
        if this == key("path", item.path) and role != builder.desired.role:
            pair = current_pair(builder.view, this, role, text, builder.text_of)
            if pair is None:
                continue
            ours = set(builder.text_of(pair.ours).split(b"\n")) - set(builder.text_of(pair.without).split(b"\n"))
            lost = [line for line in ours if line in text.split(b"\n") and line not in edited.split(b"\n")]
            if lost:
                shown = "(secret)" if builder.is_secret(this) else repr(lost[0].decode("utf-8", "replace"))
                raise RecordError(f"{item.path}: role {builder.desired.role} would undo a line of role {role}: {shown}")
