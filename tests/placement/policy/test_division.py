# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact division and exact shares."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from placement.model.amounts.totals import share
from placement.policy.queues.fair_share import Claim, divide

claims = st.lists(
    st.builds(Claim, weight=st.integers(1, 5), floor=st.integers(0, 6), ceiling=st.integers(0, 12)), max_size=5
)
LARGE = st.integers(1, 2**62)


@given(st.integers(0, 40), claims)
def test_nothing_is_lost_and_nobody_gets_more_than_it_can_use(total: int, claimants: list[Claim]) -> None:
    parts = divide(total, claimants)
    floors = [min(claim.floor, claim.ceiling) for claim in claimants]
    assert all(floor <= part <= claim.ceiling for floor, part, claim in zip(floors, parts, claimants, strict=True))
    assert sum(parts) == max(sum(floors), min(total, sum(claim.ceiling for claim in claimants)))


@given(st.integers(0, 40), claims)
def test_nobody_could_get_more_without_somebody_poorer_getting_less(total: int, claimants: list[Claim]) -> None:
    parts = divide(total, claimants)
    for part, claim in zip(parts, claimants, strict=True):
        if part == claim.ceiling:
            continue
        for other_part, other in zip(parts, claimants, strict=True):
            # Whoever is above its floor has, per weight, less than one unit more than whoever wants more.
            if other_part > min(other.floor, other.ceiling):
                assert Fraction(other_part - 1, other.weight) <= Fraction(part + 1, claim.weight)


@given(LARGE, LARGE, LARGE, LARGE)
def test_shares_order_as_fractions_do(part: int, whole: int, other_part: int, other_whole: int) -> None:
    left, right = Fraction(part, whole), Fraction(other_part, other_whole)
    assert (share(part, whole) < share(other_part, other_whole)) == (left < right)
    assert (share(part, whole) == share(other_part, other_whole)) == (left == right)
