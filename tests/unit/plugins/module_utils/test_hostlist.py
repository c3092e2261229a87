# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host lists: what Slurm 22.05.8 prints for the same text, the bounds, and the round trip."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._shared.hostlist import (
    MAX_HOSTS,
    HostlistError,
    expand,
    fold,
    natural_key,
)
from hypothesis import given
from hypothesis import strategies as st

# Left: given to `scontrol show hostnames` of 22.05.8; right: what it printed.
EXPANDED = {
    "": "",
    "n1": "n1",
    "n[1-3,7]": "n1 n2 n3 n7",
    "n[001-010]": "n001 n002 n003 n004 n005 n006 n007 n008 n009 n010",
    "a[1-2]b[3-4]": "a1b3 a1b4 a2b3 a2b4",
    "rack[1-2]-n[1-2]": "rack1-n1 rack1-n2 rack2-n1 rack2-n2",
    "n[1-2][3-4]": "n13 n14 n23 n24",
    "a[1-2]b[3-4]c[5-6]": "a1b3c5 a1b3c6 a2b3c5 a2b3c6 a1b4c5 a1b4c6 a2b4c5 a2b4c6",
    "n[1-3],n2,n1": "n1 n2 n3 n2 n1",
    "n[1-2,1]": "n1 n2 n1",
    "n[9-010]": "n9 n10",
    "n[09-11]": "n09 n10 n11",
    "n[098-102]": "n098 n099 n100 n101 n102",
    "n[0-3]": "n0 n1 n2 n3",
    "n[00]": "n00",
    "n[5-5]": "n5",
    "n1[1-2]": "n11 n12",
    "[1-2]": "1 2",
    "n1 n2": "n1 n2",
    "n1, n2": "n1 n2",
    "n1\nn2\tn3": "n1 n2 n3",
    ",n1": "n1",
    "a,b,,c": "a b c",
    "n-1": "n-1",
}

# Left: given to `scontrol show hostlist` of 22.05.8; right: what it printed.
FOLDED = {
    "n1": "n1",
    "n1 n2 n3 n7": "n[1-3,7]",
    "n7 n1 n3 n2": "n[7,1,3,2]",
    "n1 n1": "n[1,1]",
    "n001 n002 n010": "n[001-002,010]",
    "n9 n10 n11": "n[9-11]",
    "n09 n10": "n[09-10]",
    "n9 n010": "n[9,010]",
    "n99 n100 n001": "n[99-100,001]",
    "n0 n00 n1 n01": "n[0,00,1,01]",
    "a1b3 a1b4 a2b3 a2b4": "a1b[3-4],a2b[3-4]",
    "n1 m1 n2": "n1,m1,n2",
    "n1-ib n2-ib": "n1-ib,n2-ib",
    "a a": "a,a",
    "a1 b a2": "a1,b,a2",
    "1 2": "[1-2]",
    "n1 n2 n3 n2": "n[1-3,2]",
}

NAMES = st.from_regex(r"[a-z]{0,3}-?[0-9]{1,4}|[a-z][a-z0-9.-]{0,6}", fullmatch=True)


@pytest.mark.parametrize(("text", "printed"), EXPANDED.items())
def test_a_list_expands_to_what_slurm_prints(text: str, printed: str) -> None:
    assert expand(text) == printed.split()


@pytest.mark.parametrize(("names", "printed"), FOLDED.items())
def test_names_fold_to_what_slurm_prints(names: str, printed: str) -> None:
    assert fold(names.split()) == printed


def test_a_suffix_behind_the_last_bracket_is_kept() -> None:
    assert expand("n[1-2]-ib,m[1]x") == ["n1-ib", "n2-ib", "m1x"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n[1-9999999]", "longer than 65536"),
        ("n[1-65536],m1", "names 65537 hosts"),
        ("a[1-1000]b[1-1000]", "names 1000000 hosts"),
        ("a[1-60000]" * 20, "names 3656"),
        ("n[1-99999999999999999999]", "more than 18 digits"),
        ("n[" + "1," * 600_000 + "1]", "at most 1048576"),
        ("n" * 256, "longer than 255"),
        ("n[3-1]", "ends before it begins"),
        ("n[]", "neither a number nor low-high"),
        ("n[1-]", "neither a number nor low-high"),
        ("n[a-b]", "neither a number nor low-high"),
        ("n[1--3]", "neither a number nor low-high"),
        ("n[1-3:2]", "neither a number nor low-high"),
        ("n[1-2,]", "neither a number nor low-high"),
        ("n[ 1-2]", "neither a number nor low-high"),
        ("n[\u0661]", "neither a number nor low-high"),
        ("n[1,", "not closed"),
        ("n1]", "unbalanced bracket at character 3"),
        ("n[[1]]", "unbalanced bracket at character 3"),
        ("blockof{n1}", "no host name has"),
        ("n\x001", "no host name has"),
    ],
)
def test_a_bad_list_is_named(text: str, message: str) -> None:
    with pytest.raises(HostlistError, match=message) as caught:
        expand(text)
    assert len(str(caught.value)) < 250
    assert str(caught.value).isprintable()


def test_a_bomb_is_refused_before_memory_is_used() -> None:
    tracemalloc.start()
    with pytest.raises(HostlistError):
        expand(",".join(f"a[1-9999]b[1-9999]c{int(number)}" for number in range(1000)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000


@pytest.mark.parametrize("name", ["", "a,b", "n[1]", "a b", "a\nb", "x" * 256])
def test_what_is_no_host_name_does_not_fold(name: str) -> None:
    with pytest.raises(HostlistError, match="is not a host name"):
        fold([name])


def test_a_fold_never_makes_a_range_that_slurm_refuses() -> None:
    names = [f"n{int(number)}" for number in range(MAX_HOSTS + 10)]
    assert fold(names) == "n[0-65535,65536-65545]"
    assert expand(fold(names), limit=len(names)) == names


def test_natural_order_counts_numbers_as_numbers() -> None:
    assert sorted(["n10", "n2", "m3", "n02", "n1-2"], key=natural_key) == ["m3", "n1-2", "n2", "n02", "n10"]


@given(st.lists(NAMES))
def test_folded_names_expand_to_themselves(names: list[str]) -> None:
    assert expand(fold(names)) == names


@given(st.lists(st.tuples(st.from_regex(r"[a-z]{1,2}", fullmatch=True), st.integers(0, 40), st.integers(0, 12))))
def test_written_ranges_expand_and_fold_again(ranges: list[tuple[str, int, int]]) -> None:
    text = ",".join(f"{prefix}[{int(low):03}-{int(low + more):03}]" for prefix, low, more in ranges)
    names = expand(text)
    assert names == [f"{p}{int(low + step):03}" for p, low, more in ranges for step in range(more + 1)]
    assert expand(fold(names)) == names


@given(st.text(alphabet="n[]-,019x \t", max_size=30))
def test_any_text_is_either_read_or_refused_with_a_reason(text: str) -> None:
    with contextlib.suppress(HostlistError):
        names = expand(text, limit=1000)
        assert expand(fold(names), limit=1000) == names
