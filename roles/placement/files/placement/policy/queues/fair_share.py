# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weighted fair division of one resource, exactly: water-filling in whole units.

Each queue gets at least a floor and at most a ceiling, and between those as much per weight as all others. What is left
over by rounding down goes, one unit each, to the first that may still take one, so nothing is lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from placement.model.amounts.totals import share


@dataclass(frozen=True, slots=True)
class Claim:
    """One claimant: its weight, what it gets in any case, and what it can use at most."""

    weight: int
    floor: int
    ceiling: int


def divide(total: int, claims: Sequence[Claim]) -> list[int]:
    """Return the part of each claimant, in order; floors are given even if they exceed the total."""
    ceilings = [claim.ceiling for claim in claims]
    if sum(ceilings) <= total:
        return ceilings
    floors = [min(claim.floor, claim.ceiling) for claim in claims]
    part, whole = _level(total, claims, floors)
    parts = [
        max(floor, min(claim.ceiling, claim.weight * part // whole))
        for claim, floor in zip(claims, floors, strict=True)
    ]
    left = total - sum(parts)
    for index, claim in enumerate(claims):
        if left <= 0:
            break
        # Only a claim that was rounded down is owed a unit.
        if parts[index] < claim.ceiling and parts[index] == claim.weight * part // whole:
            parts[index] += 1
            left -= 1
    return parts


def _level(total: int, claims: Sequence[Claim], floors: Sequence[int]) -> tuple[int, int]:
    """Return the greatest amount per weight, as a fraction, up to which all claims can be filled."""
    # Where the level passes floor/weight a claimant begins to rise, and at ceiling/weight it stops.
    steps: list[tuple[int, int, int, int]] = []
    for claim, floor in zip(claims, floors, strict=True):
        steps.append((share(floor, claim.weight), floor, claim.weight, claim.weight))
        steps.append((share(claim.ceiling, claim.weight), claim.ceiling, claim.weight, -claim.weight))
    # What those have that do not rise, and how fast the others do; whole numbers, for fractions are slow.
    fixed, rising, part, whole = sum(floors), 0, 0, 1
    if fixed >= total:
        return part, whole
    for _unused, amount, weight, change in sorted(steps):
        if rising and fixed * weight + rising * amount > total * weight:
            return total - fixed, rising
        fixed, rising = fixed - (amount if change > 0 else -amount), rising + change
        part, whole = amount, weight
    return part, whole
