# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes to drain and which to give back, when others drain nodes too. Pure.

A drain is ours when its reason begins with our name. Slurm keeps one reason per node, and a second drain would replace
the first: so a node that somebody else has drained is left to them, both ways.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.converged.hpc.plugins.module_utils._slurm.answers import Node
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import SlurmError

OWNER = "converged.hpc: "
MAX_REASON = 200
_BEFORE = re.compile(r" \(before: (.+)\)\Z", re.DOTALL)
_WORKING = frozenset(["ALLOCATED", "MIXED", "COMPLETING"])


class Change(t.NamedTuple):
    """What to do, and what is left as it is: ``others`` are drained by somebody else, ``busy`` nodes still run jobs.

    ``explain`` gives nodes that stay down the reason back that our drain had taken the place of.
    """

    drain: dict[str, str]
    undrain: list[str]
    explain: dict[str, str]
    others: dict[str, str]
    busy: list[str]


def drained(nodes: t.Sequence[Node], reason: str) -> Change:
    """Nodes on which no further job shall start. A reason that Slurm gave itself, for a node that is down, is kept."""
    if not reason.strip() or not reason.isprintable() or len(reason) > MAX_REASON:
        raise SlurmError(f"reason {reason[:60]!a}: expected one line of at most {MAX_REASON} characters")
    drain = {}
    for node in nodes:
        if "DRAIN" not in node.flags:
            # Slurm 24.11 keeps the reason of a drain that is over; ours says nothing about the node any more.
            before = "" if node.reason.startswith(OWNER) else node.reason[:MAX_REASON].strip()
            drain[node.name] = f"{OWNER}{reason.strip()}" + (f" (before: {before})" if before else "")
    return Change(drain, [], {}, _others(nodes), _busy(nodes))


def given_back(nodes: t.Sequence[Node]) -> Change:
    """Nodes whose drain, if it is ours, ends."""
    ours = [node for node in nodes if is_ours(node)]
    before = {node.name: _BEFORE.search(node.reason) for node in ours if node.state == "DOWN"}
    explain = {name: match.group(1) for name, match in before.items() if match is not None}
    return Change({}, [node.name for node in ours], explain, _others(nodes), _busy(nodes))


def is_ours(node: Node) -> bool:
    return "DRAIN" in node.flags and node.reason.startswith(OWNER)


def named(nodes: t.Sequence[Node], names: t.Sequence[str]) -> list[Node]:
    """The nodes of these names, each once; a name that Slurm does not know is an error before anything is done."""
    known = {node.name: node for node in nodes}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SlurmError(f"Slurm knows no node {', '.join(unknown[:10])}{' ...' if len(unknown) > 10 else ''}")
    return [known[name] for name in dict.fromkeys(names)]


def _others(nodes: t.Sequence[Node]) -> dict[str, str]:
    return {node.name: node.reason for node in nodes if "DRAIN" in node.flags and not is_ours(node)}


def _busy(nodes: t.Sequence[Node]) -> list[str]:
    return [node.name for node in nodes if not _WORKING.isdisjoint({node.state, *node.flags})]
