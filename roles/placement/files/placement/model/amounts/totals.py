# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sums of amounts by resource, and shares of them, exact.

A share is a fraction, and shares are compared all the time. As `(part << 128) // whole` it is an integer that orders
exactly as the fraction does while both are below 2^63. Two different fractions of such numbers differ by more than
2^-126, so they cannot fall on the same integer, and equal ones always do.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from placement.model.amounts.quantity import Amounts, format_amount

Totals = dict[str, int]

_SHARE_BITS: Final = 128
WHOLE: Final = 1 << _SHARE_BITS


def add(totals: Totals, amounts: Iterable[tuple[str, int]], number: int = 1) -> None:
    """Add an amount so many times; a negative number subtracts."""
    for name, amount in amounts:
        totals[name] = totals.get(name, 0) + amount * number


def share(part: int, whole: int) -> int:
    """Return the fraction as a comparable integer; the greatest of all if there is nothing to share."""
    if whole > 0:
        return (part << _SHARE_BITS) // whole
    return WHOLE << _SHARE_BITS if part > 0 else 0


def dominant_share(held: Mapping[str, int], whole: Mapping[str, int]) -> int:
    """Return the greatest share over the resources."""
    return max((share(held.get(name, 0), amount) for name, amount in whole.items()), default=0)


def covers(larger: Mapping[str, int], smaller: Mapping[str, int]) -> bool:
    """Whether nothing of the smaller exceeds the larger."""
    return all(amount <= larger.get(name, 0) for name, amount in smaller.items())


def frozen(totals: Mapping[str, int]) -> Amounts:
    """For a record: sorted, without zeros."""
    return tuple(sorted((name, amount) for name, amount in totals.items() if amount))


def shown(amounts: Iterable[tuple[str, int]]) -> str:
    """`cpu 500m, memory 1073741824`."""
    return ", ".join(f"{name} {format_amount(name, amount)}" for name, amount in amounts) or "nothing"


def format_shortage(name: str, wanted: Mapping[str, int], used: Mapping[str, int], limit: int) -> str:
    """`cpu 2 wanted, 3 of 4 in use`."""
    parts = (format_amount(name, amount) for amount in (wanted[name], used.get(name, 0), limit))
    return "{0} {1} wanted, {2} of {3} in use".format(name, *parts)
