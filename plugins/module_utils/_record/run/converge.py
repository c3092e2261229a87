# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a node as one role wants it.

The order of a change: read, plan, baselines of all keys, journal of what will be written, packages, the rest in the
plan's order. An error of the plan ends the run with nothing touched. A run may be killed between any two of these: the
next one, or a restore, finds all it needs in the record.
"""

from __future__ import annotations

import typing as t

from ..host.host import Host
from ..kinds import apply, package, unit
from ..kinds.observe import Found, observe
from ..model.errors import RecordError
from ..model.items import Desired, split_key
from ..model.replay import Entry, View
from ..planning.builder import Plan
from ..planning.plan import make_plan
from ..request.contents import Contents
from ..store.site_versions import keep, kept_files
from ..store.store import Store
from .report import Outcome
from .restore import Restore, tidy
from .write_ahead import expect_packages, started, write_ahead


class Converge:
    """One call of one role. What it does with the node it does under the record's lock."""

    def __init__(self, host: Host, store: Store, desired: Desired, contents: Contents) -> None:
        self._host, self._store, self._desired, self._contents = host, store, desired, contents
        self._view = store.load()

    def preview(self, *, show: bool) -> Outcome:
        """Return what `run` would do, or raise why it would do nothing."""
        if self._desired.packages and package.manager(self._host).is_cut(self._view.packages()):
            package.manager(self._host).check(self._view.packages())
        outcome, _found, plan, _stale = self._plan_all(assume=True, show=show)
        apply.check_space(self._host, plan.steps)
        for step in plan.steps:
            if step.kind == "package":
                package.manager(self._host).would_install(step.data)
        return outcome

    def run(self, *, show: bool) -> Outcome:
        """Make the node as the role wants it; do nothing if contents are missing, and name these."""
        ours = self._view.packages()
        if self._desired.packages:
            package.manager(self._host).repair(set(ours))
        outcome, found, plan, stale = self._plan_all(assume=False, show=show)
        outcome.missing = sorted(sha256 for sha256 in plan.uploads if not self._has(sha256))
        if outcome.missing:
            return outcome
        apply.check_space(self._host, plan.steps)
        write_ahead(self._store, self._view, self._desired.role, found, plan)
        tidy(self._host, self._view)
        if any(step.kind == "package" for step in plan.steps):
            self._install(plan, found)
            found = observe(self._host, self._desired, show=False)
            plan = self._plan(found, assume=False)
            write_ahead(self._store, self._view, self._desired.role, found, plan)
        kept = kept_files(self._host, self._store.root)
        for name, sha256 in plan.keep:
            keep(self._host, self._store.root, name, sha256)
        self._apply(plan)
        outcome.restarted = sorted(plan.started)
        if stale:
            self._restore().run(stale)
        outcome.kept = [name for name in kept_files(self._host, self._store.root) if name not in kept]
        return outcome

    def _plan_all(self, *, assume: bool, show: bool) -> t.Tuple[Outcome, Found, Plan, t.List[Entry]]:
        found = observe(self._host, self._desired, show=show)
        plan = self._plan(found, assume=assume or _installs(self._desired, found))
        if any(step.kind == "package" for step in plan.steps):
            package.manager(self._host).check(self._view.packages())
        stale = _stale(self._desired, plan, self._view)
        steps = [f"keep your version of {name} aside" for name, _sha256 in plan.keep]
        steps += [step.text for step in plan.steps]
        undone = [step.text for step in self._restore().plan(stale).steps] if stale else []
        return Outcome(bool(plan.steps or undone), [*steps, *undone], plan.changes), found, plan, stale

    def _plan(self, found: Found, *, assume: bool) -> Plan:
        plan = make_plan(self._desired, found, self._view, text_of=self._store.blob, assume=assume)
        if plan.errors:
            raise RecordError("; ".join(plan.errors))
        ours = self._view.packages()
        new = [this for this in plan.claims if this not in self._view.entries and this.startswith("path:")]
        if ours and (plan.keep or new):  # what a package of ours brought is no work of the site, and came by us
            pristine = {file.path for file in package.manager(self._host).own_files(ours) if file.is_pristine}
            plan.keep = [pair for pair in plan.keep if pair[0] not in pristine]
            plan.brought = {this for this in new if split_key(this)[1] in pristine}
        return plan

    def _restore(self) -> Restore:
        return Restore(self._host, self._store, self._view, self._desired.role)

    def _has(self, sha256: str) -> bool:
        return self._contents.has(sha256) or (self._store.exists() and self._store.has_blob(sha256))

    def _install(self, plan: Plan, found: Found) -> None:
        packages = package.manager(self._host)
        for step in plan.steps:
            if step.kind == "package":
                coming = packages.would_install(step.data)
                expect_packages(self._store, self._view, self._desired.role, found, coming)
                apply.perform(self._host, step)

    def _apply(self, plan: Plan) -> None:
        def chunks(sha256: str) -> t.Iterable[bytes]:
            if sha256 in plan.contents:
                return [plan.contents[sha256]]
            return self._contents.chunks(sha256) if self._contents.has(sha256) else self._store.blob_chunks(sha256)

        apply.perform_all(self._host, plan.steps, chunks)
        _check_started(self._host, plan)
        role = self._desired.role
        self._store.append(self._view, [started(name, role, digest) for name, digest in plan.started.items()])


def _installs(desired: Desired, found: Found) -> bool:
    return any(item.name not in found.packages for item in desired.packages)


def _stale(desired: Desired, plan: Plan, view: View) -> t.List[Entry]:
    """Return what this role once claimed and no longer asks for; it goes back to what it was."""
    found = [entry for entry in view.held(desired.role) if entry.key not in plan.claims]
    return [entry for entry in found if entry.kind != "package"] if desired.packages else found


def _check_started(host: Host, plan: Plan) -> None:
    """Raise RecordError for a unit that came up and fell over at once: it has not started."""
    for name, state in unit.read_all(host, list(plan.started)).items():
        if state.failed or not (state.active or state.oneshot or state.condition_unmet):
            found = "failed" if state.failed else "not running"
            raise RecordError(f"unit {name}: was started and is {found}; see: journalctl -u {name}")
