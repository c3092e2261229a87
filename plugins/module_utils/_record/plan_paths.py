# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planning of everything that has a path: files and edits, and here directories, links and removals. Pure."""

from __future__ import annotations

from .errors import RecordError
from .model import (
    ABSENT,
    DIRECTORY,
    FORM_ABSENT,
    FORM_DIRECTORY,
    FORM_LINK,
    LINK,
    DirectoryItem,
    LinkItem,
    PathState,
    key,
)
from .paths import parents
from .plan_edits import EditsDraft
from .shown import attributes


class PathsDraft(EditsDraft):
    """Everything that has a path."""

    def paths(self) -> None:
        """All items of the call."""
        for directory in self.desired.directories:
            self.attempt(self._directory, directory)
        for file in self.desired.files:
            self.attempt(self.file, file)
        for edit in self.desired.edits:
            self.attempt(self.edit, edit)
        for link in self.desired.links:
            self.attempt(self._link, link)
        for path in sorted(self.desired.absent, reverse=True):  # what is inside before what holds it
            self.attempt(self._absent, path)

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
        uid, gid = self.owner(item, now)
        mode = item.mode if item.mode is not None else (now.mode if now.kind == DIRECTORY else 0o755)
        want = PathState(DIRECTORY, uid=uid, gid=gid, mode=mode, xattrs=now.xattrs)
        if now.kind == ABSENT:
            self._make_directory(item.path, want)
        elif not want.same_attributes(now):
            self.refuse_immutable(item.path)
            self.plan.writes.append((key("path", item.path), DIRECTORY))
            self.step("directory", item.path, "attributes", f"set {attributes(want)} of {item.path}", want)
            self.change(item.path, attributes(now), attributes(want))

    def _make_directory(self, path: str, want: PathState) -> None:
        if path in self.made:
            return
        self.made.add(path)
        self.plan.writes.append((key("path", path), DIRECTORY))
        self.step("directory", path, "make", f"make directory {path}", want)
        self.change(path, "", f"directory, {attributes(want)}")

    def _link(self, item: LinkItem) -> None:
        self.claim(item.path, FORM_LINK)
        now, this = self.found.path(item.path), key("path", item.path)
        self.parent(item.path)
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
            self.writable(path, now)
            self.keep_aside(path, now)
        self.plan.writes.append((key("path", path), ABSENT))
        self.step("absent", path, "remove", f"remove {path}", now.kind)
        self.change(path, f"a {now.kind}", "")
