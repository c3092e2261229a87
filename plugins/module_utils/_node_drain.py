# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes to take out of a batch system and which to give back, when others take nodes out too. Pure.

A hold is ours when its reason begins with our name. A batch system keeps one reason per node, and a second hold would
replace the first: so a node with a hold of others is left alone, both ways.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import typing as t

OWNER = "converged.hpc: "
MAX_REASON = 200
# What follows a reason: ours for the text that was there before, Slurm's for a reboot, Torque's for a failed check.
_ENDS = (" (before: ", " : ", " - ")
_BEFORE = re.compile(r" \(before: (.+)\)\Z", re.DOTALL)


class HoldError(Exception):
    """A reason or a name that cannot be used. Nothing was changed."""


class Node(t.NamedTuple):
    """A node as its batch system has it; ``keeps`` where the reason that stood before ours is to come back."""

    name: str
    held: bool
    reason: str
    busy: bool
    keeps: bool

    @property
    def ours(self) -> bool:
        return self.held and self.reason.startswith(OWNER)

    def ours_for(self, reason: str) -> bool:
        """Return whether the hold is ours and was made for this reason; for any where that is empty."""
        mark = f"{OWNER}{reason.strip()}"
        ends = tuple(f"{mark}{end}" for end in _ENDS)
        return self.ours and (not reason.strip() or self.reason == mark or self.reason.startswith(ends))


class Change(t.NamedTuple):
    """What to do, and what is left as it is: ``others`` have a hold that stays, ``busy`` nodes still run jobs.

    ``explain`` gives nodes the reason back that our hold had taken the place of.
    """

    drain: dict[str, str]
    undrain: list[str]
    explain: dict[str, str]
    others: dict[str, str]
    busy: list[str]


def change_to(state: str, nodes: t.Sequence[Node], reason: str | None) -> Change:
    """Return what makes nodes ``drained``, or ``restored``: without a hold of ours for the reason, or for any."""
    return drained(nodes, reason or "") if state == "drained" else given_back(nodes, reason or "")


def drained(nodes: t.Sequence[Node], reason: str) -> Change:
    """Return nodes on which no further job must start. A reason that was there without a hold is kept behind ours."""
    if not reason.strip() or not reason.isprintable() or len(reason) > MAX_REASON:
        raise HoldError(f"reason {reason[:60]!a}: expected one line of at most {MAX_REASON} characters")
    drain = {}
    for node in nodes:
        if not node.held:
            # Slurm 24.11 keeps the reason of a drain that is over; ours says nothing about the node any more.
            before = "" if node.reason.startswith(OWNER) else node.reason[:MAX_REASON].strip()
            drain[node.name] = f"{OWNER}{reason.strip()}" + (f" (before: {before})" if before else "")
    return Change(drain, [], {}, _others(nodes, reason), _busy(nodes))


def given_back(nodes: t.Sequence[Node], reason: str) -> Change:
    """Return nodes with a hold of ours that ends: the one for this reason, or any where that is empty."""
    ours = [node for node in nodes if node.ours_for(reason)]
    before = {node.name: _BEFORE.search(node.reason) for node in ours if node.keeps}
    explain = {name: match.group(1) for name, match in before.items() if match is not None}
    return Change({}, [node.name for node in ours], explain, _others(nodes, reason), _busy(nodes))


def named(system: str, nodes: t.Sequence[Node], names: t.Sequence[str], *, state: str) -> list[Node]:
    """Return the nodes of these names, each once.

    Where nodes are to be ``drained``, a name that is not known raises HoldError before anything is done. Where they are
    to be ``restored`` it is left out: a node that the batch system does not have any more has no hold that could end.
    """
    known = {node.name: node for node in nodes}
    unknown = [name for name in names if name not in known]
    if unknown and state == "drained":
        raise HoldError(f"{system} knows no node {', '.join(unknown[:10])}{' ...' if len(unknown) > 10 else ''}")
    return [known[name] for name in dict.fromkeys(names) if name in known]


class Marks(t.Protocol):
    """A batch system that marks nodes offline, with a text."""

    def offline(self, names: t.Sequence[str], text: str, /) -> None: ...

    def online(self, names: t.Sequence[str], /) -> None: ...

    def explain(self, names: t.Sequence[str], text: str, /) -> None: ...


def mark(system: Marks, change: Change) -> None:
    """Carry out a change: one command for all nodes that get the same text."""
    for text in dict.fromkeys(change.drain.values()):
        system.offline([name for name, given in change.drain.items() if given == text], text)
    if change.undrain:
        system.online(change.undrain)
    for name, text in change.explain.items():
        system.explain([name], text)


def result_of(change: Change, nodes: t.Sequence[Node], *, held: str) -> dict[str, t.Any]:
    """Return a module's result, with a diff of the nodes that change; `held` is the batch system's word for it."""
    changing = {**change.drain, **dict.fromkeys(change.undrain, ""), **change.explain}
    reasons = {node.name: node.reason for node in nodes}
    return {
        "changed": bool(changing),
        held: list(change.drain),
        "given_back": change.undrain,
        "others": change.others,
        "busy": change.busy,
        "diff": {
            "before": "".join(f"{name}: {reasons[name]}\n" for name in changing),
            "after": "".join(f"{name}: {reason}\n" for name, reason in changing.items()),
        },
    }


def _others(nodes: t.Sequence[Node], reason: str) -> dict[str, str]:
    return {node.name: node.reason for node in nodes if node.held and not node.ours_for(reason)}


def _busy(nodes: t.Sequence[Node]) -> list[str]:
    return [node.name for node in nodes if node.busy]
