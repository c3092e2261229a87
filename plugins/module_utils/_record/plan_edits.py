# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planning of edits to files that belong to the site. Pure."""

from __future__ import annotations

import hashlib

from .edits import current_pair, undo_pair
from .errors import RecordError
from .model import ABSENT, FILE, FORM_LINES, EditItem, FileWrite, PathState, key
from .plan_files import FilesDraft
from .view import Pair


class EditsDraft(FilesDraft):
    """Edits: two roles may hold lines of one file."""

    def edit(self, item: EditItem) -> None:
        """Edits of one file, made anew on the text without our earlier ones."""
        self.claim(item.path, FORM_LINES, secret=item.secret)
        now = self.found.path(item.path)
        self.parent(item.path)
        this = key("path", item.path)
        self.plan.inputs[item.path] = item.spec
        if now.kind == ABSENT and not (item.create or self.assume):
            raise RecordError(f"{item.path}: there is no such file to edit: make it, or say `create: true`")
        if now.kind not in (ABSENT, FILE):
            raise RecordError(f"{item.path}: wanted a file, found a {now.kind}: move it away first")
        text = self.found.texts.get(item.path, b"")
        last = current_pair(self.view, this, self.desired.role, text, self.text_of)
        edited = item.edit(text)
        if edited == text and (last is None or last.spec == item.spec) and now.kind == FILE:
            if last is None:
                self._add_pair(this, item, text, text, text)
            return
        self.writable(item.path, now)
        without = text if last is None else undo_pair(last, text, self.text_of).text
        edited = item.edit(without)
        self._refuse_lost_lines(item, text, edited)
        sha256 = self._add_pair(this, item, text, edited, without)
        if edited == text and now.kind == FILE:
            return
        self.plan.writes.append((this, sha256))
        uid, gid = (now.uid, now.gid) if now.kind == FILE else self.found.ids
        mode = now.mode if now.kind == FILE else 0o600 if self.is_secret(this) else 0o644
        want = PathState(FILE, sha256, len(edited), uid, gid, mode, xattrs=now.xattrs)
        self.step("file", item.path, "write", f"edit {item.path}", FileWrite(want, new=now.kind == ABSENT))
        self.show(item.path, now, want)

    def _add_pair(self, this: str, item: EditItem, before: bytes, ours: bytes, without: bytes) -> str:
        found = [hashlib.sha256(text).hexdigest() for text in (before, ours, without)]
        self.plan.contents.update(zip(found, (before, ours, without)))
        self.plan.edits.append((this, Pair(found[0], found[1], found[2], item.spec)))
        return found[1]

    def _refuse_lost_lines(self, item: EditItem, text: bytes, edited: bytes) -> None:
        """What another role put there stays there."""
        for this, role in self.view.pairs:
            if this == key("path", item.path) and role != self.desired.role:
                pair = current_pair(self.view, this, role, text, self.text_of)
                if pair is None:
                    continue
                ours = set(self.text_of(pair.ours).split(b"\n")) - set(self.text_of(pair.without).split(b"\n"))
                lost = [line for line in ours if line in text.split(b"\n") and line not in edited.split(b"\n")]
                if lost:
                    shown = "(secret)" if self.is_secret(this) else repr(lost[0].decode("utf-8", "replace"))
                    raise RecordError(
                        f"{item.path}: role {self.desired.role} would undo a line of role {role}: {shown}"
                    )
