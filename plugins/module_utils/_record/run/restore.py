# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node back to what it was: planned, done, planned again until nothing is left to do; the last plan is the proof."""

from __future__ import annotations

import typing as t

from ..host.host import Host
from ..host.paths import discard
from ..kinds import apply
from ..kinds.observe import look_again
from ..model.errors import RecordError
from ..model.items import JSON, PATH_STEPS, Change, FileWrite, Step, key
from ..model.replay import Entry, View
from ..store.site_versions import keep
from ..store.store import Store
from ..undoing.builder import Undo
from ..undoing.plan import plan_undo
from .report import Report, report_of
from .write_ahead import save_files

_MOST_ROUNDS = 5


class Restore:
    """What `role`, or everyone where it is empty, changed. `cut`: why packages that are half-way could not be ended."""

    def __init__(self, host: Host, store: Store, view: View, role: str, cut: str = "") -> None:
        self._host, self._store, self._view, self._role, self._cut = host, store, view, role, cut

    def plan(self, entries: t.Sequence[Entry], done: t.Container[str] = ()) -> Undo:
        """Plan one round. `done`: units that were started again in an earlier one."""
        found = look_again(self._host, self._view, [entry.key for entry in entries], self._role, self._cut)
        return plan_undo(self._view, found, entries, role=self._role, text_of=self._store.blob, done=done)

    def run(self, entries: t.Sequence[Entry]) -> Report:
        """Do every round, and close in the journal what is proved."""
        texts: t.List[str] = []
        changes: t.List[Change] = []
        failed: t.Dict[str, str] = {}
        done: t.Set[str] = set()
        conflicts: t.List[str] = []
        entries = list(entries)
        for _round in range(_MOST_ROUNDS):
            undo = self.plan([entry for entry in entries if entry.key not in failed], done)
            if not undo.steps:
                break
            conflicts += [*undo.conflicts, *_stay(undo)]
            changes += undo.changes
            texts += [step.text for step in undo.steps]
            saved = save_files(self._host, self._store, self._view, undo.saved)
            known = {entry.key for entry in entries}
            entries += [self._view.entries[this] for this in saved if this not in known]
            self._round(undo, failed, done)
        else:
            undo.left.update({this: "it does not stay as it is put" for step in undo.steps for this in _keys(step)})
        undo.left.update(failed)
        report = report_of(undo, texts, changes, True)
        report.site = sorted({*report.site, *conflicts, *undo.conflicts})
        self._close(undo)
        return report

    def _round(self, undo: Undo, failed: t.Dict[str, str], done: t.Set[str]) -> None:
        events = [{"event": "undone", "key": this, "role": role, "text": sha256} for this, role, sha256 in undo.undone]
        self._store.append(self._view, events)
        for name, sha256 in undo.keep:
            keep(self._host, self._store.root, name, sha256)
        for step in undo.steps:
            why = self._try_step(step, undo)
            if why:
                failed.update((this, why) for this in _keys(step))
            elif step.verb in ("start", "restart"):
                done.add(step.name)

    def _try_step(self, step: Step, undo: Undo) -> str:
        """Do one step; return why it failed: the rest goes back all the same."""

        def content(sha256: str) -> t.Iterable[bytes]:
            return [undo.contents[sha256]] if sha256 in undo.contents else self._store.blob_chunks(sha256)

        try:
            if isinstance(step.data, FileWrite):
                apply.perform_write(self._host, step, content)
            else:
                apply.perform(self._host, step)
        except RecordError as error:
            return str(error)
        return ""

    def _close(self, undo: Undo) -> None:
        """Close in the journal what is proved or is the site's now; drop this role's claims on what is shared."""
        entries = self._view.entries
        over = [this for this in (*undo.proved, *undo.site) if this in entries and this not in undo.left]
        events: t.List[JSON] = []
        if over:
            events.append({"event": "closed", "keys": {this: list(entries[this].order) for this in over}})
        for this, roles in undo.passed.items():
            events += [{"event": "claim", "role": other, "keys": {this: "package"}} for other in roles]
        given_up = [*undo.passed, *undo.shared]
        if given_up:
            events.append({"event": "unclaim", "role": self._role, "keys": given_up})
        self._store.append(self._view, events)


def _stay(undo: Undo) -> t.List[str]:
    """Name what the site keeps of packages; it is out of the way while they go."""
    keys = [key("path", file.path) for file in undo.saved]
    return [undo.site[this] for this in keys if this in undo.site]


def tidy(host: Host, view: View) -> None:
    """Remove what a killed run had staged."""
    for entry in view.entries.values():
        if entry.kind == "path":
            discard(host, entry.name)


def _keys(step: Step) -> t.List[str]:
    if step.kind == "package":
        return [key("package", name) for name in step.data]
    return [key("path" if step.kind in PATH_STEPS else step.kind, step.name)]
