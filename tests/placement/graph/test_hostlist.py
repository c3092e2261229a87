# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host lists of the graph are those of the rest of the collection."""

import pytest
from ansible_collections.converged.hpc.plugins.module_utils import _hostlist
from hypothesis import given
from hypothesis import strategies as st
from placement.graph.hostlist import MOST, HostlistError, expand

words = st.lists(
    st.sampled_from(["n", "rack-", "[1-3]", "[07-10]", "[2,4,9-11]", "a.b", "x_"]), min_size=1, max_size=3
).map("".join)


@given(st.lists(words, max_size=4), st.sampled_from([",", ", ", " "]))
def test_a_well_formed_list_gives_the_same_names_as_in_the_modules(parts: list[str], between: str) -> None:
    text = between.join(parts)
    assert sorted(expand(text)) == sorted(dict.fromkeys(_hostlist.expand(text)))


@pytest.mark.parametrize(
    "text", ["n[1-3", "n]1", "n[1-]", "n[a]", "n[3-1]", "n[[1]]", "n[]", "n[1-9999999999]", f"n[1-{MOST + 1}]"]
)
def test_a_malformed_or_huge_list_is_refused(text: str) -> None:
    with pytest.raises(HostlistError):
        expand(text)


def test_many_brackets_are_counted_before_names_are_made() -> None:
    with pytest.raises(HostlistError, match="more than 65536 hosts"):
        expand("n" + "[0-99]" * 12)
