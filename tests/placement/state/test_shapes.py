# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Score rows: kept up to date by the ring they equal rows made afresh, and runs equal one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from placement.model.messages.event import Deleted, Upserted
from placement.model.objects.node import Node
from placement.model.objects.pod import HostPort, Pod
from placement.policy.framework.feasibility import Feasibility
from placement.policy.queues.reservations import Reservations
from placement.state.cluster import Cluster
from placement.state.nodes.node_columns import NodeColumns
from placement.state.nodes.score_table import INFEASIBLE, ScoreTable
from placement_kit import strategies
from placement_kit.builders import amounts, node, pod
from placement_kit.scorers import least_allocated


def shapes_of(cluster: Cluster, **more: int) -> ScoreTable:
    feasibility = Feasibility(cluster, Reservations(cluster.columns))
    return ScoreTable(cluster.columns, cluster.masks, feasibility, least_allocated, **more)


# Built once: Hypothesis looks through every new strategy, which takes longer than to draw from it.
versions = st.integers(2, 20)
names = st.sampled_from([*strategies.NODE_NAMES, "p0", "p1", "p2"])
mostly = st.sampled_from([True, True, False])


@given(st.data())
def test_rows_that_caught_up_equal_rows_made_afresh(data: st.DataObject) -> None:
    cluster = Cluster()
    shapes = shapes_of(cluster)
    asked = [data.draw(strategies.pods(f"asked{index}")) for index in range(3)]
    some_asked = st.lists(st.sampled_from(asked), max_size=2)
    known: dict[str, Node | Pod] = {}
    for version in range(1, data.draw(versions)):
        name = data.draw(names)
        if data.draw(mostly) or name not in known:
            make = strategies.nodes if name.startswith("n") else strategies.pods
            known[name] = data.draw(make(name, uid=name, version=version))
            cluster.apply(Upserted(known[name]))
        else:
            cluster.apply(Deleted(type(known[name]), known.pop(name).uid, version))
        for pod_asked in data.draw(some_asked):
            kept = shapes.row(pod_asked.spec, pod_asked.request).scores
            afresh = shapes_of(cluster).row(pod_asked.spec, pod_asked.request).scores
            np.testing.assert_array_equal(kept, afresh)


def test_a_row_older_than_the_ring_is_made_afresh() -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.apply(Upserted(node(name)))
    shapes = shapes_of(cluster)
    small = pod()
    shapes.row(small.spec, small.request)
    for _ in range(NodeColumns.RING + 5):
        cluster.columns.touch(cluster.columns.rows["a"])
    cluster.apply(Upserted(pod("other", node="b")))
    assert shapes.best(shapes.row(small.spec, small.request)) == cluster.columns.rows["a"]


def test_the_ring_names_what_changed_across_its_seam() -> None:
    columns = NodeColumns()
    for index in range(NodeColumns.RING - 2):
        columns.touch(index % 7)
    cursor = columns.changes
    for row in (3, 1, 4, 1, 5):
        columns.touch(row)
    changed = columns.changed_since(cursor)
    assert changed is not None
    assert changed.tolist() == [3, 1, 4, 1, 5]
    assert columns.changed_since(columns.changes) is not None
    assert columns.changed_since(columns.changes - NodeColumns.RING - 1) is None


@given(strategies.clusters(max_pods=4), strategies.pods("run"), st.integers(0, 30))
def test_a_run_goes_where_its_pods_would_go_one_by_one(
    cluster_of: tuple[list[Node], list[Pod]], like: Pod, number: int
) -> None:
    cluster = Cluster()
    for item in (*cluster_of[0], *cluster_of[1]):
        cluster.apply(Upserted(item))
    shapes = shapes_of(cluster)
    planned = shapes.targets(shapes.row(like.spec, like.request), number)
    for index in range(number):
        row = shapes.best(shapes.row(like.spec, like.request))
        if row < 0:
            assert len(planned) == index
            return
        assert planned[index] == row
        one = pod(f"run{index}", host_ports=like.spec.host_ports, request=like.request)
        cluster.apply(Upserted(one))
        target = cluster.columns.nodes[row]
        assert target is not None
        cluster.pods.assume(one.uid, target.name)
    assert len(planned) == number


