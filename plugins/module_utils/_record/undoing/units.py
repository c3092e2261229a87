# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Undo of units: they run and are enabled as they were, unless the site has decided otherwise since. Pure."""

from __future__ import annotations

import typing as t

from ..kinds import unit as systemd
from ..model.items import UnitState
from ..model.replay import Entry
from .builder import UndoBuilder


def undo_unit(builder: UndoBuilder, entry: Entry) -> None:
    """Plan how one unit goes back, or say why it stays."""
    was = t.cast(UnitState, entry.state)
    now, acted = builder.found.units[entry.name], builder.wrote(entry.key)
    ours = bool(acted) or not was.exists
    planned = builder.count()
    if now.active and not was.active:
        if "start" in acted or "restart" in acted or not was.exists:
            builder.step("stop", "unit", entry.name, "stop", f"stop {entry.name}")
        else:
            builder.undo.site[entry.key] = f"unit {entry.name}: runs, and the site started it"
    if now.links != was.links:
        if "enable" in acted or "disable" in acted or not was.exists:
            data = (now, was)
            builder.step(
                "stop", "unit", entry.name, "links", f"put back enablement of {entry.name} ({was.enabled})", data
            )
        else:
            builder.undo.site[entry.key] = f"unit {entry.name}: is {now.enabled}, and the site made it so"
    if was.active and not now.active and ours:
        builder.step("start", "unit", entry.name, "start", f"start {entry.name}")
    elif was.active and not now.active:
        builder.undo.site[entry.key] = f"unit {entry.name}: does not run, and the site stopped it"
    elif was.active and "restart" in acted and entry.name not in builder.done:
        builder.step("start", "unit", entry.name, "restart", f"restart {entry.name} with what it had before us")
    if now.failed and not was.failed and not now.active and ours:
        builder.step("start", "unit", entry.name, "reset-failed", f"forget the failure of {entry.name}")
    if now.exists and not was.exists and entry.key not in builder.undo.left:
        builder.undo.left[entry.key] = "its unit file is still there"
    if planned == builder.count() and entry.key not in (*builder.undo.site, *builder.undo.left):
        builder.undo.proved.append(entry.key)


def plan_reload(builder: UndoBuilder) -> None:
    """Let systemd read its unit files again where some of them change."""
    touched = [step for name in ("put back", "remove") for step in builder.phases[name]]
    if any(systemd.unit_of(step.name) for step in touched) or any(u.needs_reload for u in builder.found.units.values()):
        builder.step("reload", "unit", "", "reload", "let systemd read its unit files again")
