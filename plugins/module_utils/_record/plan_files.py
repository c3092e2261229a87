# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planning of whole files, and what every kind of path has in common: owner, place, secrets, what is kept. Pure."""

from __future__ import annotations

import os
import typing as t

from .draft import Draft
from .errors import RecordError
from .model import ABSENT, DIRECTORY, FILE, FORM_FILE, Change, DirectoryItem, FileItem, FileWrite, PathState, key
from .shown import attributes, digest, is_text, size


class FilesDraft(Draft):
    """Whole files."""

    def owner(self, item: t.Union[FileItem, DirectoryItem], now: PathState) -> t.Tuple[int, int]:
        """Who owns it when it is done; -1 for a name that is still to come."""
        uid, gid = (now.uid, now.gid) if now.kind != ABSENT else self.found.ids
        uid = self._number(f"{item.path}: user", item.owner, self.found.owners) if item.owner else uid
        gid = self._number(f"{item.path}: group", item.group, self.found.groups) if item.group else gid
        return uid, gid

    def _number(self, what: str, name: str, known: t.Mapping[str, t.Optional[int]]) -> int:
        found = known[name]
        if found is None and not self.assume:
            raise RecordError(f"{what} {name!r} does not exist on this node: make it first")
        return -1 if found is None else found

    def parent(self, path: str) -> None:
        """The directory above must be there by then."""
        above = os.path.dirname(path)
        state = self.found.path(above)
        if state.kind == DIRECTORY or above in self.made or above == "/" or (state.kind == ABSENT and self.assume):
            return
        found = "is missing: name it in directories" if state.kind == ABSENT else f"is a {state.kind}, not a directory"
        raise RecordError(f"{path}: {above} {found}")

    def refuse_immutable(self, path: str) -> None:
        """`chattr +i` is the site's word."""
        if path in self.found.immutable:
            raise RecordError(
                f"{path}: has the immutable attribute: remove it with `chattr -i {path}`, or leave it out"
            )

    def writable(self, path: str, now: PathState) -> None:
        """It can take a new content without harm to anything else."""
        if now.kind not in (ABSENT, FILE):
            raise RecordError(f"{path}: wanted a file, found a {now.kind}: move it away first")
        if now.nlink > 1:
            raise RecordError(
                f"{path}: has {now.nlink} names (hard links), which would part: make it a file of its own"
            )
        self.refuse_immutable(path)

    def keep_aside(self, path: str, now: PathState) -> None:
        """What the site made of a file of ours since is in no baseline: it is put aside before it goes."""
        this = key("path", path)
        entry = self.view.entries.get(this)
        was = t.cast(PathState, entry.state).sha256 if entry is not None else now.sha256
        if now.kind == FILE and now.sha256 not in (was, *self.view.wrote.get(this, [])):
            self.plan.keep.append((path, now.sha256))

    def file(self, item: FileItem) -> None:
        """One whole file."""
        self.claim(item.path, FORM_FILE, secret=item.secret)
        now = self.found.path(item.path)
        self.parent(item.path)
        uid, gid = self.owner(item, now)
        new_mode = 0o600 if item.secret else 0o644
        mode = item.mode if item.mode is not None else (now.mode if now.kind == FILE else new_mode)
        want = PathState(FILE, item.sha256, item.size, uid, gid, mode, xattrs=now.xattrs)
        self.plan.inputs[item.path] = item.sha256
        if now.kind == FILE and now.sha256 == item.sha256 and want.same_attributes(now):
            return
        self.writable(item.path, now)
        self.plan.writes.append((key("path", item.path), item.sha256))
        if now.sha256 == item.sha256:
            self.step("file", item.path, "attributes", f"set {attributes(want)} of {item.path}", want)
            self.change(item.path, attributes(now), attributes(want))
            return
        self.keep_aside(item.path, now)
        self.plan.uploads[item.sha256] = item.size
        self.step(
            "file",
            item.path,
            "write",
            f"write {item.path} ({size(item.size)})",
            FileWrite(want, item.validate, new=now.kind == ABSENT),
        )
        self.show(item.path, now, want)

    def is_secret(self, this: str) -> bool:
        """Said by this role now, or by any role before."""
        return this in self.plan.secrets or this in self.view.secrets

    def show(self, path: str, now: PathState, want: PathState) -> None:
        """What a diff shows of a new content."""
        before, after = self.found.texts.get(path), self.plan.contents.get(want.sha256)
        if self.is_secret(key("path", path)):
            self.change(path, "(secret)" if now.kind == FILE else "", "(secret, changed)")
        elif (before is not None and is_text(before)) or now.kind == ABSENT:
            shown = after.decode("utf-8", "replace") if after is not None else ""
            self.plan.changes.append(
                Change(path, (before or b"").decode(), shown, "" if after is not None else want.sha256)
            )
        else:
            self.change(path, digest(now), digest(want))
