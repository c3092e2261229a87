# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planning of units: what runs, what is enabled, and what has to start again because its inputs changed. Pure."""

from __future__ import annotations

import hashlib
import json
import typing as t

from ..kinds import unit as systemd
from ..model.errors import RecordError
from ..model.items import PATH_STEPS, UnitItem, key
from .builder import PlanBuilder

_CANNOT_ENABLE = ("static", "generated", "transient", "indirect")


def plan_units(builder: PlanBuilder) -> None:
    """Plan all units of the call. They come last, when it is known which files change."""
    touched = {step.name for step in builder.plan.steps if step.kind in PATH_STEPS}
    stale = any(state.needs_reload for state in builder.found.units.values())
    if stale or any(systemd.unit_of(path) for path in touched):
        builder.step("unit", "", "reload", "let systemd read its unit files again")
    for item in builder.desired.units:
        builder.attempt(_plan_unit, item, touched)


def _plan_unit(builder: PlanBuilder, item: UnitItem, touched: t.Set[str]) -> None:
    now, this = builder.found.units[item.name], key("unit", item.name)
    builder.claim(item.name, "unit", kind="unit")
    coming = not now.exists and (builder.assume or any(systemd.unit_of(path) == item.name for path in touched))
    if (item.active or item.enabled) and not now.exists and not coming:
        raise RecordError(f"unit {item.name}: there is no such unit on this node: install it, or leave it out")
    if (item.active or item.enabled) and now.load == "masked":
        raise RecordError(f"unit {item.name}: the site has masked it: unmask it, or leave it out")
    if item.enabled and now.exists and now.enabled in _CANNOT_ENABLE:
        raise RecordError(f"unit {item.name}: is {now.enabled}, it cannot be enabled: leave `enabled` out")
    if item.enabled and now.enabled not in ("enabled", "alias"):
        _act(builder, item, "enable", f"it is {now.enabled}" if now.enabled else "")
    elif item.enabled is False and now.enabled in ("enabled", "enabled-runtime", "alias", "linked"):
        _act(builder, item, "disable", f"it is {now.enabled}")
    if item.active is False and now.active:
        _act(builder, item, "stop", "it runs")
    elif item.active or (item.active is None and item.restart_on is not None):
        _plan_start(builder, item, this, touched)


def _plan_start(builder: PlanBuilder, item: UnitItem, this: str, touched: t.Set[str]) -> None:
    now = builder.found.units[item.name]
    inputs = _inputs(builder, item)
    digest = hashlib.sha256(json.dumps(sorted(inputs.items())).encode()).hexdigest()
    last = builder.view.started.get((this, builder.desired.role))
    changed = sorted(touched & set(inputs))
    ever = last is None and any(builder.view.wrote.get(key("path", path)) for path in inputs)
    ran_once = now.oneshot and last == digest and not changed
    if now.condition_unmet:
        return  # a condition keeps the unit stopped; what lifts the condition starts the unit
    if not now.active and item.active and not ran_once:
        _act(builder, item, "start", "")
    elif (now.active or ran_once) and (changed or ever or last not in (None, digest)):
        _act(
            builder, item, "restart", f"{changed[0]} changes" if changed else "its inputs changed since its last start"
        )
    elif now.active or ran_once:
        if last is None:
            builder.plan.adopted[item.name] = digest
        return
    else:
        return
    builder.plan.started[item.name] = digest


def _inputs(builder: PlanBuilder, item: UnitItem) -> t.Dict[str, str]:
    """Return what the unit runs with, and what that will be.

    These are the paths that the role has named, or else all paths of this call without unit files of other units.
    """
    if item.restart_on is None:
        return {
            path: value
            for path, value in builder.plan.inputs.items()
            if systemd.unit_of(path) in ("", item.name) and path not in builder.desired.own_files
        }
    found = {}
    for wanted in item.restart_on:
        inner = {
            path: value
            for path, value in builder.plan.inputs.items()
            if path == wanted or path.startswith(wanted + "/")
        }
        state = builder.found.path(wanted)
        found.update(inner or {wanted: state.sha256 or state.target or state.kind})
    return found


def _act(builder: PlanBuilder, item: UnitItem, verb: str, why: str) -> None:
    builder.step("unit", item.name, verb, f"{verb} {item.name}" + (f": {why}" if why else ""))
    builder.change(f"unit {item.name}", "", verb)
    builder.plan.writes.append((key("unit", item.name), verb))
