# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the list of faults (tests/mutations) showed to be missing: each test here fails with a fault of that list."""

import pytest
from placement.model.messages.event import Upserted
from placement.model.objects.node import Node
from placement.model.objects.pod import Pod
from placement.state.cluster import Cluster
from placement.state.nodes.node_columns import LEASED, RESTING, UNKNOWN
from placement_kit.builders import node, pairs, pod


def cluster_of(*items: Node | Pod) -> Cluster:
    cluster = Cluster()
    for item in items:
        cluster.apply(Upserted(item))
    return cluster


@pytest.mark.parametrize("why", [RESTING, LEASED, UNKNOWN])
def test_a_node_that_was_closed_stays_closed_when_its_node_object_changes(why: int) -> None:
    cluster = cluster_of(node())
    cluster.close("n1", why, closed=True)
    cluster.apply(Upserted(node(version=2, labels=pairs(zone="a"))))
    assert cluster.columns.flags[cluster.columns.rows["n1"]] & why
    cluster.close("n1", why, closed=False)
    assert not cluster.columns.flags[cluster.columns.rows["n1"]] & why


def test_a_pod_that_was_asked_to_leave_counts_as_leaving_whatever_else_is_news_of_it() -> None:
    cluster = cluster_of(node(), pod(node="n1"))
    releasing = cluster.columns.releasing[:, cluster.columns.rows["n1"]]
    cluster.pods.evict("uid-p1")
    asked = releasing.tolist()
    assert asked[0] == 1000
    cluster.apply(Upserted(pod(node="n1", version=2, labels=pairs(app="x"))))
    assert releasing.tolist() == asked
    cluster.apply(Upserted(pod(node="n1", version=3, terminating=True)))
    assert releasing.tolist() == asked
