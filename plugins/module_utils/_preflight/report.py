# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about many hosts as lines for people: each finding once, with the hosts that it is about. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import typing as t

from .._shared import hostlist
from .model import CLUSTER, LEVELS, Finding

EXAMPLES = 3
_Lines = t.List[t.Tuple[str, str]]


def lines(found: t.Mapping[str, t.Sequence[Finding]]) -> _Lines:
    """Return (level, line) for all findings, the gravest first.

    What differs from host to host in its text alone, such as addresses, is shown for a few hosts and counted for more.
    """
    kinds: t.Dict[t.Tuple[str, str, str], t.Dict[str, t.List[str]]] = {}
    for host, findings in found.items():
        for one in findings:
            kinds.setdefault((one.level, one.code, one.advice), {}).setdefault(one.text, []).append(host)
    said: _Lines = []
    for level, code, advice in sorted(kinds, key=lambda kind: LEVELS.index(kind[0])):
        texts = kinds[level, code, advice]
        shown = list(texts) if len(texts) <= EXAMPLES + 1 else list(texts)[:EXAMPLES]
        for text in shown:
            said.append((level, f"{level} [{code}] {hosts(texts[text])}: {Finding(level, code, text, advice).words}"))
        rest = [host for text, those in texts.items() if text not in shown for host in those]
        if rest:
            said.append((level, f"{level} [{code}] and the same kind of finding on {hosts(rest)}"))
    return said


def summary(found: t.Mapping[str, t.Sequence[Finding]], level: str) -> str:
    """Return how many hosts have findings of this level, by code: `swap (2 hosts), node_ip (600 hosts)`."""
    counts: t.Dict[str, t.Set[str]] = {}
    for host, findings in found.items():
        for one in findings:
            if one.level == level:
                counts.setdefault(one.code, set()).add(host)
    return ", ".join(f"{code} ({_count(those)})" for code, those in counts.items())


def hosts(names: t.Iterable[str]) -> str:
    """Return names of hosts as a host list; those that it cannot fold are listed."""
    those = list(dict.fromkeys(names))
    plain = [name for name in those if name != CLUSTER]
    cluster = [CLUSTER] if CLUSTER in those else []
    try:
        return ",".join([*cluster, *([hostlist.fold(plain)] if plain else [])])
    except hostlist.HostlistError:
        return ",".join([*cluster, *plain])


def _count(those: t.Set[str]) -> str:
    if those == {CLUSTER}:
        return "the cluster"
    return f"{len(those)} host{'s' if len(those) > 1 else ''}"
