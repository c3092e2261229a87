# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that no selector tells apart are one label set, whatever other labels they have."""

from hypothesis import given
from hypothesis import strategies as st
from placement.model.messages.event import Deleted, Upserted
from placement.model.objects.pod import Pod, PodSpec
from placement.model.rules.affinity import PodAffinityTerm, PodMatcher
from placement.model.rules.selector import LabelSelector, Operator, Requirement
from placement.state.affinity.matchers import MatcherIndex
from placement.state.cluster import Cluster
from placement_kit import strategies
from placement_kit.builders import budget, labelled, near, node, pairs, pod

INDEX = "batch.kubernetes.io/job-completion-index"


def numbered(number: int, *, first: int = 0, **more: object) -> list[Pod]:
    """Members of an Indexed Job on one node."""
    return [
        pod(f"p{index}", node="n1", labels=((INDEX, str(index)), *pairs(job="j")), **more)
        for index in range(first, first + number)
    ]


def cluster_with(*items: object) -> Cluster:
    cluster = Cluster()
    for item in (node(allocatable=(("cpu", 10**6), ("pods", 500))), *items):
        cluster.apply(Upserted(item))
    return cluster


def sets_of(cluster: Cluster) -> int:
    return len({id(entry.labelset) for entry in cluster.pods.by_uid.values()})


def about(key: str, *values: str) -> tuple[PodMatcher, ...]:
    return (PodMatcher(frozenset({"team"}), LabelSelector((Requirement(key, Operator.IN, values),))),)


def test_members_with_an_index_each_are_one_label_set_while_nothing_reads_the_index() -> None:
    assert sets_of(cluster_with(*numbered(50))) == 1


def test_a_rule_that_reads_the_index_counts_the_pods_that_were_there_before_it() -> None:
    cluster = cluster_with(*numbered(50), pod("ends", node="n1", labels=((INDEX, "3"),), terminating=True))
    count = cluster.labelsets.count(about(INDEX, "3", "4"))
    assert (count.pods, count.staying) == ({0: 3}, {0: 2})
    assert sets_of(cluster) == 50
    cluster.apply(Deleted(Pod, "uid-p4", 2))
    cluster.apply(Upserted(pod("late", node="n1", labels=((INDEX, "4"),))))
    cluster.apply(Deleted(Pod, "uid-p3", 2))
    assert (count.pods, count.staying) == ({0: 2}, {0: 1})


def test_pods_whose_own_rules_read_the_index_are_told_apart_by_it() -> None:
    cluster = cluster_with(*numbered(10))
    cluster.apply(Upserted(pod("reader", anti_affinity=(near("zone", job="j"),))))
    assert sets_of(cluster) == 2
    term = PodAffinityTerm(about(INDEX, "1")[0], "zone")
    cluster.apply(Upserted(pod("other", anti_affinity=(term,))))
    assert sets_of(cluster) == 11
    # Once its last reader is gone, later members share a set again.
    cluster.apply(Deleted(Pod, "uid-other", 2))
    for member in numbered(5, first=10):
        cluster.apply(Upserted(member))
    assert sets_of(cluster) == 12


def test_a_placed_term_that_reads_the_index_repels_the_pods_that_it_is_about() -> None:
    cluster = cluster_with(*numbered(4))
    term = PodAffinityTerm(about(INDEX, "1")[0], "zone")
    cluster.apply(Upserted(pod("holder", node="n1", anti_affinity=(term,))))
    entries = cluster.pods.by_uid.values()
    repelled = {entry.pod.name for entry in entries if cluster.labelsets.repelling(entry.labelset)}
    assert repelled == {"p1"}


def test_budgets_are_found_by_the_labels_that_they_read() -> None:
    cluster = cluster_with(*numbered(4))
    cluster.apply(Upserted(budget("one", allowed=1, **{INDEX: "2"})))
    cluster.apply(Upserted(budget("all", allowed=1, job="j")))
    cluster.apply(Upserted(budget("others", allowed=1, namespace="other", job="j")))

    def found() -> dict[str, tuple[str, ...]]:
        return {entry.pod.name: cluster.budgets.of(entry.labelset) for entry in cluster.pods.by_uid.values()}

    assert found() == {
        "p0": ("budget-all",),
        "p1": ("budget-all",),
        "p2": ("budget-one", "budget-all"),
        "p3": ("budget-all",),
    }
    cluster.apply(Deleted(type(budget("all", allowed=1)), "budget-all", 2))
    assert found() == {"p0": (), "p1": (), "p2": ("budget-one",), "p3": ()}


