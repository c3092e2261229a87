# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a call tells: steps and changes of a run, the proof of a restore."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..model.items import JSON, Change
from ..undoing.builder import Undo


@dataclass
class Outcome:
    """What was done, or would be. `missing`: contents to send first; nothing was done then."""

    changed: bool = False
    steps: t.List[str] = field(default_factory=list)
    changes: t.List[Change] = field(default_factory=list)
    missing: t.List[str] = field(default_factory=list)
    restarted: t.List[str] = field(default_factory=list)
    kept: t.List[str] = field(default_factory=list)


@dataclass
class Report:
    """A restore: what equals its baseline again, what the site has made of things since, and what is left of ours."""

    steps: t.List[str] = field(default_factory=list)
    proved: t.List[str] = field(default_factory=list)
    shared: t.List[str] = field(default_factory=list)
    site: t.List[str] = field(default_factory=list)
    kept: t.List[str] = field(default_factory=list)
    left: t.List[str] = field(default_factory=list)
    found_record: bool = True
    roles: t.List[str] = field(default_factory=list)  # roles that the record knows
    changes: t.List[Change] = field(default_factory=list)


def report_of(undo: Undo, steps: t.List[str], changes: t.List[Change], existed: bool) -> Report:
    """Return the report of a restore; its last round is its proof."""
    return Report(
        steps=steps,
        proved=sorted(undo.proved),
        shared=sorted([*undo.shared, *undo.passed]),
        site=sorted(set(undo.site.values())),
        left=sorted(f"{this.partition(':')[2]}: {why}" for this, why in undo.left.items()),
        found_record=existed,
        changes=changes,
    )


def diff_of(changes: t.Iterable[Change]) -> t.List[JSON]:
    """Return changes as Ansible prints a diff."""
    return [
        {"before_header": change.name, "after_header": change.name, "before": change.before, "after": change.after}
        for change in changes
    ]
