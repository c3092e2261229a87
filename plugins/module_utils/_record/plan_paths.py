# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planning of files, edits, directories, links and removals: what is refused, kept and written. Pure."""

from __future__ import annotations

import hashlib
import os
import typing as t

from .draft import Draft
from .edits import current_pair, undo_pair
from .errors import RecordError
from .model import (
    ABSENT,
    DIRECTORY,
    FILE,
    FORM_ABSENT,
    FORM_DIRECTORY,
    FORM_FILE,
    FORM_LINES,
    FORM_LINK,
    LINK,
    Change,
    DirectoryItem,
    EditItem,
    FileItem,
    FileWrite,
    LinkItem,
    PathState,
    key,
)
from .paths import parents
from .view import Pair


class PathsDraft(Draft):
    """Everything that has a path."""

    def paths(self) -> None:
        """All items of the call."""
        for directory in self.desired.directories:
            self.attempt(self._directory, directory)
        for file in self.desired.files:
            self.attempt(self._file, file)
        for edit in self.desired.edits:
            self.attempt(self._edit, edit)
        for link in self.desired.links:
            self.attempt(self._link, link)
        for path in sorted(self.desired.absent, reverse=True):  # what is inside before what holds it
            self.attempt(self._absent, path)

    def _owner(self, item: t.Union[FileItem, DirectoryItem], now: PathState) -> t.Tuple[int, int]:
        uid, gid = (now.uid, now.gid) if now.kind != ABSENT else self.found.ids
        for what, name, known in (("user", item.owner, self.found.owners), ("group", item.group, self.found.groups)):
            if name and known[name] is None and not self.assume:
                raise RecordError(f"{item.path}: {what} {name!r} does not exist on this node: make it first")
        if item.owner:
            uid = self.found.owners[item.owner] if self.found.owners[item.owner] is not None else -1  # type: ignore[assignment]
        if item.group:
            gid = self.found.groups[item.group] if self.found.groups[item.group] is not None else -1  # type: ignore[assignment]
        return uid, gid

    def _directory(self, item: DirectoryItem) -> None:
        self.claim(item.path, FORM_DIRECTORY)
        now = self.found.path(item.path)
        if now.kind not in (ABSENT, DIRECTORY):
            raise RecordError(f"{item.path}: wanted a directory, found a {now.kind}: move it away first")
        for above in reversed(parents(item.path)):
            state = self.found.path(above)
            if state.kind == ABSENT and above not in self.made:
                self.claim(above, FORM_DIRECTORY)
                self._make_directory(
                    above, PathState(DIRECTORY, uid=self.found.ids[0], gid=self.found.ids[1], mode=0o755)
                )
            elif state.kind not in (ABSENT, DIRECTORY):
                raise RecordError(f"{item.path}: {above} is a {state.kind}, not a directory: move it away first")
        uid, gid = self._owner(item, now)
        mode = item.mode if item.mode is not None else (now.mode if now.kind == DIRECTORY else 0o755)
        want = PathState(DIRECTORY, uid=uid, gid=gid, mode=mode, xattrs=now.xattrs)
        if now.kind == ABSENT:
            self._make_directory(item.path, want)
        elif not want.same_attributes(now):
            self._refuse_immutable(item.path)
            self.plan.writes.append((key("path", item.path), DIRECTORY))
            self.step("directory", item.path, "attributes", f"set {_attributes(want)} of {item.path}", want)
            self.change(item.path, _attributes(now), _attributes(want))

    def _make_directory(self, path: str, want: PathState) -> None:
        if path in self.made:
            return
        self.made.add(path)
        self.plan.writes.append((key("path", path), DIRECTORY))
        self.step("directory", path, "make", f"make directory {path}", want)
        self.change(path, "", f"directory, {_attributes(want)}")

    def _parent(self, path: str) -> None:
        above = os.path.dirname(path)
        state = self.found.path(above)
        if state.kind == DIRECTORY or above in self.made or above == "/" or (state.kind == ABSENT and self.assume):
            return
        found = "is missing: name it in directories" if state.kind == ABSENT else f"is a {state.kind}, not a directory"
        raise RecordError(f"{path}: {above} {found}")

    def _refuse_immutable(self, path: str) -> None:
        if path in self.found.immutable:
            raise RecordError(
                f"{path}: has the immutable attribute: remove it with `chattr -i {path}`, or leave it out"
            )

    def _writable(self, path: str, now: PathState) -> None:
        if now.kind not in (ABSENT, FILE):
            raise RecordError(f"{path}: wanted a file, found a {now.kind}: move it away first")
        if now.nlink > 1:
            raise RecordError(
                f"{path}: has {now.nlink} names (hard links), which would part: make it a file of its own"
            )
        self._refuse_immutable(path)

    def _keep(self, path: str, now: PathState) -> None:
        """What the site made of a file of ours since is in no baseline: it is put aside before it goes."""
        this = key("path", path)
        entry = self.view.entries.get(this)
        was = t.cast(PathState, entry.state).sha256 if entry is not None else now.sha256
        if now.kind == FILE and now.sha256 not in (was, *self.view.wrote.get(this, [])):
            self.plan.keep.append((path, now.sha256))

    def _file(self, item: FileItem) -> None:
        self.claim(item.path, FORM_FILE, secret=item.secret)
        now = self.found.path(item.path)
        self._parent(item.path)
        uid, gid = self._owner(item, now)
        new_mode = 0o600 if item.secret else 0o644
        mode = item.mode if item.mode is not None else (now.mode if now.kind == FILE else new_mode)
        want = PathState(FILE, item.sha256, item.size, uid, gid, mode, xattrs=now.xattrs)
        self.plan.inputs[item.path] = item.sha256
        if now.kind == FILE and now.sha256 == item.sha256 and want.same_attributes(now):
            return
        self._writable(item.path, now)
        self.plan.writes.append((key("path", item.path), item.sha256))
        if now.sha256 == item.sha256:
            self.step("file", item.path, "attributes", f"set {_attributes(want)} of {item.path}", want)
            self.change(item.path, _attributes(now), _attributes(want))
            return
        self._keep(item.path, now)
        self.plan.uploads[item.sha256] = item.size
        self.step(
            "file",
            item.path,
            "write",
            f"write {item.path} ({_size(item.size)})",
            FileWrite(want, item.validate, new=now.kind == ABSENT),
        )
        self._show(item.path, now, want)

    def _is_secret(self, this: str) -> bool:
        """Said by this role now, or by any role before."""
        return this in self.plan.secrets or this in self.view.secrets

    def _show(self, path: str, now: PathState, want: PathState) -> None:
        before, after = self.found.texts.get(path), self.plan.contents.get(want.sha256)
        if self._is_secret(key("path", path)):
            self.change(path, "(secret)" if now.kind == FILE else "", "(secret, changed)")
        elif (before is not None and is_text(before)) or now.kind == ABSENT:
            shown = after.decode("utf-8", "replace") if after is not None else ""
            self.plan.changes.append(
                Change(path, (before or b"").decode(), shown, "" if after is not None else want.sha256)
            )
        else:
            self.change(path, _digest(now), _digest(want))

    def _edit(self, item: EditItem) -> None:
        self.claim(item.path, FORM_LINES, secret=item.secret)
        now = self.found.path(item.path)
        self._parent(item.path)
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
        self._writable(item.path, now)
        without = text if last is None else undo_pair(last, text, self.text_of).text
        edited = item.edit(without)
        self._refuse_lost_lines(item, text, edited)
        sha256 = self._add_pair(this, item, text, edited, without)
        if edited == text and now.kind == FILE:
            return
        self.plan.writes.append((this, sha256))
        uid, gid = (now.uid, now.gid) if now.kind == FILE else self.found.ids
        mode = now.mode if now.kind == FILE else 0o600 if self._is_secret(this) else 0o644
        want = PathState(FILE, sha256, len(edited), uid, gid, mode, xattrs=now.xattrs)
        self.step("file", item.path, "write", f"edit {item.path}", FileWrite(want, new=now.kind == ABSENT))
        self._show(item.path, now, want)

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
                    shown = "(secret)" if self._is_secret(this) else repr(lost[0].decode("utf-8", "replace"))
                    raise RecordError(
                        f"{item.path}: role {self.desired.role} would undo a line of role {role}: {shown}"
                    )

    def _link(self, item: LinkItem) -> None:
        self.claim(item.path, FORM_LINK)
        now, this = self.found.path(item.path), key("path", item.path)
        self._parent(item.path)
        self.plan.inputs[item.path] = item.target
        if now.kind == LINK and now.target == item.target:
            return
        ours = now.kind == LINK and now.target in self.view.wrote.get(this, [])
        if now.kind != ABSENT and not ours:
            found = f"a link to {now.target}" if now.kind == LINK else f"a {now.kind}"
            raise RecordError(
                f"{item.path}: wanted a link to {item.target}, found {found} that is not ours: move it away"
            )
        self.plan.writes.append((this, item.target))
        want = PathState(LINK, target=item.target, uid=self.found.ids[0], gid=self.found.ids[1])
        self.step("link", item.path, "make", f"link {item.path} to {item.target}", want)
        self.change(item.path, now.target, item.target)

    def _absent(self, path: str) -> None:
        self.claim(path, FORM_ABSENT)
        now = self.found.path(path)
        self.plan.inputs[path] = ABSENT
        if now.kind == ABSENT:
            return
        if now.kind == DIRECTORY:
            left = [name for name in self.found.names.get(path, []) if f"{path}/{name}" not in self.desired.absent]
            if left:
                raise RecordError(f"{path}: is a directory that holds {left[0]}: name everything in it, too")
        elif now.kind != LINK:
            self._writable(path, now)
            self._keep(path, now)
        self.plan.writes.append((key("path", path), ABSENT))
        self.step("absent", path, "remove", f"remove {path}", now.kind)
        self.change(path, f"a {now.kind}", "")


def _attributes(state: PathState) -> str:
    return f"owner {state.uid}:{state.gid} mode {state.mode:04o}"


def _size(count: int) -> str:
    return f"{count} bytes"


def _digest(state: PathState) -> str:
    return f"sha256 {state.sha256}, {_size(state.size)}" if state.kind == FILE else ""


def is_text(data: bytes) -> bool:
    """Whether a diff can show it."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in data
