# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two things a module does with a node: make it as a role wants it, and make it as it was before.

The order of a change: lock, read, plan (any error ends here, with nothing touched), baselines of all keys, journal of
what will be written, packages, then the rest in the plan's order. A run may be killed between any two of these: the
next one, or a restore, finds all it needs in the record.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from . import apply
from .contents import Contents
from .draft import Plan
from .errors import RecordError
from .host import Host
from .kept import keep, kept_files
from .kinds import package, path, unit
from .lock import locked
from .model import JSON, Change, Desired, FileWrite, PathState, Step, UnitState, key, split_key
from .observe import Found, look_again, observe
from .plan import make_plan
from .report import Outcome, Report, report_of
from .restore import Undo, plan_undo
from .store import Store
from .view import Entry, View

DEFAULT_RECORD = "/var/lib/converged/record"
LOCK_SECONDS = 60
_MOST_ROUNDS = 5


@dataclass
class Session:
    """One node and its record."""

    host: Host
    record_dir: str = DEFAULT_RECORD
    holder: str = "somebody"
    wait: float = LOCK_SECONDS

    def __post_init__(self) -> None:
        self.store = Store(self.host, self.record_dir)

    # Towards what a role wants

    def converge(self, desired: Desired, contents: Contents, *, check: bool = False, show: bool = False) -> Outcome:
        """Does it, or in check mode says what it would do."""
        if check:
            return self._converge(desired, contents, check=True, show=show)
        with locked(self.host, self.store, holder=f"{self.holder} (role {desired.role})", wait=self.wait):
            return self._converge(desired, contents, check=False, show=show)

    def _converge(self, desired: Desired, contents: Contents, *, check: bool, show: bool) -> Outcome:
        view = self.store.load()
        if desired.packages and not check:
            package.manager(self.host).repair(set(_ours(view)))
        found = observe(self.host, desired, show=show)
        plan = self._plan(desired, found, view, assume=check or _installs(desired, found))
        aside = [f"keep your version of {name} aside" for name, _sha256 in plan.keep]
        outcome = Outcome(bool(plan.steps), [*aside, *(step.text for step in plan.steps)], plan.changes)
        stale = self._stale(desired, plan, view)
        undo = self._plan_undo(view, stale, desired.role) if stale else Undo()
        outcome.steps += [step.text for step in undo.steps]
        outcome.changed = outcome.changed or bool(undo.steps)
        if check:
            return outcome
        outcome.missing = sorted(sha256 for sha256 in plan.uploads if not self._has(contents, sha256))
        if outcome.missing:
            return outcome
        apply.check_space(self.host, plan.steps)
        self._record(desired.role, found, view, plan)
        self._tidy(view)
        if any(step.kind == "package" for step in plan.steps):
            self._install(desired, view, plan)
            found = observe(self.host, desired, show=False)
            plan = self._plan(desired, found, view, assume=False)
            self._record(desired.role, found, view, plan)
        kept = kept_files(self.host, self.record_dir)
        for name, sha256 in plan.keep:
            keep(self.host, self.record_dir, name, sha256)
        self._apply(desired.role, view, plan, contents)
        outcome.restarted = sorted(plan.started)
        if stale:
            self._undo_all(view, stale, desired.role)
        outcome.kept = [name for name in kept_files(self.host, self.record_dir) if name not in kept]
        return outcome

    def _plan(self, desired: Desired, found: Found, view: View, *, assume: bool) -> Plan:
        plan = make_plan(desired, found, view, text_of=self.store.blob, assume=assume)
        if plan.errors:
            raise RecordError("; ".join(plan.errors))
        ours = list(_ours(view))
        if plan.keep and ours:  # what a package of ours brought is nobody's work
            pristine = package.manager(self.host).own_files(ours)
            plan.keep = [pair for pair in plan.keep if not pristine.get(pair[0])]
        return plan

    def _has(self, contents: Contents, sha256: str) -> bool:
        return contents.has(sha256) or (self.store.exists() and self.store.has_blob(sha256))

    def _record(self, role: str, found: Found, view: View, plan: Plan) -> None:
        """All that must be on disk before the first step."""
        new = [this for this in plan.claims if this not in view.entries]
        claims = {this: form for this, form in plan.claims.items() if view.claims.get(this, {}).get(role) != form}
        events: t.List[JSON] = [{"event": "claim", "role": role, "keys": claims}] if claims else []
        secrets = sorted(plan.secrets - view.secrets)
        events += [{"event": "secret", "keys": secrets}] if secrets else []
        writes = [list(pair) for pair in plan.writes if pair[1] not in view.wrote.get(pair[0], [])]
        events += [{"event": "write", "values": writes}] if writes else []
        for this, pair in plan.edits:
            fields = {"before": pair.before, "ours": pair.ours, "without": pair.without, "spec": pair.spec}
            events.append({"event": "edit", "key": this, "role": role, **fields})
        events += [
            _started(this, role, "") for this in plan.started if view.started.get((key("unit", this), role)) != ""
        ]
        events += [_started(this, role, digest) for this, digest in plan.adopted.items()]
        if not (new or events):
            return
        self.store.begin()
        for pair in (edit[1] for edit in plan.edits):
            for sha256 in (pair.before, pair.ours, pair.without):
                self.store.put_text(plan.contents[sha256])
        baselines = [(this, self._baseline(this, found), this in plan.secrets) for this in new]
        self.store.add_baselines(view, baselines)
        self.store.append(view, events)

    def _baseline(self, this: str, found: Found) -> t.Any:
        """A thing's state for the record, its content on disk first."""
        state = found.state(this)
        if isinstance(state, PathState) and state.sha256 and not self.store.has_blob(state.sha256):
            kept = self.store.put_blob(this.partition(":")[2])
            if kept != state.sha256:
                raise RecordError(f"{this.partition(':')[2]}: changed while it was read: run again")
        return state.to_json() if isinstance(state, (PathState, UnitState)) else state

    def _install(self, desired: Desired, view: View, plan: Plan) -> None:
        packages = package.manager(self.host)
        for step in plan.steps:
            if step.kind == "package":
                coming = packages.would_install(step.data)
                new = [key("package", name) for name in coming if key("package", name) not in view.entries]
                self.store.add_baselines(view, [(this, "", False) for this in new])
                claims = {key("package", name): "package" for name in coming}
                values = [[this, "installed"] for this in claims]
                claim = {"event": "claim", "role": desired.role, "keys": claims}
                self.store.append(view, [claim, {"event": "write", "values": values}])
                apply.perform(self.host, step)

    def _apply(self, role: str, view: View, plan: Plan, contents: Contents) -> None:
        def chunks(sha256: str) -> t.Iterable[bytes]:
            if sha256 in plan.contents:
                return [plan.contents[sha256]]
            return contents.chunks(sha256) if contents.has(sha256) else self.store.blob_chunks(sha256)

        apply.perform_all(self.host, plan.steps, chunks)
        self._check_started(plan)
        self.store.append(view, [_started(name, role, digest) for name, digest in plan.started.items()])

    def _check_started(self, plan: Plan) -> None:
        """A unit that came up and fell over at once has not started."""
        for name, state in unit.read_all(self.host, list(plan.started)).items():
            if state.failed or not (state.active or state.oneshot):
                found = "failed" if state.failed else "not running"
                raise RecordError(f"unit {name}: was started and is {found}; see: journalctl -u {name}")

    def _stale(self, desired: Desired, plan: Plan, view: View) -> t.List[Entry]:
        """What this role once claimed and no longer asks for; it goes back to what it was."""
        found = []
        for this, claims in view.claims.items():
            dependency = this.startswith("package:") and bool(desired.packages)
            if desired.role in claims and this not in plan.claims and not dependency:
                found.append(view.entries[this])
        return found

    # Back to what it was

    def adopt(self, parts: t.Mapping[str, bytes], *, even_unchanged: bool) -> None:
        """Takes a copy of a lost record, unless nothing on this node shows that it is this node's."""
        with locked(self.host, self.store, holder=f"{self.holder} (copy)", wait=self.wait):
            if self.store.exists():
                return
            self.store.adopt({name: [data] for name, data in parts.items()})
            view = self.store.load()
            found = look_again(self.host, view, [this for this in view.entries if this.startswith("path:")])
            ours = any(_is_ours(view, entry, found) for entry in view.entries.values())
            if not (ours or even_unchanged):
                self.store.remove()

    def restore(self, role: str = "", *, check: bool = False) -> Report:
        """Puts back what `role`, or everyone, changed; in check mode says what it would do."""
        if check:
            view = self.store.load()
            undo = self._plan_undo(view, _entries(view, role), role)
            report = report_of(undo, [step.text for step in undo.steps], undo.changes, self.store.exists())
            report.roles = sorted(view.known)
            return report
        with locked(self.host, self.store, holder=f"{self.holder} (restore)", wait=self.wait):
            view = self.store.load()
            existed = self.store.exists()
            self._tidy(view)
            broken = self._repair(view)
            report = self._undo_all(view, _entries(view, role), role)
            report.left += [broken] if broken and report.left else []
            report.found_record = existed
            report.roles = sorted(view.known)
            report.kept = kept_files(self.host, self.record_dir)
            if not view.entries:
                self.store.remove()
            return report

    def _repair(self, view: View) -> str:
        """Ends what a killed run began with packages; what cannot be repaired may still be removed."""
        ours = set(_ours(view))
        try:
            if ours:
                package.manager(self.host).repair(ours)
        except RecordError as error:
            return str(error)
        return ""

    def _plan_undo(self, view: View, entries: t.Sequence[Entry], role: str, done: t.Container[str] = ()) -> Undo:
        found = look_again(self.host, view, [entry.key for entry in entries], role)
        return plan_undo(view, found, entries, role=role, text_of=self.store.blob, done=done)

    def _undo_all(self, view: View, entries: t.Sequence[Entry], role: str) -> Report:
        texts: t.List[str] = []
        changes: t.List[Change] = []
        failed: t.Dict[str, str] = {}
        done: t.Set[str] = set()
        conflicts: t.List[str] = []
        for _round in range(_MOST_ROUNDS):
            undo = self._plan_undo(view, [entry for entry in entries if entry.key not in failed], role, done)
            if not undo.steps:
                break
            conflicts += undo.conflicts
            changes += undo.changes
            events = [{"event": "undone", "key": this, "role": of, "text": sha256} for this, of, sha256 in undo.undone]
            self.store.append(view, events)
            for name, sha256 in undo.keep:
                keep(self.host, self.record_dir, name, sha256)
            for step in undo.steps:
                why = self._try_step(step, undo)
                texts.append(step.text)
                if why:
                    failed.update((this, why) for this in _keys_of(step))
                elif step.verb in ("start", "restart"):
                    done.add(step.name)
        else:
            undo.left.update({this: "it does not stay as it is put" for step in undo.steps for this in _keys_of(step)})
        undo.left.update(failed)
        report = report_of(undo, texts, changes, True)
        report.site = sorted({*report.site, *conflicts, *undo.conflicts, *self._conffiles(view, entries)})
        self._close(view, undo, role)
        return report

    def _conffiles(self, view: View, entries: t.Sequence[Entry]) -> t.List[str]:
        """Packages are never purged: what they leave is named."""
        names = [entry.name for entry in entries if entry.kind == "package" and view.wrote.get(entry.key)]
        if not names:
            return []
        packages = package.manager(self.host)
        installed = packages.present()
        gone = [name for name in names if name not in installed]
        return [f"{path}: stays, as configuration of a removed package" for path in packages.own_files(gone)]

    def _try_step(self, step: Step, undo: Undo) -> str:
        """One failure does not keep the rest from going back."""
        try:
            if isinstance(step.data, FileWrite):
                apply.perform_write(self.host, step, lambda sha256: self._kept_content(undo, sha256))
            else:
                apply.perform(self.host, step)
        except RecordError as error:
            return str(error)
        return ""

    def _kept_content(self, undo: Undo, sha256: str) -> t.Iterable[bytes]:
        return [undo.contents[sha256]] if sha256 in undo.contents else self.store.blob_chunks(sha256)

    def _close(self, view: View, undo: Undo, role: str) -> None:
        """What is proved, or is the site's now, is no longer ours; what is shared is no longer this role's."""
        over = [*undo.proved, *undo.site]
        closed = {
            this: list(view.entries[this].order) for this in over if this in view.entries and this not in undo.left
        }
        events: t.List[JSON] = [{"event": "closed", "keys": closed}] if closed else []
        for this, roles in undo.passed.items():
            events += [{"event": "claim", "role": other, "keys": {this: "package"}} for other in roles]
            events.append({"event": "unclaim", "role": role, "keys": [this]})
        events += [{"event": "unclaim", "role": role, "keys": undo.shared}] if undo.shared else []
        self.store.append(view, events)

    def _tidy(self, view: View) -> None:
        """Takes away what a killed run had staged."""
        for this in view.entries:
            kind, name = split_key(this)
            if kind == "path":
                path.discard(self.host, name)


def _is_ours(view: View, entry: Entry, found: Found) -> bool:
    """A file that is as we wrote it, and not as it was."""
    if not isinstance(entry.state, PathState):
        return False
    now = found.path(entry.name)
    return now.sha256 != entry.state.sha256 and now.sha256 in view.wrote.get(entry.key, [])


def _installs(desired: Desired, found: Found) -> bool:
    return any(item.name not in found.packages for item in desired.packages)


def _ours(view: View) -> t.Iterator[str]:
    for this in view.wrote:
        if this.startswith("package:"):
            yield this.partition(":")[2]


def _started(name: str, role: str, digest: str) -> JSON:
    return {"event": "started", "key": key("unit", name), "role": role, "digest": digest}


def _entries(view: View, role: str) -> t.List[Entry]:
    if not role:
        return list(view.entries.values())
    return [entry for this, entry in view.entries.items() if role in view.claims.get(this, {})]


def _keys_of(step: Step) -> t.List[str]:
    if step.kind == "package":
        return [key("package", name) for name in step.data]
    kind = "path" if step.kind in ("file", "directory", "link", "absent") else step.kind
    return [key(kind, step.name)]
