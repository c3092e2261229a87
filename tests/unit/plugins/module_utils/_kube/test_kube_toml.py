# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TOML as the standard library reads it back."""

from __future__ import annotations

import typing as t

import pytest
import tomllib
from ansible_collections.converged.hpc.plugins.module_utils._kube.node import toml
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PLAIN = st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT
VALUE = st.recursive(PLAIN | st.lists(PLAIN, max_size=3), lambda inner: st.dictionaries(TEXT, inner, max_size=3))


@given(st.dictionaries(TEXT, VALUE, max_size=5))
def test_a_document_reads_back_as_it_was(table: dict[str, t.Any]) -> None:
    assert tomllib.loads(toml.dump(table)) == table


def test_a_list_may_hold_tables() -> None:
    table = {"proxies": [{"name": "a", "on": True}]}
    assert tomllib.loads(toml.dump(table)) == table


@pytest.mark.parametrize("value", [None, 1.5, {"inner": None}, [object()]])
def test_what_toml_cannot_hold_is_named(value: t.Any) -> None:
    with pytest.raises(toml.TomlError, match="outer"):
        toml.dump({"outer": value})
