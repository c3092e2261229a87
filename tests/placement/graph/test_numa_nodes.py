# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NUMA nodes below nodes: shown, written, preferred and named, and never more than advice."""

import json
from typing import Any

import numpy as np
import pytest
from placement.graph.formats.jgf import read_jgf, write_jgf
from placement.graph.matching.match import choose
from placement.graph.request import Part, Request, Selection
from placement.graph.tree.numa_nodes import FITS, FITS_ALIGNED, FITS_NOT, MAX_LOOKS, REJECTS, UNKNOWN, NumaNodes
from placement.graph.tree.tree import Graph
from placement.graph.views.show import show
from placement.model.amounts.quantity import Amounts
from placement.model.messages.action import Bind
from placement.model.messages.event import Deleted, Upserted
from placement.model.node_zones import NodeZones, NumaNode
from placement.model.objects.node import Node
from placement.model.rules.topology import TopologyRequest
from placement.model.slicing import finish
from placement.state.cluster import Cluster
from placement_kit.builders import amounts, node
from placement_kit.drawn_graph import ZONES
from placement_kit.racks import Site
from placement_kit.simulated import Simulated

TWO: Amounts = amounts(cpu="2")
NUMA = TopologyRequest(required=("rack",), policy="numa", field="converged.hpc/required-topology")


def numa_nodes(name: str, *free: int, has: int = 2, resource: str = "cpu", **more: Any) -> NodeZones:
    """Return NUMA nodes with so many cores, of which these are not in use."""
    found = tuple(
        NumaNode(name=f"node-{index}", has=amounts(**{resource: str(has)}), free=amounts(**{resource: str(left)}))
        for index, left in enumerate(free)
    )
    return NodeZones(uid=f"numa-{name}", name=name, version=1, numa_nodes=found, **{"aligns": True, **more})


def graph_of(*known: NodeZones, number: int = 3) -> Graph:
    cluster = Cluster()
    for index in range(number):
        cluster.apply(Upserted(node(f"n{index}", labels=(("rack", "r0"), ("zone", "a")))))
    for item in known:
        cluster.apply(Upserted(item))
    return Graph(cluster.columns, ZONES, numa_nodes=lambda name: cluster.objects.find(NodeZones, name))


@pytest.mark.parametrize(
    ("known", "number", "rank"),
    [
        (numa_nodes("n0", 2, 2), 2, FITS_ALIGNED),
        (numa_nodes("n0", 1, 2), 1, FITS_ALIGNED),
        (numa_nodes("n0", 2, 2, aligns=False), 2, FITS),
        (numa_nodes("n0", 1, 1), 0, FITS_NOT),
        (numa_nodes("n0", 1, 1, rejects=True), 0, REJECTS),
        (numa_nodes("n0"), 0, UNKNOWN),
        # Nothing that the pod asks for is published.
        (numa_nodes("n0", 2, 2, resource="example.com/nic", rejects=True), 0, UNKNOWN),
        (numa_nodes("other", 2, 2), 0, UNKNOWN),
    ],
)
def test_a_node_is_as_good_as_its_numa_nodes_and_its_kubelet(known: NodeZones, number: int, rank: int) -> None:
    graph = graph_of(known)
    graph.sync()
    row = graph.columns.rows["n0"]
    # The number of pods is no resource of a NUMA node.
    numbers, ranks, _looks = graph.numa_nodes.rate((*TWO, ("pods", 1)), graph.order.rows[graph.order.rows == row])
    assert (numbers.tolist(), ranks.tolist()) == ([number], [rank])


def chosen(graph: Graph, count: int, request: Amounts = TWO) -> dict[str, int]:
    found = choose(graph, Request(parts=(Part(count=count, request=request),), policy="numa"), [None])
    assert isinstance(found, Selection), str(found)
    rows, numbers = found.parts[0]
    names = [getattr(graph.columns.nodes[row], "name", "") for row in rows.tolist()]
    return dict(zip(names, numbers.tolist(), strict=True))


