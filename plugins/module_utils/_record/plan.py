# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done so that a node is as one role wants it. Pure: wanted, found and record in, steps out.

Nothing is changed when there is an error. `assume` is check mode, or a package still to come: what an earlier role or
that package would bring (a directory, a user, a unit, a kernel setting) is taken as given.
"""

from __future__ import annotations

import typing as t

from .draft import Plan
from .errors import RecordError
from .model import Desired, key
from .observe import Found
from .plan_paths import PathsDraft
from .plan_units import UnitsDraft
from .view import View


def make_plan(desired: Desired, found: Found, view: View, *, text_of: t.Callable[[str], bytes], assume: bool) -> Plan:
    """`text_of` reads texts that the record keeps."""
    return _Planner(desired, found, view, text_of, assume).run()


class _Planner(PathsDraft, UnitsDraft):
    def run(self) -> Plan:
        self._packages()
        self._kernel()
        self.paths()
        self.units()
        return self.plan

    def _packages(self) -> None:
        missing = []
        for item in self.desired.packages:
            self.claim(item.name, "package", kind="package")
            now = self.found.packages.get(item.name, "")
            wrong = item.version and now and item.version != now
            entry = self.view.entries.get(key("package", item.name))
            if wrong and (entry is None or entry.state):
                self.plan.errors.append(
                    f"package {item.name}: version {now} is the site's, wanted {item.version}: change it yourself"
                )
            elif not now or wrong:
                missing.append(item)
                self.change(f"package {item.name}", now, item.version or "installed")
        if missing:
            names = " ".join(item.name for item in missing)
            self.step("package", names, "install", f"install {names}", tuple(missing))

    def _kernel(self) -> None:
        loading = False
        for name in self.desired.modules:
            self.claim(name, "module", kind="module")
            if not self.found.modules[name]:
                loading = True
                self.plan.writes.append((key("module", name), "loaded"))
                self.step("module", name, "load", f"load kernel module {name}")
                self.change(f"kernel module {name}", "", "loaded")
        for name, value in self.desired.sysctls:
            self.attempt(self._sysctl, (name, value, loading))

    def _sysctl(self, wanted: t.Tuple[str, str, bool]) -> None:
        name, value, loading = wanted
        this, now = key("sysctl", name), self.found.sysctls[name]
        if now is None and not (self.assume or loading):
            raise RecordError(f"sysctl {name}: this kernel has no such setting: load its module or leave it out")
        for role in self.view.claims.get(this, {}):
            if role != self.desired.role and self.view.wrote.get(this, [value])[-1] != value:
                raise RecordError(f"sysctl {name}: role {role} set it to {self.view.wrote[this][-1]}, wanted {value}")
        self.claim(name, "sysctl", kind="sysctl")
        if now != value:
            self.plan.writes.append((this, value))
            self.step("sysctl", name, "set", f"set {name} = {value}", value)
            self.change(f"sysctl {name}", now or "", value)
