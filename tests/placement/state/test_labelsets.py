# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts of the pods that a rule finds, made late or early, many or few."""

from placement.model.messages.event import Deleted, Upserted
from placement.model.objects.pod import Pod
from placement.model.objects.workload import Namespace
from placement.model.rules.affinity import PodMatcher
from placement.model.rules.selector import LabelSelector
from placement.state.affinity.labelsets import Rule
from placement.state.cluster import Cluster
from placement_kit.builders import labelled, near, node, pairs, pod


def rule(value: str, *, namespace_selector: LabelSelector | None = None) -> Rule:
    namespaces = frozenset() if namespace_selector else frozenset({"team"})
    return (PodMatcher(namespaces, labelled(app=value), namespace_selector),)


def counted(cluster: Cluster, asked: Rule) -> int:
    return sum(cluster.labelsets.count(asked).pods.values())


def cluster_with(*values: str) -> Cluster:
    cluster = Cluster()
    cluster.apply(Upserted(node()))
    for index, value in enumerate(values):
        cluster.apply(Upserted(pod(f"p{index}", node="n1", labels=pairs(app=value))))
    return cluster


def test_rules_beyond_the_capacity_are_dropped_and_counted_again() -> None:
    cluster = cluster_with("x", "x", "y")
    assert counted(cluster, rule("x")) == 2
    for index in range(300):
        assert counted(cluster, rule(f"other{index}")) == 0
    cluster.apply(Deleted(Pod, "uid-p0", 2))
    assert counted(cluster, rule("x")) == 1
    cluster.apply(Upserted(pod("p9", node="n1", labels=pairs(app="x"))))
    assert counted(cluster, rule("x")) == 2


def test_counts_grow_with_the_columns() -> None:
    cluster = cluster_with("x")
    assert counted(cluster, rule("x")) == 1
    for index in range(100):
        cluster.apply(Upserted(node(f"more{index}")))
    cluster.apply(Upserted(pod("late", node="more99", labels=pairs(app="x"))))
    assert counted(cluster, rule("x")) == 2


def test_a_namespace_that_changes_its_labels_joins_or_leaves_a_rule() -> None:
    cluster = cluster_with("x")
    asked = rule("x", namespace_selector=labelled(kind="batch"))
    assert counted(cluster, asked) == 0
    for version, labels, number in ((2, pairs(kind="batch"), 1), (3, (), 0)):
        cluster.apply(Upserted(Namespace(uid="ns", name="team", version=version, labels=labels)))
        assert counted(cluster, asked) == number


def test_a_terminating_pod_is_counted_but_does_not_stay() -> None:
    cluster = cluster_with("x")
    early = cluster.labelsets.count(rule("x"))
    cluster.apply(Upserted(pod("p0", node="n1", labels=pairs(app="x"), terminating=True, version=2)))
    late = cluster.labelsets.count((*rule("x"), *rule("x")))
    assert (early.pods, early.staying) == (late.pods, late.staying) == ({0: 1}, {})


def test_a_pod_whose_labels_change_moves_to_another_set() -> None:
    cluster = cluster_with("x")
    assert counted(cluster, rule("x")) == 1
    cluster.apply(Upserted(pod("p0", node="n1", labels=pairs(app="y"), version=2)))
    assert (counted(cluster, rule("x")), counted(cluster, rule("y"))) == (0, 1)


def test_terms_of_placed_pods_repel_until_their_last_holder_goes() -> None:
    cluster = cluster_with()
    term = near("zone", app="x")
    cluster.apply(Upserted(pod("victim", labels=pairs(app="x"))))
    victim = cluster.pods.by_uid["uid-victim"]
    assert cluster.labelsets.repelling(victim.labelset) == ()
    for name in ("a", "b"):
        cluster.apply(Upserted(pod(name, node="n1", anti_affinity=(term,))))
    assert [anti.term for anti in cluster.labelsets.repelling(victim.labelset)] == [term]
    cluster.apply(Deleted(Pod, "uid-a", 2))
    assert len(cluster.labelsets.repelling(victim.labelset)) == 1
    cluster.apply(Deleted(Pod, "uid-b", 2))
    assert cluster.labelsets.repelling(victim.labelset) == ()
