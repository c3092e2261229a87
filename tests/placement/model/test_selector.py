# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selectors, taints and tolerations: the corners that kube-scheduler has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from placement.model.objects.pod import HostPort
from placement.model.rules.affinity import PodMatcher
from placement.model.rules.selector import (
    Effect,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    Toleration,
    is_label_key,
    is_label_value,
    parse_int64,
    untolerated,
)

LABELS = {"zone": "a", "cores": "64", "empty": "", "word": "many"}


def need(key: str, operator: str, *values: str) -> Requirement:
    return Requirement(key, Operator(operator), values)


REQUIREMENTS = [
    (need("zone", "In", "a", "b"), True),
    (need("zone", "In", "b"), False),
    (need("none", "In", "a"), False),
    (need("empty", "In", ""), True),
    (need("none", "In", ""), False),
    (need("zone", "NotIn", "b"), True),
    (need("zone", "NotIn", "a"), False),
    # A missing label is not in any set.
    (need("none", "NotIn", "a"), True),
    (need("empty", "Exists"), True),
    (need("none", "Exists"), False),
    (need("zone", "DoesNotExist"), False),
    (need("none", "DoesNotExist"), True),
    (need("cores", "Gt", "63"), True),
    (need("cores", "Gt", "64"), False),
    (need("cores", "Lt", "65"), True),
    (need("cores", "Lt", "64"), False),
    (need("word", "Gt", "1"), False),
    (need("none", "Lt", "1"), False),
    (need("empty", "Lt", "1"), False),
]


@pytest.mark.parametrize(("requirement", "matches"), REQUIREMENTS)
def test_a_requirement_matches_as_the_api_says(requirement: Requirement, matches: bool) -> None:
    assert requirement.error() is None
    assert requirement.matches(LABELS) is matches
    assert NodeSelectorTerm((requirement,)).matches("n1", LABELS) is matches


@pytest.mark.parametrize(
    "requirement",
    [
        need("zone", "In"),
        need("zone", "NotIn"),
        need("zone", "Exists", "a"),
        need("none", "DoesNotExist", "a"),
        need("cores", "Gt"),
        need("cores", "Gt", "1", "2"),
        need("cores", "Lt", "x"),
        # An integer, but not a label value: the API machinery refuses it.
        need("cores", "Gt", "-1"),
        need("", "DoesNotExist"),
        need("-zone", "DoesNotExist"),
        need("Zone.example/x", "DoesNotExist"),
        need("zone", "NotIn", "a b"),
        need("zone", "NotIn", "x" * 64),
    ],
)
def test_an_invalid_requirement_has_an_error_and_its_term_matches_no_node(requirement: Requirement) -> None:
    assert requirement.error()
    assert not NodeSelectorTerm((requirement, need("zone", "Exists"))).matches("n1", LABELS)
    # The other terms still count.
    terms = (NodeSelectorTerm((requirement,)), NodeSelectorTerm((need("zone", "Exists"),)))
    assert NodeSelector(terms=terms).matches("n1", LABELS)


@pytest.mark.parametrize(
    ("field", "matches"),
    [
        (need("metadata.name", "In", "n1"), True),
        (need("metadata.name", "In", "n2"), False),
        (need("metadata.name", "NotIn", "n2"), True),
        (need("metadata.name", "NotIn", "n1"), False),
        # An unknown field is empty.
        (need("metadata.uid", "In", "n1"), False),
        (need("metadata.uid", "NotIn", "n1"), True),
        (need("metadata.name", "In", "n1", "n2"), False),
        (need("metadata.name", "Exists"), False),
        (need("metadata.name", "Gt", "1"), False),
    ],
)
def test_match_fields_know_the_name_with_exactly_one_value(field: Requirement, matches: bool) -> None:
    assert NodeSelectorTerm((), (field,)).matches("n1", LABELS) is matches


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (NodeSelector(), True),
        (NodeSelector((("zone", "a"),)), True),
        (NodeSelector((("zone", "a"), ("cores", "1"))), False),
        (NodeSelector((("none", ""),)), False),
        (NodeSelector(terms=()), False),
        (NodeSelector(terms=(NodeSelectorTerm(),)), False),
        (NodeSelector(terms=(NodeSelectorTerm(), NodeSelectorTerm((need("zone", "In", "a"),)))), True),
        (NodeSelector((("zone", "b"),), (NodeSelectorTerm((need("zone", "In", "a"),)),)), False),
    ],
)
def test_node_selector_and_affinity_must_both_hold_and_terms_are_alternatives(
    selector: NodeSelector, matches: bool
) -> None:
    assert selector.matches("n1", LABELS) is matches


def test_an_empty_label_selector_matches_everything_and_requirements_are_all_needed() -> None:
    assert LabelSelector().matches({})
    both = LabelSelector((need("zone", "In", "a"), need("cores", "Exists")))
    assert both.matches(LABELS)
    assert not both.matches({"zone": "a"})
    assert both.keys() == {"zone", "cores"}


