# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Undo of units: they run and are enabled as they were, unless the site has decided otherwise since. Pure."""

from __future__ import annotations

import typing as t

from .kinds import unit as systemd
from .model import UnitState
from .undo import UndoDraft
from .view import Entry


class UnitsUndo(UndoDraft):
    """Units of systemd."""

    def unit(self, entry: Entry) -> None:
        """One of them."""
        was = t.cast(UnitState, entry.state)
        now, acted = self.found.units[entry.name], self.wrote(entry.key)
        ours = bool(acted) or not was.exists
        planned = self._count()
        if now.active and not was.active:
            if "start" in acted or "restart" in acted or not was.exists:
                self.step("stop", "unit", entry.name, "stop", f"stop {entry.name}")
            else:
                self.undo.site[entry.key] = f"unit {entry.name}: runs, and the site started it"
        if now.links != was.links:
            if "enable" in acted or "disable" in acted or not was.exists:
                data = (now, was)
                self.step(
                    "stop", "unit", entry.name, "links", f"put back enablement of {entry.name} ({was.enabled})", data
                )
            else:
                self.undo.site[entry.key] = f"unit {entry.name}: is {now.enabled}, and the site made it so"
        if was.active and not now.active and ours:
            self.step("start", "unit", entry.name, "start", f"start {entry.name}")
        elif was.active and not now.active:
            self.undo.site[entry.key] = f"unit {entry.name}: does not run, and the site stopped it"
        elif was.active and "restart" in acted and entry.name not in self.done:
            self.step("start", "unit", entry.name, "restart", f"restart {entry.name} with what it had before us")
        if now.failed and not was.failed and not now.active and ours:
            self.step("start", "unit", entry.name, "reset-failed", f"forget the failure of {entry.name}")
        if now.exists and not was.exists and entry.key not in self.undo.left:
            self.undo.left[entry.key] = "its unit file is still there"
        if planned == self._count() and entry.key not in (*self.undo.site, *self.undo.left):
            self.undo.proved.append(entry.key)

    def _count(self) -> int:
        return sum(len(steps) for steps in self.phases.values())

    def reload(self) -> None:
        """Where unit files change."""
        touched = [step for name in ("put back", "remove") for step in self.phases[name]]
        if any(systemd.unit_of(step.name) for step in touched) or any(
            u.needs_reload for u in self.found.units.values()
        ):
            self.step("reload", "unit", "", "reload", "let systemd read its unit files again")
