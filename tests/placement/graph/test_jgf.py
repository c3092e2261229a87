# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fluxion's graph format: what is read, what is refused, and the way there and back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from placement.graph.formats.jgf import read_jgf, write_jgf
from placement.graph.topology import TopologyError
from placement.graph.tree.tree import Graph
from placement.model.messages.event import Upserted
from placement.state.cluster import Cluster

GIB = 2**30


def vertex(number: int, kind: str, name: str = "", **more: Any) -> dict[str, Any]:
    return {"id": str(number), "metadata": {"type": kind, "name": name or f"{kind}{number}", **more}}


def edge(source: int, target: int, **metadata: Any) -> dict[str, Any]:
    return {"source": str(source), "target": str(target), "metadata": metadata or {"subsystem": "containment"}}


def text(vertices: list[dict[str, Any]], edges: list[tuple[int, int]]) -> str:
    return json.dumps({"graph": {"nodes": vertices, "edges": [edge(*ends) for ends in edges]}})


TINY = [
    vertex(0, "cluster"),
    vertex(1, "rack", "rack0"),
    vertex(2, "node", "node0"),
    vertex(3, "socket"),
    vertex(4, "core"),
    vertex(5, "core"),
    vertex(6, "gpu"),
    vertex(7, "memory", size=4, unit="GB"),
    vertex(8, "ssd", size=1024, unit="GiB"),
]
TINY_EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (3, 5), (3, 6), (2, 7), (1, 8)]


def test_levels_are_above_nodes_and_resources_below() -> None:
    found = read_jgf(text(TINY, TINY_EDGES), "tiny.json")
    assert found.topology.levels == ("rack",)
    assert found.topology.paths == {"node0": ("rack0",)}
    assert dict(found.amounts["node0"]) == {"cpu": 2000, "memory": 4 * 10**9, "nvidia.com/gpu": 1, "pods": 110}


def test_the_graph_of_a_resource_set_is_read_too() -> None:
    wrapped = json.dumps({"version": 1, "scheduling": json.loads(text(TINY, TINY_EDGES))})
    assert read_jgf(wrapped, "R").topology.paths == {"node0": ("rack0",)}


def test_edges_of_older_writers_are_read_and_those_back_are_skipped() -> None:
    edges = [edge(a, b, name={"containment": "contains"}) for a, b in TINY_EDGES]
    edges += [edge(b, a, name={"containment": "in"}) for a, b in TINY_EDGES]
    edges += [edge(8, 2, subsystem="storage")]
    found = read_jgf(json.dumps({"graph": {"nodes": TINY, "edges": edges}}), "old.json")
    assert found.topology.paths == {"node0": ("rack0",)}


RACKS = [vertex(0, "cluster"), vertex(1, "rack", "r1"), vertex(2, "rack", "r2"), vertex(3, "node", "n1")]


@pytest.mark.parametrize(
    ("vertices", "edges", "message"),
    [
        (RACKS, [(0, 1), (0, 2), (1, 3), (2, 3)], r"n1 \(id 3\) is in both r1 \(id 1\) and r2 \(id 2\)"),
        (RACKS, [(0, 1), (1, 3)], r"disconnected: nothing contains cluster0 \(id 0\) nor r2 \(id 2\)"),
        (RACKS, [(0, 1), (2, 3), (3, 2)], "contains itself, by a cycle"),
        (RACKS, [(0, 1), (0, 2), (2, 9)], "edge 2: there is no vertex '9'"),
        ([*RACKS, vertex(3, "node", "n2")], [(0, 1)], "two vertices have the id '3'"),
        (
            [*RACKS, vertex(4, "node", "n1")],
            [(0, 1), (0, 2), (1, 3), (2, 4)],
            r"node n1 is there twice, in r1 \(id 1\) and in r2 \(id 2\)",
        ),
        (
            [*RACKS[:3], vertex(3, "node", "n1"), vertex(4, "rack", "r1"), vertex(5, "node", "n2")],
            [(0, 1), (0, 2), (1, 3), (0, 4), (4, 5)],
            "two vertices are r1",
        ),
        (
            [*RACKS, vertex(4, "node", "n2")],
            [(0, 1), (1, 2), (2, 3), (0, 4)],
            "level rack is not below rack",
        ),
        ([vertex(0, "cluster"), vertex(1, "node", "a b")], [(0, 1)], "'a b' is no name"),
        (
            [vertex(0, "cluster"), vertex(1, "node", "a"), vertex(2, "memory", size=1, unit="parsec")],
            [(0, 1), (1, 2)],
            "unit 'parsec' of memory is unknown",
        ),
        (
            [vertex(0, "cluster"), vertex(1, "node", "a"), vertex(2, "core", size=2**50)],
            [(0, 1), (1, 2)],
            "more cpu than can be calculated with",
        ),
        ([vertex(0, "cluster"), vertex(1, "node", "a"), vertex(2, "core", size=-1)], [(0, 1), (1, 2)], "size -1"),
    ],
)
def test_a_graph_that_is_no_tree_is_refused_with_its_vertices(
    vertices: list[dict[str, Any]], edges: list[tuple[int, int]], message: str
) -> None:
    with pytest.raises(TopologyError, match=f"^bad.json: .*{message}"):
        read_jgf(text(vertices, edges), "bad.json")