TAINT = Taint("dedicated", "batch", Effect.NO_SCHEDULE)


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration(key="dedicated", operator="Equal", value="batch", effect="NoSchedule"), True),
        (Toleration(key="dedicated", value="batch"), True),
        (Toleration(key="dedicated", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(key="dedicated", operator="Exists", effect="NoSchedule"), True),
        (Toleration(key="dedicated", value="web"), False),
        (Toleration(key="other", operator="Exists"), False),
        # Without key and operator only the value counts.
        (Toleration(value="batch"), True),
        (Toleration(), False),
        # Behind a gate that is off by default.
        (Toleration(key="dedicated", operator="Gt", value="1"), False),
        (Toleration(key="dedicated", operator="Sometimes", value="batch"), False),
    ],
)
def test_a_toleration_covers_a_taint_as_the_api_says(toleration: Toleration, covers: bool) -> None:
    assert toleration.tolerates(TAINT) is covers
    assert (untolerated([TAINT], [toleration]) is None) is covers


def test_each_taint_needs_a_toleration_and_soft_taints_keep_nobody_off() -> None:
    soft = Taint("slow", "", Effect.PREFER_NO_SCHEDULE)
    drain = Taint("drain", "", Effect.NO_EXECUTE)
    tolerates_batch = Toleration(key="dedicated", operator="Exists")
    assert untolerated([soft, TAINT], [tolerates_batch]) is None
    assert untolerated([soft, TAINT, drain], [tolerates_batch]) == drain
    assert untolerated([soft], [], (Effect.PREFER_NO_SCHEDULE,)) == soft


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        ("+5", 5),
        ("-5", -5),
        ("007", 7),
        (" 5", None),
        ("5_0", None),
        ("\u0665", None),
        ("", None),
        ("1.0", None),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        (str(-(2**63)), -(2**63)),
        ("0" * 65, None),
    ],
)
def test_integers_are_read_as_go_reads_them(text: str, number: int | None) -> None:
    assert parse_int64(text) == number


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("a", True),
        ("a.b/c_d-E", True),
        ("x" * 63, True),
        ("x" * 64, False),
        ("/a", False),
        ("a/", False),
        ("a/b/c", False),
        ("A.b/c", False),
        ("a..b/c", False),
        ("", False),
        ("a b", False),
        ("a\n", False),
    ],
)
def test_label_keys_have_an_optional_dns_prefix(key: str, valid: bool) -> None:
    assert is_label_key(key) is valid


def test_a_label_value_may_be_empty_and_has_at_most_63_characters() -> None:
    assert is_label_value("")
    assert is_label_value("x" * 63)
    assert not is_label_value("x" * 64)
    assert not is_label_value("-x")


EVERYTHING = LabelSelector()
TEAM_NAMESPACES = {"train": {"team": "ml"}, "web": {}}


@pytest.mark.parametrize(
    ("matcher", "namespaces"),
    [
        (PodMatcher(frozenset({"web"}), EVERYTHING), {"web"}),
        (PodMatcher(frozenset({"web"}), None), set()),
        (PodMatcher(frozenset(), EVERYTHING, LabelSelector((need("team", "In", "ml"),))), {"train"}),
        (PodMatcher(frozenset({"web"}), EVERYTHING, LabelSelector((need("team", "Exists"),))), {"train", "web"}),
        # An empty namespace selector means all, also those nobody has told us about.
        (PodMatcher(frozenset(), EVERYTHING, EVERYTHING), {"train", "web", "new"}),
    ],
)
def test_a_pod_term_covers_its_namespaces(matcher: PodMatcher, namespaces: set[str]) -> None:
    covered = {
        name for name in ("train", "web", "new") if matcher.matches(name, {}, lambda n: TEAM_NAMESPACES.get(n, {}))
    }
    assert covered == namespaces


@pytest.mark.parametrize(
    ("left", "right", "clash"),
    [
        (("10.0.0.1", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), False),
        (("0.0.0.0", "TCP", 80), ("10.0.0.2", "TCP", 80), True),
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "UDP", 80), False),
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 81), False),
    ],
)
def test_host_ports_clash_on_one_address_or_on_all(
    left: tuple[str, str, int], right: tuple[str, str, int], clash: bool
) -> None:
    assert HostPort(*left).clashes(HostPort(*right)) is clash
    assert HostPort(*right).clashes(HostPort(*left)) is clash


labels_drawn = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "1", "2", "x"]))
requirements_drawn = st.builds(
    Requirement,
    st.sampled_from("abc"),
    st.sampled_from(list(Operator)),
    st.lists(st.sampled_from(["", "1", "2", "x"]), max_size=2).map(tuple),
)


@given(labels_drawn, requirements_drawn)
def test_a_negated_requirement_matches_exactly_what_it_denies(labels: dict[str, str], requirement: Requirement) -> None:
    opposite = {Operator.IN: Operator.NOT_IN, Operator.EXISTS: Operator.DOES_NOT_EXIST}
    if requirement.operator in opposite:
        denied = Requirement(requirement.key, opposite[requirement.operator], requirement.values)
        assert denied.matches(labels) is not requirement.matches(labels)
