# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of what makes a node as one role wants it. Pure: wanted, found and record in, steps out.

Nothing is changed when there is an error. `assume` is set in check mode, and for a package still to come. What an
earlier role or that package would bring (a directory, a user, a unit, a kernel setting) is then taken as given.
"""

from __future__ import annotations

import typing as t

from ..kinds.observe import Found
from ..model.items import Desired
from ..model.replay import View
from .builder import Plan, PlanBuilder
from .paths import plan_paths
from .system import plan_kernel, plan_made, plan_packages
from .units import plan_units


def make_plan(desired: Desired, found: Found, view: View, *, text_of: t.Callable[[str], bytes], assume: bool) -> Plan:
    """Return the steps from what was found to what is wanted; `text_of` reads texts that the record keeps."""
    builder = PlanBuilder(desired, found, view, text_of, assume)
    plan_packages(builder)
    plan_kernel(builder)
    plan_made(builder)
    plan_paths(builder)
    plan_units(builder)
    return builder.plan
