# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planning of packages, kernel modules and sysctls, and of what programs of ours make by themselves. Pure."""

from __future__ import annotations

from ..kinds.package import is_installed
from ..model.errors import RecordError
from ..model.items import FORM_MADE, key
from .builder import PlanBuilder


def plan_packages(builder: PlanBuilder) -> None:
    """Plan all packages of the call as one step."""
    missing = []
    for item in builder.desired.packages:
        builder.claim(item.name, "package", kind="package")
        now = builder.found.packages.get(item.name, "")
        wrong = item.version and now and item.version != now
        entry = builder.view.entries.get(key("package", item.name))
        if wrong and (entry is None or is_installed(entry.state)):
            builder.plan.errors.append(
                f"package {item.name}: version {now} is the site's, wanted {item.version}: change it yourself"
            )
        elif not now or wrong:
            missing.append(item)
            builder.change(f"package {item.name}", now, item.version or "installed")
    if missing:
        names = " ".join(item.name for item in missing)
        builder.step("package", names, "install", f"install {names}", tuple(missing))


def plan_kernel(builder: PlanBuilder) -> None:
    """Plan kernel modules, and then sysctls, which modules may bring."""
    loading = False
    for name in builder.desired.modules:
        builder.claim(name, "module", kind="module")
        if not builder.found.modules[name]:
            loading = True
            builder.plan.writes.append((key("module", name), "loaded"))
            builder.step("module", name, "load", f"load kernel module {name}")
            builder.change(f"kernel module {name}", "", "loaded")
    for name, value in builder.desired.sysctls:
        builder.attempt(_plan_sysctl, name, value, loading)


def plan_made(builder: PlanBuilder) -> None:
    """Record what programs of ours will change.

    A thing that this node lacks, or a setting that is right already, is not recorded: it will not change.
    """
    for item in builder.desired.made:
        this, now = key(item.kind, item.name), builder.found.state(key(item.kind, item.name))
        if now is not None and (now != item.value or this in builder.view.entries):
            builder.claim(item.name, FORM_MADE, kind=item.kind)
            builder.plan.writes.append((this, item.value))


def _plan_sysctl(builder: PlanBuilder, name: str, value: str, loading: bool) -> None:
    this, now = key("sysctl", name), builder.found.sysctls[name]
    if now is None and not (builder.assume or loading):
        raise RecordError(f"sysctl {name}: this kernel has no such setting: load its module or leave it out")
    for role, form in builder.view.claims.get(this, {}).items():
        if form != FORM_MADE and role != builder.desired.role and builder.view.wrote.get(this, [value])[-1] != value:
            raise RecordError(f"sysctl {name}: role {role} set it to {builder.view.wrote[this][-1]}, wanted {value}")
    builder.claim(name, "sysctl", kind="sysctl")
    if now != value:
        builder.plan.writes.append((this, value))
        builder.step("sysctl", name, "set", f"set {name} = {value}", value)
        builder.change(f"sysctl {name}", now or "", value)
