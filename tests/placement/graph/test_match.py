# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a gang may ask of the graph, and where it then goes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from placement.graph.matching.match import choose
from placement.graph.policies.register import POLICIES
from placement.graph.request import NoMatch, Part, Request, RequestError, Selection
from placement.graph.topology import TopologyError
from placement.model.messages.event import Upserted
from placement.shared.victims import NODE_CRITICAL
from placement_kit.builders import amounts, pod
from placement_kit.drawn_graph import CORE, Drawn


def gang(count: int, **more: object) -> Request:
    """A gang of one-core pods; wishes of its part are passed through."""
    in_part = {key: more.pop(key) for key in list(more) if key in ("most", "per_node", "nodes", "even")}
    return Request(parts=(Part(count=count, request=CORE, **in_part),), **more)  # type: ignore[arg-type]


def test_a_gang_goes_into_one_rack() -> None:
    drawn = Drawn({"a/r1": [1, 1, 1], "a/r2": [4, 2]})
    found = choose(drawn.graph, gang(5, within=("rack",), required=True), [None])
    assert drawn.names(found) == {"r2n1": 4, "r2n2": 1}
    assert isinstance(found, Selection)
    assert (found.level, found.domain) == ("rack", "a/r2")


def test_the_best_level_that_fits_is_taken() -> None:
    drawn = Drawn({"a/r1": [3], "a/r2": [2], "b/r3": [4]})
    levels = ("rack", "zone")
    chosen = [choose(drawn.graph, gang(count, within=levels), [None]) for count in (4, 5, 9)]
    assert [(found.level, found.domain) for found in chosen if isinstance(found, Selection)] == [
        ("rack", "b/r3"),
        ("zone", "a"),
        ("cluster", "cluster"),
    ]


def test_a_required_level_without_room_is_named_with_its_best_domain() -> None:
    drawn = Drawn({"a/r1": [3], "a/r2": [2, 3]})
    found = choose(drawn.graph, gang(6, within=("rack",), required=True), [None])
    assert found == NoMatch(("rack: at most 5 of 6 pods fit, in a/r2",))


def test_a_preferred_level_without_room_means_few_domains() -> None:
    drawn = Drawn({"a/r1": [1], "a/r2": [4, 4], "a/r3": [2], "a/r4": [4]})
    # Two racks are needed; beside the largest one the smallest that holds the rest is enough.
    assert drawn.names(choose(drawn.graph, gang(10, within=("rack",)), [None])) == {"r2n1": 4, "r2n2": 4, "r3n1": 2}


def test_only_feasible_nodes_are_chosen() -> None:
    drawn = Drawn({"a/r1": [4, 4], "a/r2": [4]})
    feasible = np.ones(drawn.cluster.columns.capacity, np.bool_)
    feasible[drawn.cluster.columns.rows["r1n1"]] = False
    assert drawn.names(choose(drawn.graph, gang(5, within=("zone",)), [feasible])) == {"r1n2": 4, "r2n1": 1}


def test_exclusive_nodes_have_no_other_pod() -> None:
    drawn = Drawn({"a/r1": [3, 4], "a/r2": [4, 4]})
    found = choose(drawn.graph, gang(5, within=("rack",), exclusive=True), [None])
    assert drawn.names(found) == {"r2n1": 4, "r2n2": 1}
    assert isinstance(found, Selection)
    assert found.exclusive


PLACEHOLDER: dict[str, Any] = {
    "mirror": True,
    "namespace": "kube-system",
    "annotations": (("converged.hpc/lease", '{"wlm": "pbs", "job": "1.srv", "run": 1}'),),
}


@pytest.mark.parametrize("own", [{"daemon": True}, {"mirror": True}, {"priority": NODE_CRITICAL}])
@pytest.mark.parametrize("other", [{}, PLACEHOLDER, {**PLACEHOLDER, "priority": NODE_CRITICAL}])
def test_exclusive_nodes_may_have_pods_of_the_node_itself_and_no_batch_job(
    own: dict[str, Any], other: dict[str, Any]
) -> None:
    drawn = Drawn({"a/r1": [4, 4]})
    for name in ("r1n1", "r1n2"):
        drawn.cluster.apply(Upserted(pod(f"proxy-{name}", node=name, **own)))
    drawn.cluster.apply(Upserted(pod("other", node="r1n2", **other)))
    assert drawn.names(choose(drawn.graph, gang(3, exclusive=True), [None])) == {"r1n1": 3}


