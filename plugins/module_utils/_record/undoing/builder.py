# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An undo while it is planned: what every part of the planning adds to it, and the order in which it is done. Pure."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..kinds.observe import Found
from ..kinds.package import OwnFile
from ..model.items import FORM_LINES, Change, Step
from ..model.replay import View

PHASES = (
    "stop",
    "unmount",
    "make directories",
    "put back",
    "remove",
    "remove directories",
    "kernel",
    "packages",
    "reload",
    "start",
)


@dataclass
class Undo:
    """One round. `left` is ours and could not be undone; `site` is what the site made of things since, and keeps."""

    steps: t.List[Step] = field(default_factory=list)
    keep: t.List[t.Tuple[str, str]] = field(default_factory=list)  # path, sha256 of what the site made of it
    proved: t.List[str] = field(default_factory=list)
    shared: t.List[str] = field(default_factory=list)
    passed: t.Dict[str, t.List[str]] = field(default_factory=dict)  # what other roles turn out to need
    left: t.Dict[str, str] = field(default_factory=dict)
    site: t.Dict[str, str] = field(default_factory=dict)
    conflicts: t.List[str] = field(default_factory=list)  # lines of ours that the site changed; seen in one round only
    saved: t.List[OwnFile] = field(default_factory=list)  # of the site's, which go with a package and come back
    undone: t.List[t.Tuple[str, str, str]] = field(default_factory=list)  # key, role, sha256 of the text without it
    changes: t.List[Change] = field(default_factory=list)
    contents: t.Dict[str, bytes] = field(default_factory=dict)


class UndoBuilder:
    """One undo in the making. The files beside this one add to it. `role` empty means every role."""

    def __init__(
        self, view: View, found: Found, role: str, text_of: t.Callable[[str], bytes], done: t.Container[str]
    ) -> None:
        self.view, self.found, self.role, self.text_of, self.done = view, found, role, text_of, done
        self.undo = Undo()
        self.phases: t.Dict[str, t.List[Step]] = {name: [] for name in PHASES}

    def wrote(self, this: str) -> t.List[str]:
        """Return what we were about to make of a thing."""
        return self.view.wrote.get(this, [])

    def is_shared(self, this: str) -> bool:
        """Return whether other roles want the thing, too."""
        return bool(self.role) and any(role != self.role for role in self.view.claims.get(this, {}))

    def is_edited(self, this: str) -> bool:
        """Return whether the thing is a file of which we hold lines."""
        return FORM_LINES in self.view.claims.get(this, {}).values()

    def step(self, phase: str, kind: str, name: str, verb: str, text: str, data: t.Any = None) -> None:
        """Add a step to a phase."""
        self.phases[phase].append(Step(kind, name, verb, text, data))

    def count(self) -> int:
        """Return the number of steps so far."""
        return sum(len(steps) for steps in self.phases.values())
