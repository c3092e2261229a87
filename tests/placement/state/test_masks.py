# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Masks over all nodes at once say what the pure functions say of each node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from placement.model.messages.event import Deleted, Upserted
from placement.model.objects.node import Node
from placement.model.rules.selector import (
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    Toleration,
    untolerated,
)
from placement.state.cluster import Cluster
from placement_kit import strategies
from placement_kit.builders import node, pairs


def cluster_of(nodes: list[Node]) -> Cluster:
    cluster = Cluster()
    for item in nodes:
        cluster.apply(Upserted(item))
    return cluster


def chosen(cluster: Cluster, selector: NodeSelector) -> set[str]:
    allows = cluster.masks.selector(selector).allows
    assert allows.sum() == sum(allows[row] for row in cluster.columns.rows.values())
    return {name for name, row in cluster.columns.rows.items() if allows[row]}


some_nodes = st.tuples(*(strategies.nodes(name) for name in strategies.NODE_NAMES)).map(list)


@given(some_nodes, strategies.node_selectors)
def test_a_selector_chooses_the_nodes_it_matches_one_by_one(nodes: list[Node], selector: NodeSelector) -> None:
    expected = {item.name for item in nodes if selector.matches(item.name, dict(item.labels))}
    assert chosen(cluster_of(nodes), selector) == expected


@given(some_nodes, strategies.node_requirements | strategies.name_fields)
def test_so_does_a_single_requirement(nodes: list[Node], requirement: Requirement) -> None:
    is_field = requirement.key.startswith("metadata.")
    term = NodeSelectorTerm((), (requirement,)) if is_field else NodeSelectorTerm((requirement,))
    expected = {item.name for item in nodes if term.matches(item.name, dict(item.labels))}
    assert chosen(cluster_of(nodes), NodeSelector(terms=(term,))) == expected


@given(some_nodes, st.lists(strategies.tolerations, max_size=2).map(tuple))
def test_a_taint_keeps_off_whom_it_keeps_off_one_by_one(nodes: list[Node], tolerations: tuple[Toleration, ...]) -> None:
    cluster = cluster_of(nodes)
    allows = cluster.masks.taints(tolerations).allows
    expected = {item.name for item in nodes if untolerated(item.taints, tolerations) is None}
    assert {name for name, row in cluster.columns.rows.items() if allows[row]} == expected


@given(some_nodes, strategies.node_selectors, st.data())
def test_a_mask_in_use_follows_its_nodes(nodes: list[Node], selector: NodeSelector, data: st.DataObject) -> None:
    cluster = cluster_of(nodes)
    chosen(cluster, selector)
    name = data.draw(st.sampled_from(strategies.NODE_NAMES))
    changed = data.draw(strategies.nodes(name, version=2))
    cluster.apply(Upserted(changed))
    now = [changed if item.name == name else item for item in nodes]
    assert chosen(cluster, selector) == chosen(cluster_of(now), selector)


def test_a_mask_in_use_has_room_for_nodes_that_come_later() -> None:
    cluster = cluster_of([node("first", labels=pairs(zone="a"))])
    selector = NodeSelector(pairs(zone="a"))
    chosen(cluster, selector)
    for index in range(300):
        cluster.apply(Upserted(node(f"n{index}", labels=pairs(zone="ab"[index % 2]))))
    assert len(chosen(cluster, selector)) == 151


def test_many_selector_keys_do_not_pile_up_columns_and_stay_right() -> None:
    cluster = cluster_of([node("n1", labels=pairs(zone="a"))])
    for index in range(600):
        assert chosen(cluster, NodeSelector(((f"key{index}", "x"),))) == set()
    assert chosen(cluster, NodeSelector(pairs(zone="a"))) == {"n1"}


@pytest.mark.parametrize("value", ["a", "b"])
def test_a_label_that_comes_and_goes_is_followed(value: str) -> None:
    cluster = cluster_of([node("n1")])
    wanted = NodeSelector(terms=(NodeSelectorTerm((Requirement("zone", Operator.IN, (value,)),)),))
    assert chosen(cluster, wanted) == set()
    cluster.apply(Upserted(node("n1", version=2, labels=pairs(zone="a"))))
    assert chosen(cluster, wanted) == ({"n1"} if value == "a" else set())
    cluster.apply(Upserted(node("n1", version=3)))
    assert chosen(cluster, wanted) == set()


def test_label_values_of_nodes_that_are_gone_are_forgotten() -> None:
    cluster = cluster_of([node("stays", labels=pairs(host="stays"))])
    columns = cluster.columns
    for index in range(1000):
        cluster.apply(Upserted(node(f"n{index}", version=2 * index + 2, labels=pairs(host=f"n{index}"))))
        found = columns.label_column("host").among((f"n{index}", "stays"))
        assert found.sum() == 2
        cluster.apply(Deleted(Node, f"uid-n{index}", 2 * index + 3))
    assert len(columns.label_column("host").ids) <= 2 * columns.capacity + 1
