# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of what makes a node as it was before us. Pure: record and found in, steps and verdicts out.

It is planned, done and planned again until nothing is left to do; the last plan is the proof. Nothing that the site has
made since is lost. Its version of a whole file is kept aside, and its lines in an edited file stay. What is not ours
to take away (a unit it started, a setting it changed) is left and named.
"""

from __future__ import annotations

import typing as t

from ..kinds.observe import Found
from ..model.replay import Entry, View
from .builder import PHASES, Undo, UndoBuilder
from .paths import sort_directories, undo_path
from .system import undo_kernel, undo_mount, undo_packages, undo_tables
from .units import plan_reload, undo_unit

_UNDO = {
    "path": undo_path,
    "unit": undo_unit,
    "mount": undo_mount,
    "filter": undo_tables,
}


def plan_undo(
    view: View,
    found: Found,
    entries: t.Sequence[Entry],
    *,
    role: str,
    text_of: t.Callable[[str], bytes],
    done: t.Container[str] = (),
) -> Undo:
    """Return the steps of one round, and what is proved, shared or left.

    `role` empty means every role. `done`: units that were started again in an earlier round.
    """
    builder = UndoBuilder(view, found, role, text_of, done)
    packages = []
    for entry in sorted(entries, key=lambda entry: entry.order, reverse=True):
        if builder.is_shared(entry.key) and not builder.is_edited(entry.key):
            builder.undo.shared.append(entry.key)
        elif entry.kind == "package":
            packages.append(entry)
        else:
            _UNDO.get(entry.kind, undo_kernel)(builder, entry)
    undo_packages(builder, packages)
    sort_directories(builder)
    plan_reload(builder)
    builder.undo.steps = [step for name in PHASES for step in builder.phases[name]]
    return builder.undo
