# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of the tree: what is drawn, that text stays text, and that its size is bounded."""

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pytest
from placement.app.endpoints.page import COLOURS, MOST_CELLS, MOST_LINES, page
from placement.app.topology import TopologyView
from placement.graph.topology import Topology
from placement.graph.tree.source import GraphSource
from placement.graph.tree.tree import Graph
from placement.model.messages.event import Upserted
from placement.model.rules.selector import Effect, Taint
from placement.state.cluster import Cluster
from placement_kit.builders import amounts, node, pod

RACKS = Topology(levels=("zone", "rack"), labels=("zone", "rack"))
WHEN = "23 November 2026, 12:00:00 UTC"
LEASE = (("converged.hpc/lease", '{"wlm":"slurm","job":"7","run":"1"}'),)


class Page(HTMLParser):
    """The elements of a page with their classes and text; refuses a page whose elements are not nested well."""

    EMPTY = frozenset({"meta"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.boxes: dict[str, str] = {}
        self.lines: dict[str, list[str]] = {}
        self._open: list[str] = []
        self._title = ""
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in self.EMPTY:
            self._open.append(tag)
        found = dict(attrs)
        if str(found.get("title")).startswith("node "):
            self._title = str(found["title"])
            self.lines[self._title] = [str(found.get("class"))]
        elif self._title and found.get("class") in COLOURS:
            self.lines[self._title].append(f"{found['class']} {str(found['style']).removeprefix('width:')}")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def result(steps: Any) -> Any:
    """Go through all steps and return what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value


def drawn(cluster: Cluster, topology: Topology = RACKS) -> str:
    """Return the page as the command line writes it."""
    view = TopologyView(cluster, GraphSource(cluster.columns, topology))
    return "".join(page(result(view.picture("placement")), when=WHEN))


def cluster_with(*racks: str, labels: Mapping[str, str] | None = None, **more: Any) -> Cluster:
    """Return a cluster with a node of 4 cores in each of these racks, called n1, n2 and so on."""
    cluster = Cluster()
    for number, rack in enumerate(racks, start=1):
        found = tuple(sorted({"zone": "a", "rack": rack, **(labels or {})}.items()))
        cluster.apply(Upserted(node(f"n{number}", labels=found, **more)))
    return cluster


def test_every_level_and_node_is_drawn_with_its_use() -> None:
    cluster = cluster_with("r1", "r1", "r2")
    cluster.apply(Upserted(pod("p1", node="n1", scheduler_name="placement", request=amounts(cpu="3", memory="2Gi"))))
    text = drawn(cluster)
    assert re.findall(r"<h2>(.*?)<small>(.*?)</small>", text) == [
        ("cluster", "3 nodes"),
        ("zone a", "3 nodes"),
        ("rack r1", "2 nodes"),
        ("rack r2", "1 node"),
    ]
    assert re.findall(r"<span>(cpu .*?)</span>", text) == ["cpu 3/12", "cpu 3/12", "cpu 3/8", "cpu 0/4"]
    assert Page(text).lines == {
        "node n1, cpu 3/4, memory 2/8 GiB": ["n", "ours 75%", "ours 25%"],
        "node n2, cpu 0/4, memory 0/8 GiB": ["n"],
        "node n3, cpu 0/4, memory 0/8 GiB": ["n"],
    }


def test_the_sums_of_the_picture_are_those_of_the_graph() -> None:
    cluster = cluster_with("r1", "r1", "r2")
    for number, name in enumerate(("n1", "n1", "n3")):
        cluster.apply(Upserted(pod(f"p{number}", node=name)))
    graph = Graph(cluster.columns, RACKS)
    shown = re.findall(r"<span>cpu (\d+)/(\d+)</span>", drawn(cluster))
    uses = [use for level in ("cluster", "zone", "rack") for use in graph.use(level)]
    assert [(int(used), int(has)) for used, has in shown] == [
        ((use.capacity[0] - use.free[0]) // 1000, use.capacity[0] // 1000) for use in uses
    ]


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"scheduler_name": "placement"}, "ours"),
        ({}, "others"),
        ({"daemon": True}, "system"),
        ({"mirror": True, "namespace": "kube-system"}, "system"),
        ({"mirror": True, "namespace": "kube-system", "annotations": LEASE}, "batch"),
        # What a user writes on a pod makes no batch job of it.
        ({"annotations": LEASE}, "others"),
        ({"mirror": True, "annotations": LEASE}, "system"),
        ({"scheduler_name": "placement", "terminating": True}, "ours"),
    ],
)
def test_what_holds_room_has_a_colour(more, kind) -> None:
    cluster = cluster_with("r1")
    cluster.apply(Upserted(pod("p1", node="n1", request=amounts(cpu="1"), **more)))
    assert Page(drawn(cluster)).lines == {"node n1, cpu 1/4, memory 0/8 GiB": ["n", f"{kind} 25%"]}


def test_a_promise_and_a_pod_that_has_ended_hold_no_room() -> None:
    cluster = cluster_with("r1")
    cluster.apply(Upserted(pod("promised", nominated_node="n1")))
    cluster.apply(Upserted(pod("ended", node="n1", phase="Succeeded")))
    assert Page(drawn(cluster)).lines == {"node n1, cpu 0/4, memory 0/8 GiB": ["n"]}


def test_an_overfull_node_has_a_full_bar() -> None:
    cluster = cluster_with("r1")
    cluster.apply(Upserted(pod("p1", node="n1", request=amounts(cpu="6"))))
    cluster.apply(Upserted(pod("p2", node="n1", request=amounts(cpu="2"), daemon=True)))
    assert Page(drawn(cluster)).lines == {"node n1, cpu 8/4, memory 0/8 GiB": ["n", "others 75%", "system 25%"]}


@pytest.mark.parametrize(
    ("more", "look", "words"),
    [
        ({"unschedulable": True}, "cordoned", "cordoned"),
        ({"taints": (Taint("node.kubernetes.io/not-ready", "", Effect.NO_EXECUTE),)}, "lost", "not ready"),
        ({"taints": (Taint("node.kubernetes.io/unreachable", "", Effect.NO_EXECUTE),)}, "lost", "unreachable"),
        ({"taints": (Taint("example.com/repair", "", Effect.NO_SCHEDULE),)}, "cordoned", "taint example.com/repair"),
        ({"held_by": "slurm/42"}, "batch", "held by batch jobs"),
    ],
)
def test_a_node_that_is_closed_says_why(more, look, words) -> None:
    text = drawn(cluster_with("r1", **more))
    assert Page(text).lines == {f"node n1, cpu 0/4, memory 0/8 GiB, {words}": [f"n m-{look}"]}
    assert f"<q>{words}</q>" in text
    assert text.count(f'<i class="m-{look}"></i>') == 1


def test_a_lost_node_that_is_cordoned_looks_lost_and_says_both() -> None:
    taint = Taint("node.kubernetes.io/unreachable", "", Effect.NO_EXECUTE)
    text = drawn(cluster_with("r1", unschedulable=True, taints=(taint,)))
    assert Page(text).lines == {"node n1, cpu 0/4, memory 0/8 GiB, unreachable, cordoned": ["n m-lost"]}


def test_a_taint_that_is_only_a_preference_closes_nothing() -> None:
    taint = Taint("example.com/slow", "", Effect.PREFER_NO_SCHEDULE)
    assert "slow" not in drawn(cluster_with("r1", taints=(taint,)))


# Names have no slash, or else they would not be names of objects or values of labels.
EVIL = "\"><script>alert('x')<b onclick='x'>&amp;"


@pytest.mark.parametrize("nodes", [1, MOST_LINES + 1])
def test_names_that_look_like_html_stay_text(nodes) -> None:
    taint = Taint(EVIL, "", Effect.NO_SCHEDULE)
    cluster = Cluster()
    for number in range(nodes):
        more = (*amounts(cpu="4", pods="10"), (f"example.com/{EVIL}", 3))
        labels = (("rack", EVIL), ("zone", EVIL))
        cluster.apply(
            Upserted(node(f"{EVIL}{number}", labels=labels, taints=(taint,), allocatable=tuple(sorted(more))))
        )
    text = drawn(cluster)
    found = Page(text)
    assert "script" not in found.tags
    assert {name for name, _value in found.attributes} <= {
        *("lang", "charset", "name", "content", "http-equiv", "class", "style", "title")
    }
    assert len(found.lines) == nodes
    assert all(line.startswith(f"node {EVIL}") for line in found.lines)
    assert not any(EVIL in value for name, value in found.attributes if name != "title")


def test_the_page_needs_no_network_and_no_script() -> None:
    text = drawn(cluster_with("r1"))
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|url\(|@import|<script|<link|<img|javascript", text)


def test_nodes_without_a_place_stand_in_the_cluster() -> None:
    cluster = cluster_with("r1")
    cluster.apply(Upserted(node("lost")))
    text = drawn(cluster)
    assert list(Page(text).lines) == [f"node {name}, cpu 0/4, memory 0/8 GiB" for name in ("lost", "n1")]
    assert text.index("node lost") < text.index("zone a") < text.index("node n1")


@pytest.mark.parametrize("topology", [RACKS, Topology()])
def test_an_empty_cluster_is_drawn_too(topology) -> None:
    assert "<h2>cluster<small>0 nodes</small></h2>" in drawn(Cluster(), topology)
    Page(drawn(Cluster(), topology))


def test_a_page_of_two_thousand_nodes_has_a_cell_for_each_and_less_than_a_megabyte() -> None:
    cluster = cluster_with(*(f"r{number // 50}" for number in range(2000)))
    for number in range(1, 2001):
        request = amounts(cpu="1", memory=f"{number % 8}Gi")
        cluster.apply(Upserted(pod(f"p{number}", node=f"n{number}", request=request)))
        cluster.apply(Upserted(pod(f"d{number}", node=f"n{number}", request=amounts(cpu="1"), daemon=True)))
    text = drawn(cluster)
    found = Page(text)
    assert found.tags.count("u") == 2000
    assert len(text) < 1_000_000
    # The fullest resource of a node decides how full its cell is: half of the cores, or seven of eight GiB.
    assert "linear-gradient(to top,var(--others) 0% 25%,var(--system) 25% 50%,var(--free) 50%)" in text
    assert "linear-gradient(to top,var(--others) 0% 87.5%,var(--free) 87.5%)" in text


def test_a_page_of_very_many_nodes_has_only_sums() -> None:
    items = [{"depth": 0, "level": "cluster", "name": "cluster"}, {"depth": 1, "level": "rack", "name": "r1"}]
    one = {"depth": 2, "level": "node", "has": [4000], "held": {"ours": [1000]}, "marks": []}
    items += [{**one, "name": f"n{number}"} for number in range(MOST_CELLS + 1)]
    text = "".join(page({"resources": ["cpu"], "items": items}, when=WHEN))
    assert "<span>cpu 10001/40004</span>" in text
    assert len(text) < 20_000


def test_nodes_that_come_and_go_while_the_picture_is_taken_leave_a_whole_page() -> None:
    cluster = cluster_with(*("r1" for _number in range(600)))
    steps = TopologyView(cluster, GraphSource(cluster.columns, RACKS)).picture("placement")
    for number in range(3):
        next(steps)
        known = cluster.columns.nodes[599 - number]
        assert known is not None
        cluster.columns.remove_node(known)
        cluster.apply(Upserted(node(f"new{number}", allocatable=amounts(cpu="4", pods="10", gpu=str(number + 1)))))
    found = result(steps)
    assert {len(item["has"]) for item in found["items"] if item["level"] == "node"} == {len(found["resources"])}
    Page("".join(page(found, when=WHEN)))
