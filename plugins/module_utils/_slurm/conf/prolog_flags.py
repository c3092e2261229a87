# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Comma lists of slurm.conf, and PrologFlags among them, where some words exclude others.

``NoHold`` beside ``Contain`` or ``X11`` makes every Slurm daemon refuse to start. So flags are merged with the site's
and never replaced. A combination that Slurm refuses is named before the file is touched.

PRIVATE to the collection.
"""

from __future__ import annotations

from ..errors import ConfError

# What a flag brings with it (slurm.conf(5)); DeferBatch and ForceRequeueOnFail bring Alloc only in newer releases.
_IMPLIES = {"nohold": {"alloc"}, "contain": {"alloc"}, "x11": {"alloc", "contain"}, "runinjob": {"alloc", "contain"}}
_EXCLUDE = [("nohold", "contain"), ("nohold", "x11"), ("nohold", "runinjob"), ("serial", "runinjob")]


def merge(present: str, wanted: str) -> str:
    """Return the site's flags with ours; raise for a combination that Slurm refuses, and name both."""
    merged = united(present, wanted)
    flags = set(words(merged.lower()))
    for first, second in _EXCLUDE:
        if first in flags and second in flags:
            names = {word.lower(): word for word in words(merged)}
            raise ConfError(f"PrologFlags: {names[first]} and {names[second]} exclude each other ({merged})")
    return merged


def united(present: str, wanted: str) -> str:
    """Return a comma list with the words of both, in order and without case; present words keep their spelling."""
    if {word.lower() for word in words(wanted)} <= {word.lower() for word in words(present)}:
        return present
    found = {word.lower(): word for word in [*words(wanted), *words(present)]}
    order = dict.fromkeys(word.lower() for word in [*words(present), *words(wanted)])
    return ",".join(found[word] for word in order)


def effective(present: str) -> frozenset[str]:
    """Return the flags in lower case with those that they bring along."""
    flags = {word.lower() for word in words(present)}
    return frozenset(flags.union(*(_IMPLIES.get(flag, set()) for flag in flags)))


def words(text: str) -> list[str]:
    return [word for word in (part.strip() for part in text.split(",")) if word]
