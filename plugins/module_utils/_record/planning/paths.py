# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planning of everything that has a path: files and edits, and here directories, links and removals. Pure."""

from __future__ import annotations

from ..host.paths import parents
from ..model.diff_text import attributes
from ..model.errors import RecordError
from ..model.items import (
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
from .builder import PlanBuilder
from .edits import plan_edit
from .files import keep_aside, owner, plan_file, refuse_immutable, require_parent, require_writable


def plan_paths(builder: PlanBuilder) -> None:
    """Plan all items of the call that have a path."""
    for directory in builder.desired.directories:
        builder.attempt(_plan_directory, directory)
    for file in builder.desired.files:
        builder.attempt(plan_file, file)
    for edit in builder.desired.edits:
        builder.attempt(plan_edit, edit)
    for link in builder.desired.links:
        builder.attempt(_plan_link, link)
    for path in sorted(builder.desired.absent, reverse=True):  # what is inside before what holds it
        builder.attempt(_plan_removal, path)


def _plan_directory(builder: PlanBuilder, item: DirectoryItem) -> None:
    builder.claim(item.path, FORM_DIRECTORY)
    now = builder.found.path(item.path)
    if now.kind not in (ABSENT, DIRECTORY):
        raise RecordError(f"{item.path}: wanted a directory, found a {now.kind}: move it away first")
    for above in reversed(parents(item.path)):
        state = builder.found.path(above)
        if state.kind == ABSENT and above not in builder.made:
            builder.claim(above, FORM_DIRECTORY)
            _make_directory(
                builder, above, PathState(DIRECTORY, uid=builder.found.ids[0], gid=builder.found.ids[1], mode=0o755)
            )
        elif state.kind not in (ABSENT, DIRECTORY):
            raise RecordError(f"{item.path}: {above} is a {state.kind}, not a directory: move it away first")
    uid, gid = owner(builder, item, now)
    mode = item.mode if item.mode is not None else (now.mode if now.kind == DIRECTORY else 0o755)
    want = PathState(DIRECTORY, uid=uid, gid=gid, mode=mode, xattrs=now.xattrs)
    if now.kind == ABSENT:
        _make_directory(builder, item.path, want)
    elif not want.same_attributes(now):
        refuse_immutable(builder, item.path)
        builder.plan.writes.append((key("path", item.path), DIRECTORY))
        builder.step("directory", item.path, "attributes", f"set {attributes(want)} of {item.path}", want)
        builder.change(item.path, attributes(now), attributes(want))


def _make_directory(builder: PlanBuilder, path: str, want: PathState) -> None:
    if path in builder.made:
        return
    builder.made.add(path)
    builder.plan.writes.append((key("path", path), DIRECTORY))
    builder.step("directory", path, "make", f"make directory {path}", want)
    builder.change(path, "", f"directory, {attributes(want)}")


def _plan_link(builder: PlanBuilder, item: LinkItem) -> None:
    builder.claim(item.path, FORM_LINK)
    now, this = builder.found.path(item.path), key("path", item.path)
    require_parent(builder, item.path)
    builder.plan.inputs[item.path] = item.target
    if now.kind == LINK and now.target == item.target:
        return
    ours = now.kind == LINK and now.target in builder.view.wrote.get(this, [])
    if now.kind != ABSENT and not ours:
        found = f"a link to {now.target}" if now.kind == LINK else f"a {now.kind}"
        raise RecordError(f"{item.path}: wanted a link to {item.target}, found {found} that is not ours: move it away")
    builder.plan.writes.append((this, item.target))
    want = PathState(LINK, target=item.target, uid=builder.found.ids[0], gid=builder.found.ids[1])
    builder.step("link", item.path, "make", f"link {item.path} to {item.target}", want)
    builder.change(item.path, now.target, item.target)


def _plan_removal(builder: PlanBuilder, path: str) -> None:
    builder.claim(path, FORM_ABSENT)
    now = builder.found.path(path)
    builder.plan.inputs[path] = ABSENT
    if now.kind == ABSENT:
        return
    if now.kind == DIRECTORY:
        left = [name for name in builder.found.names.get(path, []) if f"{path}/{name}" not in builder.desired.absent]
        if left:
            raise RecordError(f"{path}: is a directory that holds {left[0]}: name everything in it, too")
    elif now.kind != LINK:
        require_writable(builder, path, now)
        keep_aside(builder, path, now)
    builder.plan.writes.append((key("path", path), ABSENT))
    builder.step("absent", path, "remove", f"remove {path}", now.kind)
    builder.change(path, f"a {now.kind}", "")
