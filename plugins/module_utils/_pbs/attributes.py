# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be set so that the attributes of a server or queue are as wished. Pure.

PBS gives numbers, sizes and times back in its own spelling, and lists in its own order; what means the same is no
change.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import typing as t

from .. import _quantity
from . import qmgr
from .errors import SpecError

# PBS takes nothing else before a queue's type, and jobs should find the queue complete.
_FIRST = ("queue_type",)
_LAST = ("enabled", "started", "scheduling")
_DURATION = re.compile(r"(?:(?:(\d{1,9}):)?(\d{1,9}):)?(\d{1,9})\Z", re.ASCII)


class Step(t.NamedTuple):
    """One attribute with its elements now and then; None where it is unset."""

    attribute: str
    before: tuple[str, ...] | None
    after: tuple[str, ...] | None


def plan(current: qmgr.Attributes, wanted: t.Mapping[str, t.Any]) -> list[Step]:
    """Plan the attributes that change, in the order in which PBS takes them."""
    steps = []
    for attribute in sorted(wanted, key=_rank):
        qmgr.checked_attribute(attribute)
        before, after = current.get(attribute), elements(attribute, wanted[attribute])
        if not _same(attribute, before, after):
            steps.append(Step(attribute, before, after))
    return steps


def commands(kind: str, name: str, steps: t.Iterable[Step]) -> list[str]:
    """Return one command for each attribute, so that an error names it."""
    return [
        qmgr.unset(kind, name, step.attribute)
        if step.after is None
        else qmgr.assigned(kind, name, step.attribute, ",".join(step.after))
        for step in steps
    ]


def elements(attribute: str, value: t.Any) -> tuple[str, ...] | None:
    """Return a wish as qmgr prints it; None, an empty list and empty text mean unset."""
    values = value if isinstance(value, list) else [value]
    if value is None or not values or value == "":
        return None
    return tuple(_text(attribute, each) for each in values)


def shown(kind: str, name: str, steps: t.Iterable[Step], *, after: bool) -> str:
    """Return one side of the diff, as `qmgr print` would show it."""
    target = f"{kind} {name}" if name else kind
    sides = [(step.attribute, step.after if after else step.before) for step in steps]
    return "".join(f"set {target} {attribute} = {','.join(side)}\n" for attribute, side in sides if side is not None)


def _rank(attribute: str) -> tuple[int, str]:
    return (0 if attribute in _FIRST else 2 if attribute in _LAST else 1, attribute)


def _text(attribute: str, value: t.Any) -> str:
    if isinstance(value, (bool, int, str)):
        return str(value)
    raise SpecError(
        f"{attribute}: {type(value).__name__} is no value of an attribute; text, a number or true is expected"
    )


def _same(attribute: str, before: tuple[str, ...] | None, after: tuple[str, ...] | None) -> bool:
    if before is None or after is None:
        return before == after
    if sorted(before) == sorted(after) or ",".join(before) == ",".join(after):
        return True
    return len(before) == len(after) == 1 and _same_value(attribute, before[0], after[0])


def _same_value(attribute: str, one: str, other: str) -> bool:
    if {one.lower(), other.lower()} <= {"true", "false"} or attribute == "queue_type":
        return one.lower() == other.lower()
    # Only resources are amounts: a comment "100" is another one than "100b".
    amounts = [(read(one), read(other)) for read in (_size, _seconds)] if "." in attribute else []
    return any(first is not None and first == second for first, second in amounts)


def _size(text: str) -> int | None:
    try:
        return _quantity.pbs_size(text)
    except _quantity.QuantityError:
        return None


def _seconds(text: str) -> int | None:
    match = _DURATION.match(text)
    return None if match is None else sum(int(part or 0) * unit for part, unit in zip(match.groups(), (3600, 60, 1)))
