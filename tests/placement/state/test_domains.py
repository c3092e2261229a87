# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about other pods, case by case; the general truth is in test_feasibility."""

from typing import Any

import pytest
from placement.model.messages.event import Upserted
from placement.model.objects.pod import Pod
from placement.model.rules.affinity import PodMatcher, TopologySpread
from placement.model.rules.selector import Effect, LabelSelector, NodeSelector, Taint
from placement.state.affinity.topology_rules import DomainRules
from placement.state.cluster import Cluster
from placement_kit.builders import near, node, pairs, pod, spread

X = pairs(app="x")
BATCH = Taint("batch", "", Effect.NO_SCHEDULE)
EVERY_POD = PodMatcher(frozenset({"team"}), LabelSelector())
NO_POD = PodMatcher(frozenset({"team"}), None)


def allowed(asking: Pod, *placed: Pod) -> str:
    """Of nodes a1, a2 in zone a, b1 in zone b (tainted) and o1 in none: those that every rule allows."""
    cluster = Cluster()
    for name, taints in (("a1", ()), ("a2", ()), ("b1", (BATCH,)), ("o1", ())):
        labels = pairs(zone=name[0], host=name) if name != "o1" else pairs(host=name)
        cluster.apply(Upserted(node(name, labels=labels, taints=taints)))
    for item in placed:
        cluster.apply(Upserted(item))
    rules = DomainRules(cluster.columns, cluster.masks, cluster.labelsets)
    answer = rules.allowed(asking.spec, cluster.labelsets.obtain(asking.namespace, asking.labels))
    return " ".join(name for name, row in cluster.columns.rows.items() if answer is None or answer[row])


def on(place: str, name: str = "p", **more: Any) -> Pod:
    return pod(f"{name}-{place}", node=place, **{"labels": X, **more})


ALL = "a1 a2 b1 o1"


@pytest.mark.parametrize(
    ("labels", "placed", "where"),
    [
        (X, [], "a1 a2 b1"),
        ((), [], ""),
        (X, [on("a1")], "a1 a2"),
        (X, [on("a1", terminating=True)], "a1 a2"),
        (X, [on("a1", namespace="other")], "a1 a2 b1"),
        # A peer that is in no zone is nowhere: the first may still start anywhere.
        (X, [on("o1")], "a1 a2 b1"),
        ((), [on("o1")], ""),
    ],
)
def test_pod_affinity_goes_where_its_peers_are_or_lets_the_first_start(
    labels: tuple[tuple[str, str], ...], placed: list[Pod], where: str
) -> None:
    assert allowed(pod(labels=labels, affinity=(near("zone", app="x"),)), *placed) == where


def test_a_peer_must_match_all_terms_to_count_for_any() -> None:
    both = (near("zone", app="x"), near("zone", rev="1"))
    assert allowed(pod(affinity=both), on("a1"), on("b1", labels=pairs(app="x", rev="1"))) == "b1"
    assert allowed(pod(affinity=both), on("a1"), on("b1", labels=pairs(rev="1"))) == ""


@pytest.mark.parametrize(
    ("placed", "where"), [([], ALL), ([on("a1")], "b1 o1"), ([on("o1")], ALL), ([on("a1", labels=())], ALL)]
)
def test_anti_affinity_keeps_out_of_its_enemies_domains_and_a_node_without_the_key_is_in_none(
    placed: list[Pod], where: str
) -> None:
    assert allowed(pod(anti_affinity=(near("zone", app="x"),)), *placed) == where


@pytest.mark.parametrize(("place", "where"), [("a1", "b1 o1"), ("o1", ALL)])
def test_placed_pods_keep_out_whom_their_own_terms_are_about(place: str, where: str) -> None:
    holder = on(place, labels=(), anti_affinity=(near("zone", app="x"),))
    assert allowed(pod(labels=X), holder) == where
    assert allowed(pod(), holder) == ALL


def even(**more: Any) -> TopologySpread:
    return spread("zone", labels={"app": "x"}, **more)


@pytest.mark.parametrize(
    ("constraint", "placed", "where"),
    [
        (even(), [], "a1 a2 b1"),
        (even(), [on("a1")], "b1"),
        (even(), [on("a1", terminating=True)], "a1 a2 b1"),
        (even(), [on("a1"), on("b1")], "a1 a2 b1"),
        (even(max_skew=2), [on("a1")], "a1 a2 b1"),
        (even(hard=False), [on("a1")], ALL),
        # Fewer domains than wanted: the emptiest counts as empty.
        (even(min_domains=3), [on("a1"), on("b1")], ""),
        (even(min_domains=2), [on("a1"), on("b1")], "a1 a2 b1"),
        # Zone b is tainted: with the policy it is no domain, and its pods do not count.
        (even(honor_node_taints=True), [on("a1")], "a1 a2 b1"),
        (even(honor_node_taints=True), [on("b1"), on("b1", "q")], "a1 a2 b1"),
        # kube-scheduler counts nothing for an empty selector, but the pod itself matches it.
        (TopologySpread(topology_key="zone", matcher=EVERY_POD), [on("a1")], "a1 a2 b1"),
        (TopologySpread(topology_key="zone", matcher=NO_POD), [on("a1")], "a1 a2 b1"),
    ],
)
def test_topology_spread_counts_as_kube_scheduler_counts(
    constraint: TopologySpread, placed: list[Pod], where: str
) -> None:
    assert allowed(pod(labels=X, spread=(constraint,)), *placed) == where


@pytest.mark.parametrize(("honor", "where"), [(True, "a1 a2 b1"), (False, "b1")])
def test_a_domain_outside_the_pods_own_selector_counts_by_policy(honor: bool, where: str) -> None:
    selector = NodeSelector(pairs(zone="a"))
    asking = pod(labels=X, selector=selector, spread=(even(honor_node_affinity=honor),))
    assert allowed(asking, on("a1")) == where


def test_a_node_counts_only_where_it_has_the_keys_of_all_hard_constraints() -> None:
    asking = pod(labels=X, spread=(spread("host", labels={"app": "x"}, max_skew=9), even()))
    assert allowed(asking, on("o1"), on("a1")) == "b1"


def test_each_rule_is_named_in_the_explanation() -> None:
    cluster = Cluster()
    cluster.apply(Upserted(node(labels=pairs(zone="a"))))
    cluster.apply(Upserted(on("n1", anti_affinity=(near("zone", app="x"),))))
    asking = pod(labels=X, affinity=(near("zone", app="y"),), anti_affinity=(near("zone", app="x"),), spread=(even(),))
    rules = DomainRules(cluster.columns, cluster.masks, cluster.labelsets)
    named = [
        (name, bool(answer[0])) for name, answer in rules.answers(asking.spec, cluster.labelsets.obtain("team", X))
    ]
    assert named == [
        ("pod affinity", False),
        ("pod anti-affinity", False),
        ("anti-affinity of other pods", False),
        ("topology spread (label missing)", True),
        ("topology spread", True),
    ]