def test_nodes_where_pods_fit_into_one_numa_node_come_first() -> None:
    graph = graph_of(numa_nodes("n0", 1, 1), numa_nodes("n1", 2, 2), numa_nodes("n2", 2, 1))
    assert chosen(graph, 1) == {"n1": 1}
    assert chosen(graph, 3) == {"n1": 2, "n2": 1}
    # It is a preference: three more fit, though on no NUMA node.
    assert sum(chosen(graph, 6).values()) == 6
    assert chosen(graph_of(), 1) == {"n0": 1}


def test_no_more_pods_are_packed_onto_a_node_than_fit_without_being_divided() -> None:
    # Of 4 cores, in NUMA nodes of 3 and 1, two pods of 2 cores would fit, one of them on both.
    graph = graph_of(numa_nodes("n0", 3, 1), numa_nodes("n1", 3, 1))
    assert chosen(graph, 2) == {"n0": 1, "n1": 1}


def test_a_node_that_publishes_nothing_of_what_a_pod_asks_for_comes_before_one_without_room() -> None:
    known = (numa_nodes("n0", 0, 0, rejects=True), numa_nodes("n1", 2, 2, resource="example.com/nic", rejects=True))
    assert chosen(graph_of(*known, number=2), 1) == {"n1": 1}


def test_how_well_nodes_fit_is_found_once_for_equal_requests_until_an_object_changes() -> None:
    known = {name: numa_nodes(name, 2, 2) for name in ("n0", "n1", "n2")}
    graph = graph_of()
    graph.numa_nodes = NumaNodes(graph.columns, known.get)
    rows = np.arange(3)
    assert graph.numa_nodes.rate(TWO, rows)[2] == MAX_LOOKS - 9
    assert graph.numa_nodes.rate(TWO, rows)[2] == MAX_LOOKS - 3
    known["n1"] = numa_nodes("n1", 0, 1)
    numbers, _ranks, looks = graph.numa_nodes.rate(TWO, rows)
    assert (numbers.tolist(), looks) == ([2, 0, 2], MAX_LOOKS - 5)


def test_answers_about_nodes_that_have_gone_are_not_kept_for_ever() -> None:
    cluster = Cluster()
    found = NumaNodes(cluster.columns, lambda name: numa_nodes(name, 2, 2))
    most = 0
    for index in range(400):
        there = node(f"n{index}")
        cluster.apply(Upserted(there))
        found.rate(TWO, np.array([cluster.columns.rows[there.name]]))
        most = max(most, len(found))
        cluster.apply(Deleted(Node, there.uid, index + 2))
    assert 1 < most < 100
    # Where all nodes stay, nothing is found twice.
    for index in range(200):
        cluster.apply(Upserted(node(f"m{index}")))
    rows = np.array([cluster.columns.rows[f"m{index}"] for index in range(200)])
    found = NumaNodes(cluster.columns, {name: numa_nodes(name, 2, 2) for name in cluster.columns.rows}.get)
    assert [found.rate(TWO, rows)[2] for _time in range(3)] == [MAX_LOOKS - 600, MAX_LOOKS - 200, MAX_LOOKS - 200]


@pytest.mark.parametrize(("rest", "fits"), [("2", True), ("4", False)])
def test_one_choice_looks_at_a_bounded_number_of_numa_nodes(rest: str, *, fits: bool) -> None:
    # Three pods of six cores fit in every rack, and leave two cores on each node.
    racks = [(f"r{rack}n{index}", f"r{rack}") for rack in range(200) for index in range(3)]
    cluster, looked = Cluster(), [0]
    for name, rack in racks:
        room = amounts(cpu="8", memory="64Gi", pods="110")
        cluster.apply(Upserted(node(name, labels=(("rack", rack), ("zone", "a")), allocatable=room)))

    def lookup(name: str) -> NodeZones:
        found = numa_nodes(name, *[2] * 7)
        looked[0] += 1 + len(found.numa_nodes)
        return found

    graph = Graph(cluster.columns, ZONES, numa_nodes=lookup)
    parts = (
        Part(name="large", count=3, request=amounts(cpu="6")),
        Part(name="rest", count=1, request=amounts(cpu=rest)),
    )
    request = Request(parts=parts, policy="numa", within=("rack",), required=True)
    assert isinstance(choose(graph, request, [None, None]), Selection) is fits
    assert 0 < looked[0] <= MAX_LOOKS + 8


