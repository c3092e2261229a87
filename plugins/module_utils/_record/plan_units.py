# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planning of units: what runs, what is enabled, and what has to start again because its inputs changed. Pure."""

from __future__ import annotations

import hashlib
import json
import typing as t

from .draft import Draft
from .errors import RecordError
from .kinds import unit as systemd
from .model import PATH_STEPS, UnitItem, key

_CANNOT_ENABLE = ("static", "generated", "transient", "indirect")


class UnitsDraft(Draft):
    """Planned last: by then it is known which files change."""

    def units(self) -> None:
        """All items of the call."""
        touched = {step.name for step in self.plan.steps if step.kind in PATH_STEPS}
        stale = any(state.needs_reload for state in self.found.units.values())
        if stale or any(systemd.unit_of(path) for path in touched):
            self.step("unit", "", "reload", "let systemd read its unit files again")
        for item in self.desired.units:
            self.attempt(lambda item: self._unit(item, touched), item)

    def _unit(self, item: UnitItem, touched: t.Set[str]) -> None:
        now, this = self.found.units[item.name], key("unit", item.name)
        self.claim(item.name, "unit", kind="unit")
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
        if now.held:
            return  # whoever lifts the condition starts it
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
        self.step("unit", item.name, verb, f"{verb} {item.name}" + (f": {why}" if why else ""))
        self.change(f"unit {item.name}", "", verb)
        self.plan.writes.append((key("unit", item.name), verb))