def test_the_best_node_is_the_first_of_equals_and_none_when_nothing_fits() -> None:
    cluster = Cluster()
    for name in ("a", "b", "c"):
        cluster.apply(Upserted(node(name)))
    shapes = shapes_of(cluster)
    small, huge = pod(), pod(request=amounts(cpu="5"))
    assert shapes.best(shapes.row(small.spec, small.request)) == 0
    assert shapes.best(shapes.row(huge.spec, huge.request)) == -1
    assert shapes.targets(shapes.row(huge.spec, huge.request), 3) == []
    assert shapes.best(shapes.row(small.spec, small.request), np.arange(64) == 2) == 2
    assert shapes.best(shapes.row(small.spec, small.request), np.zeros(64, np.bool_)) == -1


@pytest.mark.parametrize("number", [0, 1, 3, 7, 200])
def test_a_run_over_equal_nodes_takes_the_first_ones_and_then_each_again(number: int) -> None:
    cluster = Cluster()
    for index in range(5):
        cluster.apply(Upserted(node(f"n{index}")))
    shapes = shapes_of(cluster)
    assert shapes.targets(shapes.row(pod().spec, pod().request), number) == ([0, 1, 2, 3, 4] * 4)[:number]


def test_a_resource_that_no_node_offers_fits_nowhere_until_one_does() -> None:
    cluster = Cluster()
    cluster.apply(Upserted(node()))
    shapes = shapes_of(cluster)
    wants = pod(request=amounts(gpu="1"))
    assert shapes.best(shapes.row(wants.spec, wants.request)) == -1
    cluster.apply(Upserted(node("g", allocatable=amounts(cpu="1", pods="5", gpu="1"))))
    assert shapes.best(shapes.row(wants.spec, wants.request)) == cluster.columns.rows["g"]


def test_what_is_not_asked_for_blocks_nowhere_even_where_too_much_of_it_is_taken() -> None:
    cluster = Cluster()
    cluster.apply(Upserted(node()))
    shapes = shapes_of(cluster)
    wants = pod(request=amounts(cpu="1"))
    for number, fits in enumerate((True, True, False)):
        cluster.apply(Upserted(pod(f"p{number}", node="n1", request=amounts(cpu="1100m", memory="9Gi"))))
        assert shapes.best(shapes.row(wants.spec, wants.request)) == (0 if fits else -1)


def test_a_node_that_closes_is_left_out_however_long_ago_the_row_was_made() -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.apply(Upserted(node(name)))
    shapes = shapes_of(cluster)
    small = pod()
    assert shapes.best(shapes.row(small.spec, small.request)) == 0
    cluster.apply(Upserted(node("a", version=2, unschedulable=True)))
    assert shapes.best(shapes.row(small.spec, small.request)) == 1
    cluster.apply(Upserted(node("a", version=3)))
    assert shapes.best(shapes.row(small.spec, small.request)) == 0


def test_shapes_beyond_the_capacity_are_forgotten_and_made_again() -> None:
    cluster = Cluster()
    cluster.apply(Upserted(node()))
    shapes = shapes_of(cluster, capacity=2)
    rows = [shapes.row(pod().spec, amounts(cpu=f"{index}00m")) for index in (1, 2, 3)]
    assert shapes.row(pod().spec, rows[2].request) is rows[2]
    again = shapes.row(pod().spec, rows[0].request)
    assert again is not rows[0]
    np.testing.assert_array_equal(again.scores, rows[0].scores)


@pytest.mark.parametrize(("address", "fits"), [("10.0.0.1", False), ("0.0.0.0", False), ("10.0.0.2", True)])
def test_a_taken_host_port_closes_the_node(address: str, fits: bool) -> None:
    cluster = Cluster()
    cluster.apply(Upserted(node()))
    shapes = shapes_of(cluster)
    wants = pod(host_ports=(HostPort(address, "TCP", 80),))
    assert shapes.best(shapes.row(wants.spec, wants.request)) == 0
    cluster.apply(Upserted(pod("taker", node="n1", host_ports=(HostPort("10.0.0.1", "TCP", 80),))))
    row = shapes.row(wants.spec, wants.request)
    assert (row.scores[0] > INFEASIBLE) == fits
    assert len(shapes.targets(row, 3)) == int(fits)