def test_a_choice_that_finds_no_room_looks_at_no_numa_node() -> None:
    looked: list[str] = []
    graph = graph_of()
    graph.numa_nodes = NumaNodes(graph.columns, lookup=looked.append)
    parts = (Part(count=4, request=amounts(cpu="3")),)
    assert not isinstance(choose(graph, Request(parts=parts, policy="numa"), [None]), Selection)
    assert looked == []


def test_pods_of_one_gang_are_told_their_numa_nodes_where_the_kubelet_aligns() -> None:
    site = Site(2)
    site.see(numa_nodes("r0n0", 2, 2), numa_nodes("r0n1", 2, 2, aligns=False))
    site.ask("g", 3, NUMA, cores=2)
    site.run()
    told = sorted(action.selection for action in site.actions if isinstance(action, Bind))
    assert told == ["a/r0", "a/r0/r0n0/node-0", "a/r0/r0n0/node-1"]
    assert site.drift() == []


def test_news_of_numa_nodes_are_no_news_for_what_waits() -> None:
    site = Site(1)
    site.ask("g", 2, NUMA)
    site.run()
    before = (site.scheduler.cache.versions.room, site.scheduler.cluster.columns.generation)
    site.see(numa_nodes("r0n0", 2, 2))
    site.run()
    assert (site.scheduler.cache.versions.room, site.scheduler.cluster.columns.generation) == before


def test_numa_nodes_have_a_line_below_their_node() -> None:
    lines = list(show(graph_of(numa_nodes("n1", 0, 2)), nodes=True))
    at = next(index for index, line in enumerate(lines) if "node n1" in line)
    assert [line.strip() for line in lines[at + 1 : at + 3]] == ["numa node-0  cpu 2/2", "numa node-1  cpu 0/2"]
    assert lines[at + 1].index("numa") > lines[at].index("node n1")


@pytest.mark.parametrize("pools", [True, False])
def test_numa_nodes_are_vertices_of_the_jgf_and_add_up_to_their_node(*, pools: bool) -> None:
    graph = graph_of(numa_nodes("n1", 0, 1, has=1))
    text = "".join(write_jgf(graph, pools=pools))
    vertices = {item["id"]: item["metadata"] for item in json.loads(text)["graph"]["nodes"]}
    above = {edge["target"]: vertices[edge["source"]] for edge in json.loads(text)["graph"]["edges"]}
    inside = [
        (above[name]["name"], item["size"])
        for name, item in vertices.items()
        if item["type"] == "core" and above[name]["type"] == "numanode"
    ]
    assert inside == [("node-0", 1), ("node-1", 1)]
    again = read_jgf(text, "written")
    assert dict(again.amounts["n1"])["cpu"] == 4000
    assert {
        name: [numa_node.name for numa_node in known.numa_nodes] for name, known in again.topology.numa_nodes.items()
    } == {"n1": ["node-0", "node-1"]}


def test_a_file_says_what_numa_nodes_have_and_not_what_is_in_use() -> None:
    above = ["cluster", "node", "socket", "numanode", "core", "socket", "core", "gpu"]
    parents = [None, 0, 1, 2, 3, 1, 5, 1]
    vertices = [
        {"id": str(index), "metadata": {"type": kind, "name": "n0" if kind == "node" else f"{kind}{index}", "size": 2}}
        for index, kind in enumerate(above)
    ]
    edges = [{"source": str(at), "target": str(index)} for index, at in enumerate(parents) if at is not None]
    described = read_jgf(json.dumps({"graph": {"nodes": vertices, "edges": edges}}), "site.json")
    known = described.topology.numa_nodes["n0"]
    # A socket that is divided into NUMA nodes has nothing of its own.
    assert sorted((numa_node.name, numa_node.has) for numa_node in known.numa_nodes) == [
        ("numanode3", TWO),
        ("socket5", TWO),
    ]
    assert (known.aligns, known.counted) == (False, False)
    site = Simulated(topology=described.topology)
    site.see(node("n0"))
    lines = list(show(finish(site.scheduler.graph.obtain()), nodes=True))
    shown = sorted(line.strip() for line in lines if "numa" in line)
    assert shown == ["numa numanode3  cpu ?/2", "numa socket5  cpu ?/2"]
