# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host list filters as a template sees them."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.filter.hostlist import FilterModule

FILTERS = FilterModule().filters()


def test_expand_and_fold_undo_each_other() -> None:
    assert FILTERS["hostlist_fold"](FILTERS["hostlist_expand"]("n[01-03],m1")) == "n[01-03],m1"


def test_sort_gives_the_shortest_list_without_duplicates() -> None:
    assert FILTERS["hostlist_fold"](["n10", "n2", "n1", "n2", "n9"], sort=True) == "n[1-2,9-10]"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("hostlist_expand", "n[1-9999999]", "longer than 65536"),
        ("hostlist_expand", ["n1"], "expected text, found list"),
        ("hostlist_fold", "n1,n2", "expected a list of host names"),
        ("hostlist_fold", [1], "expected a list of host names"),
        ("hostlist_fold", ["n 1"], "is not a host name"),
    ],
)
def test_bad_input_is_a_filter_error(name: str, value: object, message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        FILTERS[name](value)


def test_the_limit_of_names_can_be_set() -> None:
    with pytest.raises(AnsibleFilterError, match="at most 2 are allowed"):
        FILTERS["hostlist_expand"]("n[1-3]", limit=2)
