# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two things a module does with a node: make it as a role wants it, and make it as it was before.

A run that changes the node holds the record's lock meanwhile; a run that only reads does not.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..host.host import Host
from ..kinds import package
from ..kinds.observe import Found, look_again
from ..model.errors import RecordError
from ..model.items import Desired, PathState
from ..model.replay import Entry, View
from ..request.contents import Contents
from ..store.lock import locked
from ..store.site_versions import kept_files
from ..store.store import Store
from .converge import Converge
from .report import Outcome, Report, report_of
from .restore import Restore, tidy

DEFAULT_RECORD = "/var/lib/converged/record"
LOCK_SECONDS = 60


@dataclass
class Session:
    """One node and its record."""

    host: Host
    record_dir: str = DEFAULT_RECORD
    holder: str = "somebody"
    wait: float = LOCK_SECONDS

    def __post_init__(self) -> None:
        self.store = Store(self.host, self.record_dir)

    def _locked(self, what: str) -> t.ContextManager[None]:
        return locked(self.host, self.store, holder=f"{self.holder} ({what})", wait=self.wait)

    def converge(self, desired: Desired, contents: Contents, *, check: bool = False, show: bool = False) -> Outcome:
        """Do what a role wants, or in check mode say what it would do."""
        if check:
            return Converge(self.host, self.store, desired, contents).preview(show=show)
        with self._locked(f"role {desired.role}"):
            return Converge(self.host, self.store, desired, contents).run(show=show)

    def restore(self, role: str = "", *, check: bool = False) -> Report:
        """Put back what `role`, or everyone, changed; in check mode say what it would do."""
        if not check:
            with self._locked("restore"):
                return self._restore(role)
        view = self.store.load()
        undo = Restore(self.host, self.store, view, role).plan(view.held(role))
        report = report_of(undo, [step.text for step in undo.steps], undo.changes, self.store.exists())
        report.roles = sorted(view.known)
        return report

    def _restore(self, role: str) -> Report:
        view = self.store.load()
        existed = self.store.exists()
        tidy(self.host, view)
        report = Restore(self.host, self.store, view, role, cut=self._repair(view)).run(view.held(role))
        report.found_record = existed
        report.roles = sorted(view.known)
        report.kept = kept_files(self.host, self.record_dir)
        if not view.entries:
            self.store.remove()
        return report

    def _repair(self, view: View) -> str:
        """End what a killed run began with packages, or return why not: most can be removed all the same."""
        ours = set(view.packages())
        try:
            if ours:
                package.manager(self.host).repair(ours)
        except RecordError as error:
            return str(error)
        return ""

    def adopt(self, parts: t.Mapping[str, bytes], *, even_unchanged: bool) -> None:
        """Take a copy of a lost record, unless nothing on this node shows that it is this node's."""
        with self._locked("copy"):
            if self.store.exists():
                return
            self.store.adopt({name: [data] for name, data in parts.items()})
            view = self.store.load()
            found = look_again(self.host, view, [this for this in view.entries if this.startswith("path:")])
            ours = any(_is_ours(view, entry, found) for entry in view.entries.values())
            if not (ours or even_unchanged):
                self.store.remove()


def _is_ours(view: View, entry: Entry, found: Found) -> bool:
    """Return whether a file is as we wrote it, and not as it was."""
    if not isinstance(entry.state, PathState):
        return False
    now = found.path(entry.name)
    return now.sha256 != entry.state.sha256 and now.sha256 in view.wrote.get(entry.key, [])
