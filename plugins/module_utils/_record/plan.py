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
from .kinds.package import is_installed
from .model import FORM_MADE, Desired, key
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
        self._made()
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
            if wrong and (entry is None or is_installed(entry.state)):
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

    def _made(self) -> None:
        """A thing that this node lacks, or a setting that is right already, is not recorded: it will not change."""
        for item in self.desired.made:
            this, now = key(item.kind, item.name), self.found.state(key(item.kind, item.name))
            if now is not None and (now != item.value or this in self.view.entries):
                self.claim(item.name, FORM_MADE, kind=item.kind)
                self.plan.writes.append((this, item.value))

    def _sysctl(self, wanted: t.Tuple[str, str, bool]) -> None:
        name, value, loading = wanted
        this, now = key("sysctl", name), self.found.sysctls[name]
        if now is None and not (self.assume or loading):
            raise RecordError(f"sysctl {name}: this kernel has no such setting: load its module or leave it out")
        for role, form in self.view.claims.get(this, {}).items():
            if form != FORM_MADE and role != self.desired.role and self.view.wrote.get(this, [value])[-1] != value:
                raise RecordError(f"sysctl {name}: role {role} set it to {self.view.wrote[this][-1]}, wanted {value}")
        self.claim(name, "sysctl", kind="sysctl")
        if now != value:
            self.plan.writes.append((this, value))
            self.step("sysctl", name, "set", f"set {name} = {value}", value)
            self.change(f"sysctl {name}", now or "", value)