@pytest.mark.parametrize(
    ("wish", "numbers"),
    [
        ({}, {"r1n1": 4, "r1n2": 3}),
        ({"most": 2}, {"r1n1": 2, "r1n2": 2, "r1n3": 2, "r1n4": 1}),
        ({"per_node": 2}, {"r1n1": 2, "r1n2": 2, "r1n3": 2, "r1n4": 1}),
        ({"per_node": 3}, {"r1n1": 3, "r1n2": 3, "r1n3": 1}),
        ({"nodes": 3}, {"r1n1": 3, "r1n2": 2, "r1n3": 2}),
        ({"nodes": 4}, {"r1n1": 2, "r1n2": 2, "r1n3": 2, "r1n4": 1}),
        ({"even": True}, {"r1n1": 2, "r1n2": 2, "r1n3": 2, "r1n4": 1}),
    ],
)
def test_pods_are_divided_among_nodes_as_asked(wish: dict[str, object], numbers: dict[str, int]) -> None:
    drawn = Drawn({"a/r1": [4, 3, 2, 1]})
    assert drawn.names(choose(drawn.graph, gang(7, **wish), [None])) == numbers


def test_of_a_fixed_number_of_nodes_only_one_with_the_room_gets_a_pod_more() -> None:
    drawn = Drawn({"a/r1": [2, 3]})
    assert drawn.names(choose(drawn.graph, gang(5, nodes=2), [None])) == {"r1n1": 2, "r1n2": 3}


def test_an_even_spread_makes_the_fullest_node_as_empty_as_possible() -> None:
    drawn = Drawn({"a/r1": [4, 4, 1]})
    assert drawn.names(choose(drawn.graph, gang(6, even=True), [None])) == {"r1n1": 3, "r1n2": 2, "r1n3": 1}


@pytest.mark.parametrize("wish", [{"per_node": 4}, {"nodes": 2}, {"most": 1}])
def test_pods_that_fit_by_number_only_are_refused(wish: dict[str, object]) -> None:
    drawn = Drawn({"a/r1": [3, 3, 3]})
    found = choose(drawn.graph, gang(8, within=("rack",), required=True, **wish), [None])
    assert isinstance(found, NoMatch)


def test_parts_share_one_rack_and_do_not_take_the_same_room() -> None:
    drawn = Drawn({"a/r1": [4, 4], "a/r2": [4, 4, 4]})
    driver = Part(name="driver", count=1, request=amounts(cpu="3"))
    workers = Part(name="workers", count=4, request=amounts(cpu="2"))
    found = choose(drawn.graph, Request(parts=(driver, workers), within=("rack",), required=True), [None, None])
    assert drawn.names(found, 0) == {"r2n3": 1}
    assert drawn.names(found, 1) == {"r2n1": 2, "r2n2": 2}


def test_a_part_goes_to_no_node_that_its_rules_refuse_although_another_part_is_there() -> None:
    drawn = Drawn({"a/r1": [4, 4]})
    driver = Part(name="driver", count=1, request=amounts(cpu="3"))
    worker = Part(name="worker", count=1, request=CORE)
    feasible = np.ones(drawn.cluster.columns.capacity, np.bool_)
    feasible[drawn.cluster.columns.rows["r1n1"]] = False
    found = choose(drawn.graph, Request(parts=(driver, worker)), [None, feasible])
    assert [drawn.names(found, part) for part in (0, 1)] == [{"r1n1": 1}, {"r1n2": 1}]


def test_a_part_that_must_be_in_one_rack_is_not_divided_among_several() -> None:
    drawn = Drawn({"a/r1": [2], "a/r2": [2]})
    ranks = Part(name="ranks", count=3, request=CORE, within=("rack",), required=True)
    assert isinstance(choose(drawn.graph, Request(parts=(ranks,)), [None]), NoMatch)


def test_a_part_has_a_level_of_its_own() -> None:
    drawn = Drawn({"a/r1": [1], "a/r2": [4, 4], "b/r3": [4, 4]})
    launcher = Part(name="launcher", count=1, request=CORE)
    ranks = Part(name="ranks", count=8, request=CORE, within=("rack",), required=True)
    found = choose(drawn.graph, Request(parts=(launcher, ranks), within=("zone",), required=True), [None, None])
    assert isinstance(found, Selection)
    assert found.domain == "a"
    assert drawn.names(found, 0) == {"r1n1": 1}
    assert drawn.names(found, 1) == {"r2n1": 4, "r2n2": 4}


def test_all_within_one_node_is_a_level_too() -> None:
    drawn = Drawn({"a/r1": [2, 3], "a/r2": [4]})
    assert drawn.names(choose(drawn.graph, gang(4, within=("node",), required=True), [None])) == {"r2n1": 4}


def test_a_gang_larger_than_the_cluster_is_refused_by_the_sums() -> None:
    drawn = Drawn({"a/r1": [4, 4]})
    found = choose(drawn.graph, gang(9), [None])
    assert found == NoMatch(("cluster: cpu: 9 wanted, 8 there",))
    part = Part(count=1, request=amounts(gpu="1"))
    assert choose(drawn.graph, Request(parts=(part,)), [None]) == NoMatch(("pods: no node has example.com/gpu",))


