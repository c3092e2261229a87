# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where each node is in the tree: the names of its zone, rack, switch and so on, from labels or from a file.

The tree has one path for each node, one name for each level, from the outermost level to the innermost. The levels
`cluster`, above all others, and `node`, below them, are always there and are not listed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from placement.model.node_zones import NodeZones
from placement.model.objects.node import Node
from placement.state.nodes.node_columns import label_value

CLUSTER: Final = "cluster"
NODE: Final = "node"
_HOSTNAME: Final = "kubernetes.io/hostname"
# More levels than this are a mistake, and each costs a column.
MOST_LEVELS: Final = 16
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", re.ASCII)

_PIECES: Final = re.compile(r"([^0-9]*)([0-9]{0,18})")

# The name of the node's domain at each level; None where the node is in none.
Path = tuple[str | None, ...]


class TopologyError(ValueError):
    """A topology that cannot be read or that contradicts itself; the message names the file, line or object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The levels from the outermost to the innermost, and what says where a node is: its labels, or a table."""

    levels: tuple[str, ...] = ()
    # The label of each level; empty where a table says it.
    labels: tuple[str, ...] = ()
    # Paths by node name, read from a file, and the file.
    paths: Mapping[str, Path] | None = None
    source: str = "node labels"
    # The NUMA nodes of each node, by its name, if the file says them.
    numa_nodes: Mapping[str, NodeZones] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the levels."""
        check_levels(self.levels, self.source)
        if (self.labels or self.paths is None) and len(self.labels) != len(self.levels):
            raise TopologyError(f"{self.source}: {len(self.levels)} levels but {len(self.labels)} labels")

    def level_of(self, name: str) -> str | None:
        """Return the level that has this name or is made of this label of nodes; None if there is none."""
        if name in (CLUSTER, NODE) or name in self.levels:
            return name
        if name == _HOSTNAME:
            return NODE
        return next((level for level, label in zip(self.levels, self.labels, strict=False) if label == name), None)

    def depth(self, level: str) -> int:
        """Return how far below the cluster a level is."""
        if level == CLUSTER:
            return 0
        return len(self.levels) + 1 if level == NODE else self.levels.index(level) + 1

    def path(self, node: Node) -> Path:
        """Return the path of the node; below a level where the node has no domain it has none either."""
        if self.paths is not None:
            return self.paths.get(node.name) or (None,) * len(self.levels)
        found: list[str | None] = [label_value(node.labels, key) or None for key in self.labels]
        if None in found:
            gap = found.index(None)
            found[gap:] = [None] * (len(found) - gap)
        return tuple(found)

    def findings(self, nodes: Iterable[Node]) -> Iterator[list[str]]:
        """Yield for each node what does not agree, one sentence each: no place, and labels against the file."""
        domains: dict[tuple[str, str], tuple[str, str]] = {}
        values: dict[tuple[str, str], tuple[str, str]] = {}
        for node in sorted(nodes, key=lambda node: node.name):
            path, found = self.path(node), list[str]()
            missing = [level for level, name in zip(self.levels, path, strict=True) if name is None]
            if missing:
                found.append(f"node {node.name}: {self.source} does not say its {missing[0]}")
            for level, label, name in zip(self.levels, self.labels, path, strict=False):
                value = label_value(node.labels, label) if self.paths is not None and label else None
                if value is None or name is None:
                    continue
                first, other = domains.setdefault((level, name), (value, node.name))
                if first != value:
                    found.append(
                        f"node {node.name}: label {label}={value}, but {self.source} has it in {level} {name}"
                        f" with node {other}, whose label is {first}"
                    )
                known, another = values.setdefault((level, value), (name, node.name))
                if known != name:
                    found.append(
                        f"node {node.name}: label {label}={value} as on node {another}, but {self.source} has them"
                        f" in {level} {name} and {known}"
                    )
            yield found


def check_levels(levels: tuple[str, ...], source: str) -> None:
    """Refuse levels that are too many, named twice, malformed or reserved."""
    if len(levels) > MOST_LEVELS:
        raise TopologyError(f"{source}: {len(levels)} levels, at most {MOST_LEVELS} are possible")
    for position, level in enumerate(levels):
        if not _NAME.fullmatch(level):
            raise TopologyError(f"{source}: {level[:60]!a} is no name of a level")
        if level in (CLUSTER, NODE):
            raise TopologyError(f"{source}: the level {level} is always there and must not be listed")
        if level in levels[:position]:
            raise TopologyError(f"{source}: the level {level} is listed twice")


def check_name(name: str, where: str) -> str:
    """Return the name of a domain or node, or refuse it; `where` begins the message."""
    if not _NAME.fullmatch(name):
        raise TopologyError(f"{where}: {name[:60]!a} is no name of a node, rack or switch")
    return name


def natural_key(name: str) -> tuple[tuple[str, int, int], ...]:
    """Return a key by which n2 comes before n10, and equal numbers by their digits."""
    return tuple(
        (text, int(number or -1), len(number))
        for text, number in ((match[1], match[2]) for match in _PIECES.finditer(name))
    )


def filled(path: list[str | None]) -> Path:
    """Return the path without gaps: above its innermost domain a missing one takes the name of its neighbour."""
    depth = max((index + 1 for index, name in enumerate(path) if name is not None), default=0)
    for index in range(depth - 1, -1, -1):
        if path[index] is None:
            path[index] = path[index + 1]
    return tuple(path)
