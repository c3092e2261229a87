# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantities: the API's grammar, exactness, and the rounding rule."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from placement.model.amounts.quantity import (
    QuantityError,
    add,
    format_amount,
    format_quantity,
    maximum,
    parse_quantity,
    round_amount,
    round_amounts,
)
from placement.shared.quantity import BINARY_CAP, MAX_LENGTH, NANO

# Amounts as apimachinery 0.36 computes them.
NANO_AMOUNTS = {
    "0": 0,
    "1": NANO,
    "+1": NANO,
    "-1": -NANO,
    "001": NANO,
    "500m": NANO // 2,
    "0.5": NANO // 2,
    ".5": NANO // 2,
    "5.": 5 * NANO,
    "100n": 100,
    "100u": 100_000,
    "1k": 10**3 * NANO,
    "1M": 10**6 * NANO,
    "1G": 10**9 * NANO,
    "1T": 10**12 * NANO,
    "1P": 10**15 * NANO,
    "1E": 10**18 * NANO,
    "1e3": 10**3 * NANO,
    "1E3": 10**3 * NANO,
    "1e-3": 10**6,
    "2.5e+1": 25 * NANO,
    "1Ki": 2**10 * NANO,
    "1Mi": 2**20 * NANO,
    "1.5Gi": 3 * 2**29 * NANO,
    "1Ti": 2**40 * NANO,
    "1Pi": 2**50 * NANO,
    "1Ei": 2**60 * NANO,
    "9223372036854775808": 2**63 * NANO,
    # Capped, because binary; and rounded up to the finest grain, away from zero.
    "9Ei": BINARY_CAP,
    "-9Ei": -BINARY_CAP,
    "0.1n": 1,
    "-0.1n": -1,
    "1e-30": 1,
    "0.0000000001Ki": 103,
}


@pytest.mark.parametrize(("text", "nano"), NANO_AMOUNTS.items())
def test_text_is_read_to_the_exact_amount(text: str, nano: int) -> None:
    assert parse_quantity(text) == nano


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1_000",
        "NaN",
        "inf",
        "1KiB",
        "1ki",
        "1Mb",
        "1e",
        "e3",
        "k",
        ".",
        "+",
        "1.2.3",
        "1e3k",
        "0x10",
        "\u0661",
        "1\n",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["9" * (MAX_LENGTH + 1), "9" * 10**6, "1e999999999", "1e-999999999"])
def test_text_that_would_cost_time_or_memory_is_refused_and_not_echoed(text: str) -> None:
    with pytest.raises(QuantityError) as refusal:
        parse_quantity(text)
    assert len(str(refusal.value)) < 200


@given(st.integers(min_value=-(10**30), max_value=10**30))
def test_a_printed_quantity_reads_back_to_the_same_amount(nano: int) -> None:
    assert parse_quantity(format_quantity(nano)) == nano


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP _", max_size=20))
def test_any_text_is_an_amount_or_a_quantity_error(text: str) -> None:
    with contextlib.suppress(QuantityError):
        assert parse_quantity(format_quantity(parse_quantity(text))) == parse_quantity(text)


@pytest.mark.parametrize(
    ("resource", "quantities", "amount"),
    [
        ("cpu", ["500u", "500u", "500u"], 2),
        ("cpu", ["1"], 1000),
        ("cpu", ["1n"], 1),
        ("memory", ["100m", "200m"], 1),
        ("memory", ["1Ki"], 1024),
        ("example.com/gpu", ["1"], 1),
        ("ephemeral-storage", ["1.5"], 2),
    ],
)
def test_the_sum_is_rounded_up_and_not_the_parts(resource: str, quantities: list[str], amount: int) -> None:
    assert round_amount(resource, sum(map(parse_quantity, quantities))) == amount


def test_rounded_amounts_are_sorted_and_leave_out_zeros() -> None:
    assert round_amounts({"memory": NANO, "cpu": NANO, "example.com/gpu": 0}) == (("cpu", 1000), ("memory", 1))


@pytest.mark.parametrize(
    ("resource", "amount", "text"), [("cpu", 1500, "1500m"), ("cpu", 2000, "2"), ("memory", 1024, "1024")]
)
def test_amounts_are_shown_in_the_unit_people_write(resource: str, amount: int, text: str) -> None:
    assert format_amount(resource, amount) == text


def test_sums_and_maxima_go_by_resource() -> None:
    assert add({"cpu": 1, "memory": 2}, {"cpu": 3, "gpu": 4}) == {"cpu": 4, "memory": 2, "gpu": 4}
    assert maximum({"cpu": 1, "memory": 2}, {"cpu": 3}, {"gpu": 4, "memory": 1}) == {"cpu": 3, "memory": 2, "gpu": 4}