def test_an_unknown_level_or_policy_is_refused_with_those_that_there_are() -> None:
    drawn = Drawn({"a/r1": [4]})
    with pytest.raises(TopologyError, match="level 'row' is unknown, the levels are cluster, zone, rack, node"):
        choose(drawn.graph, gang(1, within=("row",)), [None])
    with pytest.raises(RequestError, match="match policy 'best' is unknown, the policies are first, firstnodex"):
        choose(drawn.graph, gang(1, policy="best"), [None])


@pytest.mark.parametrize(
    "wish",
    [{"count": 0}, {"per_node": 2, "nodes": 2}, {"nodes": 9}, {"most": 1, "per_node": 2}, {"per_node": -1}],
)
def test_a_request_that_contradicts_itself_is_refused(wish: dict[str, int]) -> None:
    with pytest.raises(RequestError):
        Part(**{"count": 4, "request": CORE, **wish})  # type: ignore[arg-type]


free = st.dictionaries(
    st.sampled_from(["a/r1", "a/r2", "b/r3", "b/r4"]), st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=1
)
parts = st.builds(
    lambda count, cores, wish, most: Part(
        count=count, request=amounts(cpu=str(cores)), **wish(count), most=0 if "per_node" in wish(count) else most
    ),
    st.integers(1, 12),
    st.integers(1, 3),
    st.sampled_from(
        [
            lambda count: {},
            lambda count: {"per_node": 2},
            lambda count: {"nodes": min(count, 2)},
            lambda count: {"even": True},
            lambda count: {"within": ("rack",), "required": True},
        ]
    ),
    st.sampled_from([0, 0, 2]),
)


@given(free, st.lists(parts, min_size=1, max_size=3), st.sampled_from(sorted(POLICIES)), st.data())
def test_whatever_is_chosen_is_allowed(
    free: dict[str, list[int]], parts: list[Part], policy: str, data: st.DataObject
) -> None:
    drawn = Drawn(free)
    columns = drawn.cluster.columns
    feasible = [np.array(data.draw(st.lists(st.booleans(), min_size=64, max_size=64))) for _part in parts]
    request = Request(parts=tuple(parts), within=("rack", "zone"), required=data.draw(st.booleans()), policy=policy)
    found = choose(drawn.graph, request, feasible)
    if isinstance(found, NoMatch):
        assert found.reasons
        return
    used = np.zeros_like(columns.unpromised)
    for part, share, mask in zip(parts, found.parts, feasible, strict=True):
        assert int(share.numbers.sum()) == part.count
        assert (share.numbers > 0).all()
        assert mask[share.rows].all()
        assert not part.most or (share.numbers <= part.most).all()
        assert not part.nodes or len(share.rows) == part.nodes
        if part.per_node:
            assert sorted(share.numbers.tolist())[1:] == [2] * (len(share.rows) - 1)
        if part.required:
            assert len({drawn.name(row)[:2] for row in share.rows.tolist()}) == 1
        used[:, share.rows] += share.numbers * columns.axis.request(part.request).dense[:, None]
    assert (used <= columns.unpromised).all()
    paths = {drawn.graph.levels.path(row) for row in found.rows}
    if found.level == "rack":
        assert len(paths) == 1
    if found.level == "zone":
        assert len({path[0] for path in paths if path is not None}) == 1
    if found.exclusive:
        assert all(columns.free[0, row] == columns.allocatable[0, row] for row in found.rows)


@given(free, st.integers(1, 20), st.sampled_from(sorted(set(POLICIES) - {"firstnodex", "lonodex", "hinodex"})))
def test_a_rack_is_found_exactly_where_one_has_the_room(free: dict[str, list[int]], count: int, policy: str) -> None:
    found = choose(Drawn(free).graph, gang(count, within=("rack",), required=True, policy=policy), [None])
    assert isinstance(found, Selection) == any(sum(cores) >= count for cores in free.values())


@given(free, st.integers(1, 20))
def test_the_choice_depends_on_names_and_not_on_rows(free: dict[str, list[int]], count: int) -> None:
    forth, back = Drawn(free), Drawn(dict(reversed(free.items())))
    request = gang(count, within=("rack", "zone"), policy="locality")
    first, second = choose(forth.graph, request, [None]), choose(back.graph, request, [None])
    if isinstance(first, NoMatch):
        assert isinstance(second, NoMatch)
    else:
        assert forth.names(first) == back.names(second)


def test_thousands_of_gangs_that_fit_nowhere_take_no_memory_and_no_room() -> None:
    drawn = Drawn({"a/r1": [4, 4]})
    before = drawn.graph.columns.changes
    for count in range(100, 2100):
        assert isinstance(choose(drawn.graph, gang(count), [None]), NoMatch)
    assert drawn.graph.columns.changes == before
    assert len(drawn.graph.fits) <= 128
    assert drawn.names(choose(drawn.graph, gang(2), [None])) == {"r1n1": 2}
