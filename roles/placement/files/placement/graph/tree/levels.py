# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The levels of the tree as columns: for each level the domain of each row, as a number.

A domain is a name within the domain above it: rack r1 of zone a is another domain than rack r1 of zone b. Numbers of
domains that have lost their last node are used again, so labels with ever-new values take no memory.
"""

from bisect import bisect_left, insort

import numpy as np
from numpy.typing import NDArray

from placement.graph.topology import Path, Topology, natural_key
from placement.model.objects.node import Node

Rows = NDArray[np.intp]
# What sorts nodes as the tree does: by the name at each level, then by the name of the node; without a domain last.
_Key = tuple[tuple[object, ...], ...]
_LAST: tuple[object, ...] = (1,)


class Level:
    """One level: numbers of domains by row, -1 where a row is in none."""

    __slots__ = ("_free", "ids", "members", "name", "names", "of_row", "parents")

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.of_row = np.full(capacity, -1, np.int32)
        # Numbers by the number of the domain above, which is 0 at the outermost level, and the name.
        self.ids: dict[tuple[int, str], int] = {}
        # The name of each domain, the domain above it, and how many nodes it has.
        self.names: list[str] = []
        self.parents: list[int] = []
        self.members: list[int] = []
        self._free: list[int] = []

    def enter(self, parent: int, name: str) -> int:
        """Count a node into a domain and return the domain's number."""
        number = self.ids.get((parent, name))
        if number is None:
            if self._free:
                number = self._free.pop()
                self.names[number], self.parents[number] = name, parent
            else:
                number = len(self.names)
                self.names.append(name)
                self.parents.append(parent)
                self.members.append(0)
            self.ids[parent, name] = number
        self.members[number] += 1
        return number

    def leave(self, number: int) -> None:
        """Count a node out of a domain; without a node the domain is forgotten."""
        self.members[number] -= 1
        if not self.members[number]:
            del self.ids[self.parents[number], self.names[number]]
            self._free.append(number)


class TreeOrder:
    """The rows of all nodes in the order of the tree, in which every domain is one run, and these runs."""

    __slots__ = ("_starts", "position", "rows")

    def __init__(self, rows: Rows, levels: list[Level], capacity: int) -> None:
        self.rows = rows
        self.position = np.full(capacity, -1, np.intp)
        self.position[rows] = np.arange(len(rows))
        self._starts: dict[str, tuple[Rows, Rows, Rows]] = {}
        for level in levels:
            domains = level.of_row[rows]
            starts = np.flatnonzero(np.concatenate(([True], domains[1:] != domains[:-1]))) if len(rows) else rows
            ends = np.append(starts[1:], len(rows)) if len(rows) else rows
            inside = domains[starts] >= 0
            self._starts[level.name] = (starts[inside], ends[inside], domains[starts[inside]].astype(np.intp))

    def runs(self, level: str) -> tuple[Rows, Rows, Rows]:
        """Return where the domains of a level begin and end in the order, and their numbers."""
        return self._starts[level]


class Levels:
    """All levels, and the order of the tree."""

    def __init__(self, topology: Topology, capacity: int) -> None:
        self.topology = topology
        self.levels = [Level(name, capacity) for name in topology.levels]
        self._nodes: dict[int, Node] = {}
        self._paths: dict[int, Path] = {}
        self._keys: dict[int, _Key] = {}
        self._sorted: list[tuple[_Key, int]] = []
        self._order: TreeOrder | None = None
        self._capacity = capacity

    def __getitem__(self, name: str) -> Level:
        return self.levels[self.topology.levels.index(name)]

    def numbers(self, row: int) -> list[int]:
        """Return the number of the row's domain at each level."""
        return [int(level.of_row[row]) for level in self.levels]

    def set(self, row: int, node: Node | None) -> bool:
        """Put the row where its node belongs, nowhere without a node; return whether it has moved."""
        known = self._nodes.get(row)
        if node is not None and known is not None and (node.name, node.labels) == (known.name, known.labels):
            return False
        path = self.topology.path(node) if node is not None else None
        key = None if node is None or path is None else _key(path, node.name)
        if node is None:
            self._nodes.pop(row, None)
        else:
            self._nodes[row] = node
        old = self._keys.get(row)
        if key == old:
            return False
        if old is not None:
            del self._sorted[bisect_left(self._sorted, (old, row))]
            del self._keys[row], self._paths[row]
            for level in self.levels:
                if level.of_row[row] >= 0:
                    level.leave(int(level.of_row[row]))
                level.of_row[row] = -1
        if key is not None and path is not None:
            insort(self._sorted, (key, row))
            self._keys[row], self._paths[row] = key, path
            parent = 0
            for level, name in zip(self.levels, path, strict=True):
                if name is None:
                    break
                parent = level.enter(parent, name)
                level.of_row[row] = parent
        self._order = None
        return True

    def resize(self, capacity: int) -> None:
        """Make room for more rows."""
        for level in self.levels:
            level.of_row = np.pad(level.of_row, (0, capacity - self._capacity), constant_values=-1)
        self._capacity = capacity
        self._order = None

    def path(self, row: int) -> Path | None:
        """Return the names of the row's domains; None where the row is no node's."""
        return self._paths.get(row)

    @property
    def order(self) -> TreeOrder:
        """Return the order of the tree as things stand; made again only after a node came, went or moved."""
        if self._order is None:
            rows = np.fromiter((row for _key, row in self._sorted), np.intp, len(self._sorted))
            self._order = TreeOrder(rows, self.levels, self._capacity)
        return self._order

    def domain_name(self, level: str, number: int) -> str:
        """Return the name of a domain with those of the domains above it, as `zone-a/rack-7`."""
        index = self.topology.levels.index(level)
        names: list[str] = []
        for each in reversed(self.levels[: index + 1]):
            names.append(each.names[number])
            number = each.parents[number]
        return "/".join(reversed(names))


def _key(path: Path, name: str) -> _Key:
    return (*(_LAST if part is None else (0, natural_key(part), part) for part in path), (0, natural_key(name), name))
