# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done so that a node is as one role wants it. Pure: wanted, found and record in, steps out.

Nothing is changed when there is an error. `assume` is check mode, or a package still to come: what an earlier role or
that package would bring (a directory, a user, a unit, a kernel setting) is taken as given.
"""

from __future__ import annotations

import hashlib
import json
import os
import typing as t
from dataclasses import dataclass, field

from . import lines
from .errors import RecordError
from .kinds import unit as systemd
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
    Desired,
    DirectoryItem,
    EditItem,
    FileItem,
    FileWrite,
    LinkItem,
    PathState,
    Step,
    UnitItem,
    key,
)
from .observe import Found
from .paths import parents
from .view import Pair, View

_SHARED = (FORM_DIRECTORY, FORM_LINES)
_CANNOT_ENABLE = ("static", "generated", "transient", "indirect")


@dataclass
class Plan:
    """Steps in the order in which they are done, and what the record must hold before the first of them."""

    steps: t.List[Step] = field(default_factory=list)
    changes: t.List[Change] = field(default_factory=list)
    errors: t.List[str] = field(default_factory=list)
    claims: t.Dict[str, str] = field(default_factory=dict)
    secrets: t.Set[str] = field(default_factory=set)
    writes: t.List[t.Tuple[str, str]] = field(default_factory=list)  # key, what will be made of it
    edits: t.List[t.Tuple[str, Pair]] = field(default_factory=list)
    contents: t.Dict[str, bytes] = field(default_factory=dict)  # made by this plan
    uploads: t.Dict[str, int] = field(default_factory=dict)  # sha256 -> size of contents it needs
    started: t.Dict[str, str] = field(default_factory=dict)  # units: digest of what they run with when all is done
    adopted: t.Dict[str, str] = field(default_factory=dict)  # units that run with these inputs already
    inputs: t.Dict[str, str] = field(default_factory=dict)  # every input of a unit and what it will be


def make_plan(desired: Desired, found: Found, view: View, *, text_of: t.Callable[[str], bytes], assume: bool) -> Plan:
    """`text_of` reads texts that the record keeps."""
    return _Planner(desired, found, view, text_of, assume).run()


class _Planner:
    def __init__(
        self, desired: Desired, found: Found, view: View, text_of: t.Callable[[str], bytes], assume: bool
    ) -> None:
        self.desired, self.found, self.view, self.text_of = desired, found, view, text_of
        self.assume = assume
        self.plan = Plan()
        self.made: t.Set[str] = set()  # directories that will be there

    def run(self) -> Plan:
        self._packages()
        self._kernel()
        for directory in self.desired.directories:
            self._try(self._directory, directory)
        for file in self.desired.files:
            self._try(self._file, file)
        for edit in self.desired.edits:
            self._try(self._edit, edit)
        for link in self.desired.links:
            self._try(self._link, link)
        for path in sorted(self.desired.absent, reverse=True):  # what is inside before what holds it
            self._try(self._absent, path)
        self._units()
        return self.plan

    def _try(self, what: t.Callable[[t.Any], None], item: t.Any) -> None:
        try:
            what(item)
        except RecordError as error:
            self.plan.errors.append(str(error))

    def _claim(self, name: str, form: str, *, kind: str = "path", secret: bool = False) -> None:
        this = key(kind, name)
        for role, other in self.view.claims.get(this, {}).items():
            if role != self.desired.role and kind == "path" and (form, other) not in [(same, same) for same in _SHARED]:
                raise RecordError(
                    f"{name}: role {self.desired.role} wants it as {form}, but role {role} has it as {other}"
                )
        self.plan.claims[this] = form
        for above in parents(name) if kind == "path" else ():
            if key("path", above) in self.view.entries:  # a directory that a role made is wanted by all that is in it
                self.plan.claims.setdefault(key("path", above), FORM_DIRECTORY)
        if secret:
            self.plan.secrets.add(this)

    def _step(self, kind: str, name: str, verb: str, text: str, data: t.Any = None) -> None:
        self.plan.steps.append(Step(kind, name, verb, text, data))

    def _change(self, name: str, before: str, after: str) -> None:
        self.plan.changes.append(Change(name, before + "\n" if before else "", after + "\n" if after else ""))

    # Packages, kernel

    def _packages(self) -> None:
        missing = []
        for item in self.desired.packages:
            self._claim(item.name, "package", kind="package")
            now = self.found.packages.get(item.name, "")
            wrong = item.version and now and item.version != now
            entry = self.view.entries.get(key("package", item.name))
            if wrong and (entry is None or entry.state):
                self.plan.errors.append(
                    f"package {item.name}: version {now} is the site's, wanted {item.version}: change it yourself"
                )
            elif not now or wrong:
                missing.append(item)
                self._change(f"package {item.name}", now, item.version or "installed")
        if missing:
            names = " ".join(item.name for item in missing)
            self._step("package", names, "install", f"install {names}", tuple(missing))

    def _kernel(self) -> None:
        loading = False
        for name in self.desired.modules:
            self._claim(name, "module", kind="module")
            if not self.found.modules[name]:
                loading = True
                self.plan.writes.append((key("module", name), "loaded"))
                self._step("module", name, "load", f"load kernel module {name}")
                self._change(f"kernel module {name}", "", "loaded")
        for name, value in self.desired.sysctls:
            self._try(self._sysctl, (name, value, loading))

    def _sysctl(self, wanted: t.Tuple[str, str, bool]) -> None:
        name, value, loading = wanted
        this, now = key("sysctl", name), self.found.sysctls[name]
        if now is None and not (self.assume or loading):
            raise RecordError(f"sysctl {name}: this kernel has no such setting: load its module or leave it out")
        for role in self.view.claims.get(this, {}):
            if role != self.desired.role and self.view.wrote.get(this, [value])[-1] != value:
                raise RecordError(f"sysctl {name}: role {role} set it to {self.view.wrote[this][-1]}, wanted {value}")
        self._claim(name, "sysctl", kind="sysctl")
        if now != value:
            self.plan.writes.append((this, value))
            self._step("sysctl", name, "set", f"set {name} = {value}", value)
            self._change(f"sysctl {name}", now or "", value)

    # Paths

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
        self._claim(item.path, FORM_DIRECTORY)
        now = self.found.path(item.path)
        if now.kind not in (ABSENT, DIRECTORY):
            raise RecordError(f"{item.path}: wanted a directory, found a {now.kind}: move it away first")
        for above in reversed(parents(item.path)):
            state = self.found.path(above)
            if state.kind == ABSENT and above not in self.made:
                self._claim(above, FORM_DIRECTORY)
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
            self._step("directory", item.path, "attributes", f"set {_attributes(want)} of {item.path}", want)
            self._change(item.path, _attributes(now), _attributes(want))

    def _make_directory(self, path: str, want: PathState) -> None:
        if path in self.made:
            return
        self.made.add(path)
        self.plan.writes.append((key("path", path), DIRECTORY))
        self._step("directory", path, "make", f"make directory {path}", want)
        self._change(path, "", f"directory, {_attributes(want)}")

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

    def _file(self, item: FileItem) -> None:
        self._claim(item.path, FORM_FILE, secret=item.secret)
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
            self._step("file", item.path, "attributes", f"set {_attributes(want)} of {item.path}", want)
            self._change(item.path, _attributes(now), _attributes(want))
            return
        self.plan.uploads[item.sha256] = item.size
        self._step(
            "file",
            item.path,
            "write",
            f"write {item.path} ({_size(item.size)})",
            FileWrite(want, item.validate, new=now.kind == ABSENT),
        )
        self._show(item.path, now, want, item.secret)

    def _show(self, path: str, now: PathState, want: PathState, secret: bool) -> None:
        before, after = self.found.texts.get(path), self.plan.contents.get(want.sha256)
        if secret:
            self._change(path, "(secret)" if now.kind == FILE else "", "(secret, changed)")
        elif (before is not None and is_text(before)) or now.kind == ABSENT:
            shown = after.decode("utf-8", "replace") if after is not None else ""
            self.plan.changes.append(
                Change(path, (before or b"").decode(), shown, "" if after is not None else want.sha256)
            )
        else:
            self._change(path, _digest(now), _digest(want))

    def _edit(self, item: EditItem) -> None:
        self._claim(item.path, FORM_LINES, secret=item.secret)
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
        want = PathState(
            FILE, sha256, len(edited), uid, gid, now.mode if now.kind == FILE else 0o644, xattrs=now.xattrs
        )
        self._step("file", item.path, "write", f"edit {item.path}", FileWrite(want, new=now.kind == ABSENT))
        self._show(item.path, now, want, item.secret)

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
                    shown = "(secret)" if item.secret else repr(lost[0].decode("utf-8", "replace"))
                    raise RecordError(
                        f"{item.path}: role {self.desired.role} would undo a line of role {role}: {shown}"
                    )

    def _link(self, item: LinkItem) -> None:
        self._claim(item.path, FORM_LINK)
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
        self._step("link", item.path, "make", f"link {item.path} to {item.target}", want)
        self._change(item.path, now.target, item.target)

    def _absent(self, path: str) -> None:
        self._claim(path, FORM_ABSENT)
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
        self.plan.writes.append((key("path", path), ABSENT))
        self._step("absent", path, "remove", f"remove {path}", now.kind)
        self._change(path, f"a {now.kind}", "")

    # Units

    def _units(self) -> None:
        touched = {step.name for step in self.plan.steps if step.kind in ("file", "directory", "link", "absent")}
        stale = any(state.needs_reload for state in self.found.units.values())
        if stale or any(systemd.unit_of(path) for path in touched):
            self._step("unit", "", "reload", "let systemd read its unit files again")
        for item in self.desired.units:
            self._try(lambda item: self._unit(item, touched), item)

    def _unit(self, item: UnitItem, touched: t.Set[str]) -> None:
        now, this = self.found.units[item.name], key("unit", item.name)
        self._claim(item.name, "unit", kind="unit")
        coming = not now.exists and (self.assume or any(systemd.unit_of(path) == item.name for path in touched))
        if (item.active or item.enabled) and not now.exists and not coming:
            raise RecordError(f"unit {item.name}: there is no such unit on this node: install it, or leave it out")
        if (item.active or item.enabled) and now.load == "masked":
            raise RecordError(f"unit {item.name}: the site has masked it: unmask it, or leave it out")
        if item.enabled and now.exists and now.enabled in _CANNOT_ENABLE:
            raise RecordError(f"unit {item.name}: is {now.enabled}, it cannot be enabled: leave `enabled` out")
        if item.enabled and now.enabled not in ("enabled", "alias"):
            self._act(item, "enable", f"it is {now.enabled}" if now.enabled else "")
        elif item.enabled is False and now.enabled in ("enabled", "enabled-runtime", "alias", "linked"):
            self._act(item, "disable", f"it is {now.enabled}")
        if item.active is False and now.active:
            self._act(item, "stop", "it runs")
        elif item.active or (item.active is None and item.restart_on is not None):
            self._start(item, this, touched)

    def _start(self, item: UnitItem, this: str, touched: t.Set[str]) -> None:
        now = self.found.units[item.name]
        inputs = self._inputs(item)
        digest = hashlib.sha256(json.dumps(sorted(inputs.items())).encode()).hexdigest()
        last = self.view.started.get((this, self.desired.role))
        changed = sorted(touched & set(inputs))
        ever = last is None and any(self.view.wrote.get(key("path", path)) for path in inputs)
        ran_once = now.oneshot and last == digest and not changed
        if not now.active and item.active and not ran_once:
            self._act(item, "start", "")
        elif (now.active or ran_once) and (changed or ever or last not in (None, digest)):
            self._act(
                item, "restart", f"{changed[0]} changes" if changed else "its inputs changed since its last start"
            )
        elif now.active or ran_once:
            if last is None:
                self.plan.adopted[item.name] = digest
            return
        else:
            return
        self.plan.started[item.name] = digest

    def _inputs(self, item: UnitItem) -> t.Dict[str, str]:
        """Files, edits, links and removals of this call, without unit files of other units; or what the role named."""
        if item.restart_on is None:
            return {
                path: value
                for path, value in self.plan.inputs.items()
                if systemd.unit_of(path) in ("", item.name) and path not in self.desired.own_files
            }
        found = {}
        for wanted in item.restart_on:
            inner = {
                path: value
                for path, value in self.plan.inputs.items()
                if path == wanted or path.startswith(wanted + "/")
            }
            state = self.found.path(wanted)
            found.update(inner or {wanted: state.sha256 or state.target or state.kind})
        return found

    def _act(self, item: UnitItem, verb: str, why: str) -> None:
        self._step("unit", item.name, verb, f"{verb} {item.name}" + (f": {why}" if why else ""))
        self._change(f"unit {item.name}", "", verb)
        self.plan.writes.append((key("unit", item.name), verb))


def current_pair(view: View, this: str, role: str, text: bytes, text_of: t.Callable[[str], bytes]) -> t.Optional[Pair]:
    """The edit that `text` shows: the last one, unless a run ended after it was recorded and before it was written."""
    found = hashlib.sha256(text).hexdigest()
    pairs = view.edit_of(this, role, found)
    while pairs and found == pairs[-1].before and found != pairs[-1].ours:
        pairs = pairs[:-1]
    if len(pairs) < 2 or found == pairs[-1].ours:
        return pairs[-1] if pairs else None
    conflicts = [len(undo_pair(pair, text, text_of).conflicts) for pair in pairs]
    return pairs[max(at for at, count in enumerate(conflicts) if count == min(conflicts))]


def undo_pair(pair: Pair, text: bytes, text_of: t.Callable[[str], bytes]) -> lines.Undone:
    """`text` without what this edit did."""
    return lines.undo(ours=text_of(pair.ours), without=text_of(pair.without), now=text)


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
