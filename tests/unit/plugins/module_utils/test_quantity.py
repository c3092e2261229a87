# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantities: one table per dialect, one of what each refuses, and exactness as a property."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._quantity import (
    QuantityError,
    byte_count,
    kubernetes,
    millicores,
    pbs_size,
    seconds,
    slurm_memory,
)
from hypothesis import given
from hypothesis import strategies as st

KUBERNETES = {
    "0": 0,
    "1": 1,
    "+1": 1,
    "500m": Fraction(1, 2),
    "0.5": Fraction(1, 2),
    ".5": Fraction(1, 2),
    "5.": 5,
    "1e3": 1000,
    "1E3": 1000,
    "25e-1": Fraction(5, 2),
    "1e+2": 100,
    "1E": 10**18,
    "1Ei": 2**60,
    "1.5Gi": 3 * 2**29,
    "128974848": 128974848,
    "129e6": 129000000,
    "129M": 129000000,
    "123Mi": 123 * 2**20,
    "100n": Fraction(1, 10**7),
    "0.1n": Fraction(1, 10**9),
    "1.0000000001": Fraction(10**9 + 1, 10**9),
    "9223372036854775807": 2**63 - 1,
    # The API caps a binary amount, and no other.
    "9Ei": 2**63 - 1,
}
SLURM_MEBIBYTES = {"2000": 2000, "2000M": 2000, "2G": 2048, "2gb": 2048, "1T": 2**20, "1K": 1, "1025k": 2, "0": 0}
PBS = {
    "0": 0,
    "100": 100,
    "100b": 100,
    "1w": 8,
    "1gb": 2**30,
    "655360kb": 655360 * 1024,
    "1gw": 2**33,
    "2g": 2**31,
    "1KB": 1024,
    "1pb": 2**50,
}
NOBODYS = ["", " 1", "1 ", "1\n", "-1", "1_000", "NaN", "inf", "0x10", "1,5", "\u0661", "1 Gi", "Gi"]
NOBODYS.append("9" * 1_000_000)


@pytest.mark.parametrize(("text", "value"), KUBERNETES.items())
def test_a_kubernetes_quantity_is_read_exactly(text: str, value: Fraction) -> None:
    assert kubernetes(text) == value


@pytest.mark.parametrize(("text", "mebibytes"), SLURM_MEBIBYTES.items())
def test_a_slurm_memory_size_counts_mebibytes(text: str, mebibytes: int) -> None:
    assert slurm_memory(text) == mebibytes * 2**20


@pytest.mark.parametrize(("text", "size"), PBS.items())
def test_a_pbs_size_counts_bytes_or_words(text: str, size: int) -> None:
    assert pbs_size(text) == size


@pytest.mark.parametrize("text", NOBODYS)
@pytest.mark.parametrize("read", [kubernetes, slurm_memory, pbs_size])
def test_what_no_dialect_writes_is_refused_in_one_short_line(read: object, text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        read(text)  # type: ignore[operator]
    assert len(str(caught.value)) < 200
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("kubernetes", "9223372036854775808"),
        ("kubernetes", "1e99"),
        ("kubernetes", "1e100"),
        ("kubernetes", "1e"),
        ("kubernetes", "1.5.2"),
        ("kubernetes", "1K"),
        ("kubernetes", "1gb"),
        ("kubernetes", "1e3Mi"),
        ("kubernetes", "."),
        ("slurm", "+1"),
        ("slurm", "2.5G"),
        ("slurm", "2Gi"),
        ("slurm", "9999999T"),
        ("slurm", "10B"),
        ("pbs", "+1"),
        ("pbs", "1.5gb"),
        ("pbs", "1gib"),
        ("pbs", "1024pw"),
        ("torque", "1"),
    ],
)
def test_what_one_dialect_does_not_write_is_refused_there(dialect: str, text: str) -> None:
    with pytest.raises(QuantityError):
        byte_count(text, dialect)


def test_a_number_that_is_no_text_is_refused() -> None:
    with pytest.raises(QuantityError, match="expected text, found float"):
        kubernetes(float("nan"))  # type: ignore[arg-type]


def test_whole_units_are_rounded_up() -> None:
    assert millicores("100n") == 1
    assert millicores("1.5") == 1500
    assert byte_count("500m", "kubernetes") == 1
    assert byte_count("2G", "slurm") == 2**31
    assert byte_count("1kw", "pbs") == 8192


@given(st.integers(0, 2**40), st.integers(0, 999_999_999))
def test_a_decimal_is_exact_to_the_nano(whole: int, nano: int) -> None:
    assert kubernetes(f"{int(whole)}.{int(nano):09}") == Fraction(whole * 10**9 + nano, 10**9)


@given(st.text(alphabet="0123456789.eE+-kKMGmnuib _", max_size=20))
def test_any_text_gives_a_number_that_is_not_negative_or_an_error(text: str) -> None:
    for read in (kubernetes, slurm_memory, pbs_size):
        with contextlib.suppress(QuantityError):
            assert read(text) >= 0


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("90", 90),
        ("90s", 90),
        ("30m", 1800),
        ("24h", 86400),
        ("1d12h", 129600),
        ("1h30m15s", 5415),
        ("1h30", 3630),
        ("00:01:30", 90),
        ("100:00:00", 360000),
        ("1-12:00:00", 129600),
    ],
)
def test_a_duration_is_read_as_seconds(text: str, number: int) -> None:
    assert seconds(text) == number


@pytest.mark.parametrize(
    "text", ["", "s", "h", "-1", "1.5h", "1h2d", "12:30", "1-12", "1-", "1:2:3", "24 h", "1H", "٣", "1w"]
)
def test_a_duration_that_could_mean_something_else_is_refused(text: str) -> None:
    with pytest.raises(QuantityError, match="is no duration"):
        seconds(text)
