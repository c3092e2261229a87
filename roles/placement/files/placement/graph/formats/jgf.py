# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON Graph Format as Fluxion writes it: a tree of vertices by containment, read and written.

A vertex of type `node` is a node. What is above it are levels, what is below it are resources, which are added up: the
graph keeps no vertex. Fluxion's own attribute `rank` counts nodes in the order of the tree.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np

from placement.graph.topology import CLUSTER, NODE, Path, Topology, TopologyError, check_name, filled
from placement.graph.tree.device_sites import DeviceSite, match_devices, resources
from placement.graph.tree.tree import Graph
from placement.model.amounts.quantity import CPU, MAX_AMOUNT, MEMORY, PODS, Amounts
from placement.model.node_zones import NodeZones, NumaNode
from placement.model.objects.node import Node
from placement.state.nodes.node_columns import UNSCHEDULABLE
from placement.state.nodes.node_filters import CLOSED

_LONGEST: Final = 1 << 30
_SUBSYSTEM: Final = "containment"
# Edges that some writers add from a child back to what it is in.
_BACK: Final = "in"
# Types of vertices between a node and its cores that are kept.
_ZONES: Final = frozenset({"numanode", "socket"})
_PODS: Final = 110
_UNITS: Final = {
    "": 2**30,
    "B": 1,
    **{
        f"{letter}{end}": base**power
        for power, letter in enumerate("KMGT", 1)
        for end, base in (("iB", 1024), ("B", 1000))
    },
}


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    type: str
    name: str = ""
    basename: str = ""
    id: int = 0
    size: int = 1
    unit: str = ""


class _Vertex(msgspec.Struct, frozen=True, gc=False):
    id: str | int
    metadata: _Metadata


class _Relation(msgspec.Struct, frozen=True, gc=False):
    subsystem: str = _SUBSYSTEM
    name: dict[str, str] = {}


class _Edge(msgspec.Struct, frozen=True, gc=False):
    source: str | int
    target: str | int
    metadata: _Relation = _Relation()


class _Graph(msgspec.Struct, frozen=True, gc=False):
    nodes: list[_Vertex]
    edges: list[_Edge] = []


class _Wrapped(msgspec.Struct, frozen=True, gc=False):
    graph: _Graph


class _File(msgspec.Struct, frozen=True, gc=False):
    """The graph by itself, or within a resource set of Flux."""

    graph: _Graph | None = None
    scheduling: _Wrapped | None = None


class Description(NamedTuple):
    """What a JGF file says: the tree, and what each node has."""

    topology: Topology
    amounts: dict[str, Amounts]

    def nodes(self) -> list[Node]:
        """Return Nodes of these names and amounts, for use without an API."""
        return [
            Node(uid=f"jgf-{name}", name=name, version=1, allocatable=amounts) for name, amounts in self.amounts.items()
        ]


