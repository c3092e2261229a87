# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan, and its builder: what is wanted, found and recorded, and what every part of the planning adds to it. Pure."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..host.paths import parents
from ..kinds.observe import Found
from ..model.errors import RecordError
from ..model.items import FORM_DIRECTORY, FORM_LINES, Change, Desired, Step, key
from ..model.replay import Pair, View

_SHARED = (FORM_DIRECTORY, FORM_LINES)


@dataclass
class Plan:
    """Steps in the order in which they are done, and what the record must hold before the first of them."""

    steps: t.List[Step] = field(default_factory=list)
    changes: t.List[Change] = field(default_factory=list)
    errors: t.List[str] = field(default_factory=list)
    claims: t.Dict[str, str] = field(default_factory=dict)
    secrets: t.Set[str] = field(default_factory=set)
    writes: t.List[t.Tuple[str, str]] = field(default_factory=list)  # key, what will be made of it
    keep: t.List[t.Tuple[str, str]] = field(default_factory=list)  # path, sha256: what the site made of a file of ours
    brought: t.Set[str] = field(
        default_factory=set
    )  # new keys of files that are there as packages of ours brought them
    edits: t.List[t.Tuple[str, Pair]] = field(default_factory=list)
    contents: t.Dict[str, bytes] = field(default_factory=dict)  # made by this plan
    uploads: t.Dict[str, int] = field(default_factory=dict)  # sha256 -> size of contents it needs
    started: t.Dict[str, str] = field(default_factory=dict)  # units: digest of what they run with when all is done
    adopted: t.Dict[str, str] = field(default_factory=dict)  # units that run with these inputs already
    inputs: t.Dict[str, str] = field(default_factory=dict)  # every input of a unit and what it will be


class PlanBuilder:
    """One plan in the making. The files beside this one add to it and know nothing of each other but what they import.

    `assume`: things that are not there yet are taken as given, because an earlier role or a package brings them.
    """

    def __init__(
        self, desired: Desired, found: Found, view: View, text_of: t.Callable[[str], bytes], assume: bool
    ) -> None:
        self.desired, self.found, self.view, self.text_of = desired, found, view, text_of
        self.assume = assume
        self.plan = Plan()
        self.made: t.Set[str] = set()  # directories that this plan makes

    def attempt(self, plan_item: t.Callable[..., None], *arguments: t.Any) -> None:
        """Plan one item; note a refusal as an error of the plan, and go on with the other items."""
        try:
            plan_item(self, *arguments)
        except RecordError as error:
            self.plan.errors.append(str(error))

    def claim(self, name: str, form: str, *, kind: str = "path", secret: bool = False) -> None:
        """Note that the role wants this thing, unless another role wants something else of it."""
        this = key(kind, name)
        for role, other in self.view.claims.get(this, {}).items():
            if role != self.desired.role and kind == "path" and (form, other) not in [(same, same) for same in _SHARED]:
                raise RecordError(
                    f"{name}: role {self.desired.role} wants it as {form}, but role {role} has it as {other}"
                )
        self.plan.claims[this] = form
        for above in parents(name) if kind == "path" else ():
            if key("path", above) in self.view.entries:  # a directory that a role made is wanted by all that is in it
                self.plan.claims.setdefault(key("path", above), FORM_DIRECTORY)
        if secret:
            self.plan.secrets.add(this)

    def step(self, kind: str, name: str, verb: str, text: str, data: t.Any = None) -> None:
        """Add a step."""
        self.plan.steps.append(Step(kind, name, verb, text, data))

    def change(self, name: str, before: str, after: str) -> None:
        """Add a change to the diff."""
        self.plan.changes.append(Change(name, before + "\n" if before else "", after + "\n" if after else ""))

    def is_secret(self, this: str) -> bool:
        """Return whether this role, or any role before, has called the thing a secret."""
        return this in self.plan.secrets or this in self.view.secrets