def test_a_level_that_the_settings_do_not_know_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"rack0 \(id 1\): level rack is unknown, the levels are \['zone'\]"):
        read_jgf(text(TINY, TINY_EDGES), "tiny.json", ("zone",))


def test_levels_against_their_order_are_refused() -> None:
    vertices = [vertex(0, "cluster"), vertex(1, "rack"), vertex(2, "zone"), vertex(3, "node")]
    with pytest.raises(TopologyError, match="level zone is not below rack"):
        read_jgf(text(vertices, [(0, 1), (1, 2), (2, 3)]), "x.json", ("zone", "rack"))


@pytest.mark.parametrize(
    "broken", ["", "{", "[]", "{}", '{"graph":{"nodes":[{"id":1}]}}', '{"graph":{"nodes":[]}}', b"\xff"]
)
def test_a_text_that_is_no_graph_is_refused_with_its_name(broken: str | bytes) -> None:
    with pytest.raises(TopologyError, match=r"^x\.json: "):
        read_jgf(broken, "x.json")


names = st.sampled_from(["a", "b", "c"])


@given(
    st.dictionaries(st.sampled_from([f"n{index}" for index in range(12)]), st.tuples(names, names), min_size=1),
    st.booleans(),
)
def test_what_is_written_is_read_again_the_same(places: dict[str, tuple[str, str]], pools: bool) -> None:
    vertices, edges = [vertex(0, "cluster")], []
    known: dict[tuple[str, ...], int] = {(): 0}
    for name, path in places.items():
        for depth, kind in enumerate(("zone", "rack", "node"), start=1):
            where = (*path, name)[:depth]
            if where not in known:
                known[where] = len(vertices)
                vertices.append(vertex(known[where], kind, where[-1]))
                edges.append((known[where[:-1]], known[where]))
        for kind, size, unit in (("core", 4, ""), ("gpu", 2, ""), ("memory", 8, "GiB")):
            edges.append((known[where], len(vertices)))
            vertices.append(vertex(len(vertices), kind, size=size, unit=unit))
    first = read_jgf(text(vertices, edges), "a.json")
    cluster = Cluster()
    for node in first.nodes():
        cluster.apply(Upserted(node))
    again = read_jgf("".join(write_jgf(Graph(cluster.columns, first.topology), pools=pools)), "b.json")
    assert again.topology.levels == first.topology.levels == ("zone", "rack")
    assert again.topology.paths == first.topology.paths
    assert again.amounts == first.amounts


def test_a_numa_node_without_a_proper_name_is_refused() -> None:
    vertices = [vertex(0, "cluster"), vertex(1, "node"), vertex(2, "numanode", "\x1b[2J"), vertex(3, "core")]
    with pytest.raises(TopologyError, match="is no name"):
        read_jgf(text(vertices, [(0, 1), (1, 2), (2, 3)]), "site.json")
