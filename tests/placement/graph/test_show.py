# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree as text, and the slow check against the pods."""

from placement.graph.tree.audit import audit
from placement.graph.views.show import amount_used, show
from placement.model.messages.event import Upserted
from placement_kit.builders import amounts, node, pod
from placement_kit.drawn_graph import Drawn


def test_the_tree_is_shown_with_its_use() -> None:
    drawn = Drawn({"a/r10": [4], "a/r2": [1, 4], "b/r1": [0]})
    assert list(show(drawn.graph)) == [
        "cluster  4 nodes  cpu 7/16  memory 0/32 GiB  pods 2/40",
        "  zone a  3 nodes  cpu 3/12  memory 0/24 GiB  pods 1/30",
        "    rack r2  2 nodes  cpu 3/8  memory 0/16 GiB  pods 1/20",
        "    rack r10  1 node  cpu 0/4  memory 0/8 GiB  pods 0/10",
        "  zone b  1 node  cpu 4/4  memory 0/8 GiB  pods 1/10",
        "    rack r1  1 node  cpu 4/4  memory 0/8 GiB  pods 1/10",
    ]


def test_nodes_are_shown_when_asked_for_and_those_without_a_place_stand_below_the_cluster() -> None:
    drawn = Drawn({"a/r1": [3]})
    drawn.cluster.apply(Upserted(node("lost", allocatable=amounts(cpu="2", gpu="1", pods="5"))))
    assert list(show(drawn.graph, nodes=True))[1:] == [
        "  zone a  1 node  cpu 1/4  memory 0/8 GiB  pods 1/10",
        "    rack r1  1 node  cpu 1/4  memory 0/8 GiB  pods 1/10",
        "      node r1n1  cpu 1/4  memory 0/8 GiB  pods 1/10",
        "  node lost  cpu 0/2  pods 0/5  example.com/gpu 0/1",
    ]


def test_an_empty_cluster_is_shown_too() -> None:
    assert list(show(Drawn({}).graph)) == ["cluster  0 nodes"]


def test_local_storage_is_shown_in_the_unit_of_memory() -> None:
    assert amount_used("ephemeral-storage", 0, 243497856212) == "ephemeral-storage 0/227 GiB"


def test_the_slow_check_agrees_with_pods_that_run_leave_and_are_promised_room() -> None:
    drawn = Drawn({"a/r1": [3, 2], "a/r2": [4]})
    drawn.cluster.apply(Upserted(pod("leaving", node="r2n1", terminating=True)))
    drawn.cluster.apply(Upserted(pod("nominated", nominated_node="r2n1")))
    drawn.cluster.apply(Upserted(pod("driver", node="r2n1", request=amounts(cpu="1", gpu="1"))))
    assert [audit(drawn.graph, drawn.cluster, part, 2) for part in range(2)] == [[], []]


def test_the_slow_check_names_a_charge_without_a_pod() -> None:
    drawn = Drawn({"a/r1": [3, 2]})
    columns = drawn.cluster.columns
    columns.charge(columns.rows["r1n2"], columns.axis.request(amounts(cpu="1")), 1)
    found = audit(drawn.graph, drawn.cluster)
    assert [(drift.where, drift.what) for drift in found] == [("r1n2", "columns: free")]
    assert (found[0].held.split(",")[0], found[0].true.split(",")[0]) == ("[1000", "[2000")
