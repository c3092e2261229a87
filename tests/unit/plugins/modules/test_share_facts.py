# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""share_facts: what the record says, in the words of a report."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._record.model.replay import View
from ansible_collections.converged.hpc.plugins.modules import share_facts

NOTHING: dict[str, t.Any] = {
    "present": False,
    "roles": [],
    "things": {},
    "summary": "nothing of converged.hpc is on this node",
}


def test_a_node_without_a_record_holds_nothing() -> None:
    assert share_facts.describe(View()) == NOTHING


def test_things_are_sorted_by_kind_and_named_with_all_who_hold_them() -> None:
    view = View()
    view.replay(
        {"event": "claim", "role": "slurm_share", "keys": {"path:/etc/b": "file", "unit:slurmd.service": "unit"}}
    )
    view.replay({"event": "claim", "role": "node_share", "keys": {"path:/etc": "directory", "path:/etc/b": "lines"}})

    found = share_facts.describe(view)

    assert found["things"] == {
        "path": {"/etc": ["node_share"], "/etc/b": ["node_share", "slurm_share"]},
        "unit": {"slurmd.service": ["slurm_share"]},
    }
    assert found["summary"] == "held by node_share, slurm_share: 2 paths, 1 unit"


def test_what_was_given_back_is_not_held() -> None:
    view = View()
    view.replay({"event": "claim", "role": "node_share", "keys": {"path:/etc/b": "file"}})
    view.replay({"event": "unclaim", "role": "node_share", "keys": ["path:/etc/b"]})

    assert share_facts.describe(view) == NOTHING


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        ({}, "nothing of converged.hpc is on this node"),
        ({"path": 1}, "held by a: 1 path"),
        ({"unit": 2, "path": 1}, "held by a: 1 path, 2 units"),
    ],
)
def test_the_summary_is_one_line(counts: dict[str, int], line: str) -> None:
    assert share_facts.summary(["a"], counts) == line
