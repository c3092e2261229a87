# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planning of whole files, and what every kind of path has in common: owner, place, secrets, what is kept. Pure."""

from __future__ import annotations

import os
import typing as t

from ..model.diff_text import attributes, digest, is_text, size
from ..model.errors import RecordError
from ..model.items import ABSENT, DIRECTORY, FILE, FORM_FILE, Change, DirectoryItem, FileItem, FileWrite, PathState, key
from .builder import PlanBuilder


def owner(builder: PlanBuilder, item: t.Union[FileItem, DirectoryItem], now: PathState) -> t.Tuple[int, int]:
    """Return the user and group that own the path afterwards; -1 for a name that is still to come."""
    uid, gid = (now.uid, now.gid) if now.kind != ABSENT else builder.found.ids
    uid = _number(builder, f"{item.path}: user", item.owner, builder.found.owners) if item.owner else uid
    gid = _number(builder, f"{item.path}: group", item.group, builder.found.groups) if item.group else gid
    return uid, gid


def _number(builder: PlanBuilder, what: str, name: str, known: t.Mapping[str, t.Optional[int]]) -> int:
    found = known[name]
    if found is None and not builder.assume:
        raise RecordError(f"{what} {name!r} does not exist on this node: make it first")
    return -1 if found is None else found


def require_parent(builder: PlanBuilder, path: str) -> None:
    """Refuse a path whose parent directory is not there when its step comes."""
    above = os.path.dirname(path)
    state = builder.found.path(above)
    if state.kind == DIRECTORY or above in builder.made or above == "/" or (state.kind == ABSENT and builder.assume):
        return
    found = "is missing: name it in directories" if state.kind == ABSENT else f"is a {state.kind}, not a directory"
    raise RecordError(f"{path}: {above} {found}")


def refuse_immutable(builder: PlanBuilder, path: str) -> None:
    """Refuse a path that the site has made immutable with `chattr +i`."""
    if path in builder.found.immutable:
        raise RecordError(f"{path}: has the immutable attribute: remove it with `chattr -i {path}`, or leave it out")


def require_writable(builder: PlanBuilder, path: str, now: PathState) -> None:
    """Refuse a path that cannot take a new content without harm to anything else."""
    if now.kind not in (ABSENT, FILE):
        raise RecordError(f"{path}: wanted a file, found a {now.kind}: move it away first")
    if now.nlink > 1:
        raise RecordError(f"{path}: has {now.nlink} names (hard links), which would part: make it a file of its own")
    refuse_immutable(builder, path)


def keep_aside(builder: PlanBuilder, path: str, now: PathState) -> None:
    """Have the site's version of a file of ours put aside, as no baseline holds it."""
    this = key("path", path)
    entry = builder.view.entries.get(this)
    was = t.cast(PathState, entry.state).sha256 if entry is not None else now.sha256
    if now.kind == FILE and now.sha256 not in (was, *builder.view.wrote.get(this, [])):
        builder.plan.keep.append((path, now.sha256))


def plan_file(builder: PlanBuilder, item: FileItem) -> None:
    """Plan one whole file."""
    builder.claim(item.path, FORM_FILE, secret=item.secret)
    now = builder.found.path(item.path)
    require_parent(builder, item.path)
    uid, gid = owner(builder, item, now)
    new_mode = 0o600 if item.secret else 0o644
    mode = item.mode if item.mode is not None else (now.mode if now.kind == FILE else new_mode)
    want = PathState(FILE, item.sha256, item.size, uid, gid, mode, xattrs=now.xattrs)
    builder.plan.inputs[item.path] = item.sha256
    if now.kind == FILE and now.sha256 == item.sha256 and want.same_attributes(now):
        return
    require_writable(builder, item.path, now)
    builder.plan.writes.append((key("path", item.path), item.sha256))
    if now.sha256 == item.sha256:
        builder.step("file", item.path, "attributes", f"set {attributes(want)} of {item.path}", want)
        builder.change(item.path, attributes(now), attributes(want))
        return
    keep_aside(builder, item.path, now)
    builder.plan.uploads[item.sha256] = item.size
    builder.step(
        "file",
        item.path,
        "write",
        f"write {item.path} ({size(item.size)})",
        FileWrite(want, item.validate, new=now.kind == ABSENT),
    )
    show(builder, item.path, now, want)


def show(builder: PlanBuilder, path: str, now: PathState, want: PathState) -> None:
    """Add to the diff what may be shown of a new content."""
    before, after = builder.found.texts.get(path), builder.plan.contents.get(want.sha256)
    if builder.is_secret(key("path", path)):
        builder.change(path, "(secret)" if now.kind == FILE else "", "(secret, changed)")
    elif (before is not None and is_text(before)) or now.kind == ABSENT:
        shown = after.decode("utf-8", "replace") if after is not None else ""
        builder.plan.changes.append(
            Change(path, (before or b"").decode(), shown, "" if after is not None else want.sha256)
        )
    else:
        builder.change(path, digest(now), digest(want))