def read_jgf(
    text: str | bytes,
    source: str,
    levels: tuple[str, ...] | None = None,
    labels: tuple[str, ...] = (),
    *,
    gpu: str = "nvidia.com/gpu",
) -> Description:
    """Return what the text describes; `gpu` is the resource that a vertex of type `gpu` counts for.

    The levels are called as the types of their vertices; by default all that are found are taken. TopologyError names
    the source, and the vertex or place in it.
    """
    if len(text) > _LONGEST:
        raise TopologyError(f"{source}: {len(text)} characters, at most {_LONGEST} are read")
    try:
        read = msgspec.json.decode(text, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TopologyError(f"{source}: {error}") from None
    found = read.graph or (read.scheduling.graph if read.scheduling else None)
    if found is None or not found.nodes:
        raise TopologyError(f"{source}: no graph with nodes in it")
    tree = _Tree(found, source)
    return _described(tree, levels, labels, gpu)


class _Tree:
    """Vertices with their parents, each after its parent."""

    def __init__(self, graph: _Graph, source: str) -> None:
        self.source = source
        self.vertices = graph.nodes
        index: dict[str, int] = {}
        for place, vertex in enumerate(self.vertices):
            if index.setdefault(str(vertex.id), place) != place:
                raise TopologyError(f"{source}: two vertices have the id {str(vertex.id)[:60]!a}")
        self.parents = [-1] * len(self.vertices)
        children: dict[int, list[int]] = {}
        for place, edge in enumerate(graph.edges):
            relation = edge.metadata
            if relation.subsystem != _SUBSYSTEM or relation.name.get(_SUBSYSTEM) == _BACK:
                continue
            ends = [index.get(str(end), -1) for end in (edge.source, edge.target)]
            if -1 in ends:
                missing = str((edge.source, edge.target)[ends.index(-1)])
                raise TopologyError(f"{source}: edge {place}: there is no vertex {missing[:60]!a}")
            above, below = ends
            if self.parents[below] not in (-1, above):
                both = f"{self.shown(self.parents[below])} and {self.shown(above)}"
                raise TopologyError(f"{source}: {self.shown(below)} is in both {both}")
            if self.parents[below] != above:
                self.parents[below] = above
                children.setdefault(above, []).append(below)
        roots = [place for place, parent in enumerate(self.parents) if parent < 0]
        if len(roots) > 1:
            first, second = (self.shown(root) for root in roots[:2])
            raise TopologyError(f"{source}: the graph is disconnected: nothing contains {first} nor {second}")
        self.order = roots
        for place in self.order:
            self.order += children.get(place, ())
        if len(self.order) < len(self.vertices):
            reached = set(self.order)
            lost = next(place for place in range(len(self.vertices)) if place not in reached)
            raise TopologyError(f"{source}: {self.shown(lost)} contains itself, by a cycle of edges")

    def name(self, place: int) -> str:
        """Return the name of a vertex."""
        metadata = self.vertices[place].metadata
        return metadata.name or f"{metadata.basename or metadata.type}{metadata.id}"

    def shown(self, place: int) -> str:
        """Return a vertex as messages name it."""
        vertex = self.vertices[place]
        return f"{ascii(self.name(place)[:60])[1:-1]} (id {ascii(str(vertex.id)[:60])[1:-1]})"


def _described(tree: _Tree, levels: tuple[str, ...] | None, labels: tuple[str, ...], gpu: str) -> Description:
    source = tree.source
    branches: dict[str, list[int]] = {}
    containers: dict[int, list[int]] = {tree.order[0]: []}
    owner: dict[int, str] = {}
    totals: dict[str, dict[str, int]] = {}
    # The innermost NUMA node or socket that a vertex is in, and what these have.
    inside: dict[int, int] = {}
    of_numa_nodes: dict[int, dict[str, int]] = {}
    for place in tree.order[1:]:
        parent, metadata = tree.parents[place], tree.vertices[place].metadata
        if parent in owner:
            owner[place] = owner[parent]
            _add(totals[owner[place]], metadata, gpu, tree, place)
            if metadata.type in _ZONES:
                inside[place], of_numa_nodes[place] = place, {}
            elif parent in inside:
                inside[place] = inside[parent]
                _add(of_numa_nodes[inside[place]], metadata, gpu, tree, place)
        elif metadata.type == NODE:
            name = check_name(tree.name(place), source)
            if name in branches:
                raise TopologyError(
                    f"{source}: node {name} is there twice, {_where(tree, branches[name], containers[parent])}"
                )
            branches[name], totals[name], owner[place] = containers[parent], {PODS: _PODS}, name
        else:
            # Vertices that hold no node, such as a disk of a rack, end here without being a level.
            containers[place] = [*containers[parent], place]
    if levels is None:
        levels = _levels(tree, branches)
    paths: dict[str, Path] = {}
    known: dict[tuple[str | None, ...], int] = {}
    for name, branch in branches.items():
        path: list[str | None] = [None] * len(levels)
        last = -1
        for place in branch:
            kind = tree.vertices[place].metadata.type
            if kind not in levels:
                raise TopologyError(
                    f"{source}: {tree.shown(place)}: level {kind} is unknown, the levels are {list(levels)}"
                )
            if levels.index(kind) <= last:
                raise TopologyError(f"{source}: {tree.shown(place)}: level {kind} is not below {levels[last]}")
            last = levels.index(kind)
            path[last] = check_name(tree.name(place), source)
            if known.setdefault((kind, *path[: last + 1]), place) != place:
                raise TopologyError(f"{source}: two vertices are {'/'.join(filter(None, path))}")
        paths[name] = filled(path)
    numa_nodes = _numa_nodes_of(tree, owner, of_numa_nodes, source)
    topology = Topology(levels=levels, labels=labels, paths=paths, source=source, numa_nodes=numa_nodes)
    amounts = {name: tuple(sorted(found.items())) for name, found in totals.items()}
    return Description(topology, amounts)


def _numa_nodes_of(
    tree: _Tree, owner: dict[int, str], held: dict[int, dict[str, int]], source: str
) -> dict[str, NodeZones]:
    """Return the NUMA nodes, or sockets, that have something of their own, by the name of their node."""
    found: dict[str, list[NumaNode]] = {}
    for place, has in held.items():
        if has:
            amounts = tuple(sorted(has.items()))
            name = check_name(tree.name(place), source)
            found.setdefault(owner[place], []).append(NumaNode(name=name, has=amounts, free=amounts))
    return {
        name: NodeZones(uid=f"jgf-{name}", name=name, version=0, numa_nodes=tuple(there), counted=False)
        for name, there in found.items()
    }


def _where(tree: _Tree, *branches: list[int]) -> str:
    return " and ".join(f"in {tree.shown(branch[-1])}" if branch else f"in the {CLUSTER}" for branch in branches)


def _levels(tree: _Tree, branches: dict[str, list[int]]) -> tuple[str, ...]:
    """Return the types above nodes; the longest branch says their order, and the others must agree."""
    longest = max(branches.values(), key=len, default=[])
    return tuple(tree.vertices[place].metadata.type for place in longest)


def _add(found: dict[str, int], metadata: _Metadata, gpu: str, tree: _Tree, place: int) -> None:
    if not 0 <= metadata.size <= MAX_AMOUNT:
        raise TopologyError(f"{tree.source}: {tree.shown(place)}: size {metadata.size} is out of range")
    if metadata.type == "core":
        found[CPU] = found.get(CPU, 0) + 1000 * metadata.size
    elif metadata.type == "gpu":
        found[gpu] = found.get(gpu, 0) + metadata.size
    elif metadata.type == "memory":
        if metadata.unit not in _UNITS:
            raise TopologyError(f"{tree.source}: {tree.shown(place)}: unit {metadata.unit[:20]!a} of memory is unknown")
        found[MEMORY] = found.get(MEMORY, 0) + metadata.size * _UNITS[metadata.unit]
    for name, amount in found.items():
        if amount > MAX_AMOUNT:
            raise TopologyError(
                f"{tree.source}: {tree.shown(place)}: its node has more {name} than can be calculated with"
            )


def write_jgf(graph: Graph, *, name: str = CLUSTER, gpu: str = "nvidia.com/gpu", pools: bool = True) -> Iterator[str]:
    """Yield the pieces of a JGF text of all nodes and of what they have.

    Equal cores or GPUs are one vertex of that size; without `pools` each is a vertex of its own. Nodes that are closed
    to pods have the status 1 (down). Events may be applied between two pieces: a node that has gone then is left out.
    """
    graph.sync()
    edges: list[tuple[int, int]] = []
    numbers: dict[str, int] = {}
    yield '{"graph":{"directed":true,"nodes":['
    yield _vertex(numbers, 0, CLUSTER, name, f"/{name}", first=True)
    count = 1
    above: list[tuple[str | None, int, str]] = []
    columns = graph.columns
    closed = UNSCHEDULABLE | int(np.bitwise_or.reduce(list(CLOSED)))
    for rank, row in enumerate(graph.order.rows.tolist()):
        node, path = columns.nodes[row], graph.levels.path(row)
        if node is None or path is None:
            # It has gone since the last piece was taken.
            continue
        shared = 0
        while shared < len(above) and shared < len(path) and above[shared][0] == path[shared]:
            shared += 1
        del above[shared:]
        parent, where = above[-1][1:] if above else (0, f"/{name}")
        for level, domain in zip(graph.topology.levels[shared:], path[shared:], strict=True):
            if domain is None:
                break
            where = f"{where}/{domain}"
            yield _vertex(numbers, count, level, domain, where)
            edges.append((parent, count))
            parent, count = count, count + 1
            above.append((domain, parent, where))
        where = f"{where}/{node.name}"
        yield _vertex(numbers, count, NODE, node.name, where, rank=rank, status=bool(int(columns.flags[row]) & closed))
        edges.append((parent, count))
        parent, count = count, count + 1
        known = graph.numa_nodes.of(row)
        numa_nodes = known.numa_nodes if known is not None else ()
        found = match_devices(known, graph.devices.of(node.name))
        beside = resources(found, _rest(node.allocatable, numa_nodes), gpu)
        first = count
        for inner in _inside(found, beside, where, gpu, pools=pools):
            yield _vertex(numbers, count, *inner[1:-1], rank=rank, properties=inner.properties)
            edges.append((parent if inner.above is None else first + inner.above, count))
            count += 1
    yield '],"edges":['
    for place, (source, target) in enumerate(edges):
        edge = {"source": str(source), "target": str(target), "metadata": {"subsystem": _SUBSYSTEM}}
        yield ("," if place else "") + msgspec.json.encode(edge).decode()
    yield "]}}\n"


class _Inner(NamedTuple):
    """A vertex below a node; `above` is the place of its NUMA node among them, None for the node itself."""

    above: int | None
    kind: str
    name: str
    path: str
    number: int
    size: int = 1
    unit: str = ""
    properties: Mapping[str, str] = {}


def _inside(found: list[DeviceSite], beside: list[Amounts], where: str, gpu: str, *, pools: bool) -> Iterator[_Inner]:
    """Yield NUMA nodes with their devices, and what each of these and the node has beside them."""
    begun: dict[str, int] = {}
    count = serial = 0
    holders: list[int | None] = []
    for number, place in enumerate(found):
        path = f"{where}/{place.name}" if place.name else where
        holders.append(count if place.name else None)
        if place.name:
            yield _Inner(None, "numanode", place.name, path, number)
            count += 1
        for held in place.held:
            kind = held.device.kind
            begun[kind] = begun.get(kind, -1) + 1
            # Names are unique in a pool, and a node may have several; paths must be unique in the file. No name of a
            # NUMA node has a colon.
            label = f"{held.device.name}:{serial}"
            more = held.properties()
            yield _Inner(holders[-1], kind, label, f"{path}/{label}", begun[kind], properties=more)
            count, serial = count + 1, serial + 1
    for holder, place, amounts in zip(holders, found, beside, strict=True):
        path = f"{where}/{place.name}" if place.name else where
        for kind, size, unit in _resources(amounts, gpu):
            single = pools or kind == "memory"
            for _each in range(1 if single else size):
                number = begun[kind] = begun.get(kind, -1) + 1
                label = f"{kind}{number}"
                yield _Inner(holder, kind, label, f"{path}/{label}", number, size if single else 1, unit)


def _rest(amounts: Amounts, numa_nodes: tuple[NumaNode, ...]) -> Amounts:
    """Return what a node has beside its NUMA nodes: all of it where it has none."""
    inside: dict[str, int] = {}
    for numa_node in numa_nodes:
        for name, amount in numa_node.has:
            inside[name] = inside.get(name, 0) + amount
    return tuple((name, max(0, amount - inside.get(name, 0))) for name, amount in amounts)


def _resources(amounts: Amounts, gpu: str) -> Iterator[tuple[str, int, str]]:
    """Yield what Fluxion has a type for; a part of a core is none."""
    for name, amount in amounts:
        if name == CPU and amount >= 1000:
            yield "core", amount // 1000, ""
        elif name == gpu and amount:
            yield "gpu", amount, ""
        elif name == MEMORY and amount:
            yield "memory", amount, "B"


def _vertex(
    numbers: dict[str, int],
    place: int,
    kind: str,
    name: str,
    path: str,
    number: int | None = None,
    size: int = 1,
    unit: str = "",
    *,
    rank: int = -1,
    status: bool = False,
    first: bool = False,
    properties: Mapping[str, str] | None = None,
) -> str:
    if number is None:
        number = numbers[kind] = numbers.get(kind, -1) + 1
    metadata = {
        "type": kind,
        "basename": name.rstrip("0123456789") or kind,
        "name": name,
        "id": number,
        "uniq_id": place,
        "rank": rank,
        "exclusive": False,
        "unit": unit,
        "size": size,
        "properties": properties or {},
        "paths": {_SUBSYSTEM: path},
        "status": int(status),
    }
    text = msgspec.json.encode({"id": str(place), "metadata": metadata}).decode()
    return text if first else f",{text}"