labels = st.dictionaries(st.sampled_from(("app", "rev", "index")), st.sampled_from("xyz")).map(
    lambda found: tuple(sorted(found.items()))
)
selectors = st.builds(
    LabelSelector,
    st.lists(
        st.builds(
            Requirement,
            st.sampled_from(("app", "rev", "index")),
            st.sampled_from([Operator.IN, Operator.NOT_IN]),
            st.lists(st.sampled_from("xyz"), min_size=1, max_size=2, unique=True).map(tuple),
        )
        | st.builds(Requirement, st.sampled_from(("app", "index")), st.sampled_from([Operator.EXISTS])),
        max_size=2,
    ).map(tuple),
)
matchers = st.builds(
    PodMatcher,
    st.frozensets(st.sampled_from(strategies.NAMESPACES), max_size=2),
    st.none() | selectors,
    st.sampled_from([None, None, LabelSelector(), labelled(kind="batch")]),
)


def matches(matcher: PodMatcher, asked: Pod) -> bool:
    return matcher.matches(asked.namespace, dict(asked.labels), lambda name: strategies.NAMESPACE_LABELS[name])


@given(st.lists(matchers, max_size=12), st.lists(st.tuples(st.sampled_from(strategies.NAMESPACES), labels), max_size=8))
def test_the_index_finds_every_rule_that_matches_a_pod(
    rules: list[PodMatcher], asked: list[tuple[str, tuple[tuple[str, str], ...]]]
) -> None:
    index: MatcherIndex[int] = MatcherIndex()
    for number, matcher in enumerate(rules):
        index.add(matcher, number)
    for number in range(0, len(rules), 3):
        index.discard(rules[number], number)
    for namespace, own in asked:
        found = list(index.candidates(namespace, own))
        assert len(found) == len(set(found))
        one = pod(namespace=namespace, labels=own)
        right = {number for number, matcher in enumerate(rules) if number % 3 and matches(matcher, one)}
        assert right <= set(found)


# Built once: Hypothesis looks through every new strategy, which takes longer than to draw from it.
versions = st.integers(3, 20)
kinds = st.sampled_from(["pod", "pod", "pod", "gone", "ask"])
terms_of_a_pod = st.lists(st.builds(PodAffinityTerm, matchers, st.just("zone")), max_size=1)
numbers = st.integers(0, 5)
yes_or_no = st.booleans()


@given(st.data())
def test_counts_are_those_of_the_pods_whenever_a_rule_is_asked_for(data: st.DataObject) -> None:
    cluster = Cluster()
    cluster.apply(Upserted(node("n1")))
    known: dict[str, Pod] = {}
    asked: list[tuple[PodMatcher, ...]] = []
    for version in range(2, data.draw(versions)):
        kind = data.draw(kinds)
        if kind == "gone" and known:
            gone = known.pop(data.draw(st.sampled_from(sorted(known))))
            cluster.apply(Deleted(Pod, gone.uid, version))
        elif kind == "ask":
            asked.append((PodMatcher(frozenset({"team"}), data.draw(selectors)),))
        else:
            terms = data.draw(terms_of_a_pod)
            name = f"p{data.draw(numbers)}"
            more = {"spec": PodSpec(anti_affinity=tuple(terms)), "labels": data.draw(labels)}
            one = Pod(uid=name, namespace="team", name=name, version=version, **more)
            known[name] = (
                one
                if data.draw(yes_or_no)
                else Pod(uid=name, namespace="team", name=name, version=version, node="n1", **more)
            )
            cluster.apply(Upserted(known[name]))
        for rule in asked:
            there = [one for one in known.values() if one.node and matches(rule[0], one)]
            assert sum(cluster.labelsets.count(rule).pods.values()) == len(there)
        for entry in cluster.pods.by_uid.values():
            holders = [term for other in known.values() if other.node for term in other.spec.anti_affinity]
            about_it = {term for term in holders if matches(term.matcher, entry.pod)}
            # Namespaces are not known here, so their labels match nothing.
            found = {anti.term for anti in cluster.labelsets.repelling(entry.labelset)}
            assert found == {
                term
                for term in about_it
                if term.matcher.matches(entry.pod.namespace, dict(entry.pod.labels), lambda _name: {})
            }
