# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a Node object is ours, and goes from one that stays in its cluster."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._kube import cluster


def node(**parts: Any) -> dict[str, Any]:
    taints = [{"key": key, "effect": "NoSchedule"} for key in parts.pop("taints", ())]
    return {"metadata": parts, "spec": {"taints": taints} if taints else {}}


@pytest.mark.parametrize(
    ("found", "ours"),
    [
        (node(), None),
        (node(labels=None, annotations=None), None),
        (node(labels={"example.org/rack": "7", "kubernetes.io/os": "linux"}, taints=["example.org/site"]), None),
        (
            node(labels={"node-restriction.kubernetes.io/converged-share-mode": "handover", "a": "b"}),
            (["node-restriction.kubernetes.io/converged-share-mode"], [], []),
        ),
        (
            node(annotations={"converged.hpc/leases": "", "x": ""}, taints=["converged.hpc/batch", "other"]),
            ([], ["converged.hpc/leases"], ["converged.hpc/batch"]),
        ),
    ],
)
def test_only_keys_of_ours_are_ours(found: dict[str, Any], ours: tuple[list[str], ...] | None) -> None:
    assert cluster.ours({"n1": found}, ["n1", "gone"]) == ({} if ours is None else {"n1": cluster.Ours(*ours)})


def test_nodes_are_named_by_the_taint_that_they_have() -> None:
    nodes = {"n1": node(taints=["a", "b"]), "n2": node(taints=["b"]), "n3": node()}
    assert cluster.tainted(nodes, ["n1", "n2", "n3", "gone"], ["a", "b", "c"]) == {"a": ["n1"], "b": ["n1", "n2"]}
