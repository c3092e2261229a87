# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The graph: levels, sums by domain and fit counts over the columns of the state, in step with their feeds of changes.

Nothing here is told of pods, jobs or nodes. The state notes each row that it changes in one of two rings, and the graph
reads from them what has changed since it was last asked. Whatever holds room in the state holds room here.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement.graph.topology import CLUSTER, NODE, Topology, TopologyError
from placement.graph.tree.fits import FitTable
from placement.graph.tree.levels import Levels, TreeOrder
from placement.graph.tree.numa_nodes import Lookup, NumaNodes
from placement.model.slicing import Steps
from placement.state.device_table import DeviceTable
from placement.state.nodes.node_columns import NodeColumns

Int64s = NDArray[np.int64]
Rows = NDArray[np.intp]
_PERF_CLASS_OF_NONE: Final = 9999
# So many rows are added one by one.
_ONE_BY_ONE: Final = 3
_NO_ROWS: Final = np.zeros(0, np.intp)


class Use(NamedTuple):
    """What a domain has and what of it is not charged, by the order of the resource axis; and its nodes."""

    level: str
    domain: str
    nodes: int
    capacity: tuple[int, ...]
    free: tuple[int, ...]


class Drift(NamedTuple):
    """Something that the graph had wrong."""

    where: str
    what: str
    held: str
    true: str


class Graph:
    """One graph over the columns of one cluster."""

    def __init__(
        self,
        columns: NodeColumns,
        topology: Topology,
        *,
        class_label: str = "",
        numa_nodes: Lookup = lambda _name: None,
        devices: DeviceTable | None = None,
        at_once: bool = True,
    ) -> None:
        """Make the graph of all nodes; without `at_once` it has none before `load` has been gone through."""
        self.columns = columns
        self.topology = topology
        self.fits = FitTable(columns)
        self.numa_nodes = NumaNodes(columns, numa_nodes)
        self.devices = DeviceTable() if devices is None else devices
        self._class_label = class_label
        # What each row adds to its domains, and the sums by level and domain: see `_contribution`.
        self.seen: Int64s
        self.sums: dict[str, Int64s]
        self.levels = Levels(topology, columns.capacity)
        self._facts, self._touched = columns.facts.count, columns.touched.count
        self._add_up()
        if at_once:
            self._rebuild()

    def load(self, at_once: int = 256) -> Steps[None]:
        """Put all nodes into the tree, so many between two yields; events may be applied there."""
        for start in range(0, len(self.columns.nodes), at_once):
            self.sync()
            for row in range(start, min(start + at_once, len(self.columns.nodes))):
                self._move(row)
            yield

    def _rebuild(self) -> None:
        """Make everything from the columns as they are."""
        columns = self.columns
        self._facts, self._touched = columns.facts.count, columns.touched.count
        self.levels = Levels(self.topology, columns.capacity)
        for row, node in enumerate(columns.nodes):
            if node is not None:
                self.levels.set(row, node)
        self._add_up()

    def _add_up(self) -> None:
        self.seen = _contribution(self.columns)
        self.sums = {level.name: self._added_up(level.name) for level in self.levels.levels}

    def _added_up(self, level: str) -> Int64s:
        """Add up what the rows of each domain contribute. The last place is for rows in no domain; nothing reads it."""
        sums = np.zeros((len(self.seen), len(self.levels[level].names) + 1), np.int64)
        order = self.levels.order
        starts, _ends, numbers = order.runs(level)
        if len(starts):
            # A run between two domains, of rows without one, must not be added to the domain before it.
            bounds = np.stack((starts, _ends), axis=1).ravel()
            contributions = np.pad(self.seen[:, order.rows], ((0, 0), (0, 1)))
            sums[:, numbers] = np.add.reduceat(contributions, bounds, axis=1)[:, ::2]
        return sums

    def sync(self) -> None:
        """Take in what has changed in the columns since the last call, in time proportional to that."""
        columns = self.columns
        if (self._facts, self._touched) == (columns.facts.count, columns.touched.count):
            return
        touched = columns.touched.since(self._touched)
        facts: Rows | None = _NO_ROWS
        if self._facts != columns.facts.count:
            facts = columns.facts.since(self._facts)
        if columns.capacity != self.seen.shape[1]:
            self.levels.resize(columns.capacity)
            self.seen = np.pad(self.seen, ((0, 0), (0, columns.capacity - self.seen.shape[1])))
        if facts is None:
            # Too long ago to tell: every node is looked at, but only those that have moved are put elsewhere.
            facts = np.arange(len(columns.nodes))
        new_axis = len(self.seen) != 2 * len(columns.axis)
        # A row twice would be moved and added twice.
        moved = dict.fromkeys(facts.tolist())
        for row in moved:
            self._move(row)
        if touched is None or new_axis:
            self._add_up()
        elif len(touched) > _ONE_BY_ONE:
            self._add(np.unique(touched))
        else:
            for row in dict.fromkeys(touched.tolist()):
                if row in moved:
                    self._add(np.array([row]))
                else:
                    self._add_one(row)
        self._facts, self._touched = columns.facts.count, columns.touched.count

    def _move(self, row: int) -> None:
        before = self.levels.numbers(row)
        if not self.levels.set(row, self.columns.nodes[row]):
            return
        contribution = self.seen[:, row]
        for level, old in zip(self.levels.levels, before, strict=True):
            sums = self.sums[level.name]
            if len(level.names) >= sums.shape[1]:
                # Twice as many, so that a thousand new domains do not mean a thousand copies; the last stays the last.
                sums = np.insert(sums, [sums.shape[1] - 1] * len(level.names), 0, axis=1)
                self.sums[level.name] = sums
            if old >= 0:
                sums[:, old] -= contribution
            new = level.of_row[row]
            if new >= 0:
                sums[:, new] += contribution

    def _add(self, rows: Rows) -> None:
        if not len(rows):
            return
        now = _contribution(self.columns, rows)
        more = now - self.seen[:, rows]
        self.seen[:, rows] = now
        for level in self.levels.levels:
            np.add.at(self.sums[level.name].T, level.of_row[rows], more.T)

    def _add_one(self, row: int) -> None:
        """Do the same for one row whose Node has not changed, so that what it has is what it had."""
        free = np.maximum(self.columns.free[:, row], 0)
        half = len(free)
        seen = self.seen[:half, row]
        more = free - seen
        seen[:] = free
        for level in self.levels.levels:
            self.sums[level.name][:half, level.of_row.item(row)] += more

    @property
    def order(self) -> TreeOrder:
        """Return the rows in the order of the tree."""
        return self.levels.order

    def runs(self, level: str) -> tuple[Rows, Rows]:
        """Return where the domains of the level begin and end in the order of the tree; TopologyError if unknown."""
        nodes = len(self.order.rows)
        if level == CLUSTER:
            return np.zeros(1, np.intp), np.full(1, nodes, np.intp)
        if level == NODE:
            return np.arange(nodes), np.arange(1, nodes + 1)
        if level not in self.topology.levels:
            known = ", ".join((CLUSTER, *self.topology.levels, NODE))
            raise TopologyError(f"level {level[:60]!a} is unknown, the levels are {known}")
        return self.order.runs(level)[:2]

    def domain_of(self, level: str, row: int) -> int:
        """Return the number of the row's domain at a level, -1 where it is in none."""
        if level == CLUSTER:
            return 0
        return row if level == NODE else int(self.levels[level].of_row[row])

    def within(self, level: str, number: int) -> NDArray[np.bool_]:
        """Return the rows of a domain."""
        found = np.zeros(self.columns.capacity, np.bool_)
        if level == CLUSTER:
            found[self.order.rows] = True
        elif level == NODE:
            found[number] = True
        else:
            np.equal(self.levels[level].of_row, number, out=found)
        return found

    def may_hold(self, level: str, need: Int64s) -> NDArray[np.bool_]:
        """Return for each domain, as in `runs`, whether what is free there is as much as needed in total.

        A filter: it reads one sum for each domain and no node, and never leaves out a domain that has the room.
        """
        lines = np.flatnonzero(need)
        if level == CLUSTER:
            free = np.atleast_1d(self.seen[lines].sum(axis=1))[:, None]
        elif level == NODE:
            free = self.seen[lines][:, self.order.rows]
        else:
            free = self.sums[level][lines][:, self.order.runs(level)[2]]
        enough: NDArray[np.bool_] = np.logical_and.reduce(free >= need[lines, None], axis=0)
        return enough

    def domain_name(self, level: str, run: int) -> str:
        """Return the name of a domain by its place in `runs`."""
        if level == CLUSTER:
            return CLUSTER
        if level == NODE:
            node = self.columns.nodes[int(self.order.rows[run])]
            return node.name if node is not None else ""
        return self.levels.domain_name(level, int(self.order.runs(level)[2][run]))

    def classes(self) -> Int64s:
        """Return the performance class of each row by its label, 9999 where it has none or one out of 0 to 9999."""
        found = np.full(self.columns.capacity, _PERF_CLASS_OF_NONE, np.int64)
        if self._class_label:
            column = self.columns.label_column(self._class_label)
            of_value = [_perf_class(value) for value in column.ids]
            found = np.array([*of_value, _PERF_CLASS_OF_NONE], np.int64)[column.of_row]
        return found

    def use(self, level: str) -> list[Use]:
        """Return what each domain of the level has and what is free there, in the order of the tree."""
        self.sync()
        half = len(self.columns.axis)
        starts, ends = self.runs(level)
        numbers = ends - starts
        if level == NODE:
            sums = self.seen[:, self.order.rows]
        elif level == CLUSTER:
            sums = self.seen[:, self.order.rows].sum(axis=1)[:, None]
        else:
            sums = self.sums[level][:, self.order.runs(level)[2]]
        return [
            Use(level, self.domain_name(level, run), number, tuple(each[half:]), tuple(each[:half]))
            for run, (number, each) in enumerate(zip(numbers.tolist(), sums.T.tolist(), strict=True))
        ]

    def findings(self) -> Iterator[list[str]]:
        """Yield for each node: no place, labels that contradict the file of the tree, pools that are not whole."""
        nodes = [node for node in self.columns.nodes if node is not None]
        yield from self.topology.findings(nodes)
        for node in nodes:
            yield [*self.devices.findings(node.name)]

    def check(self, rows: Iterable[int] | None = None) -> list[Drift]:
        """Compare these rows, or all, and the sums of all domains with the columns; return and heal what differs."""
        self.sync()
        asked = np.arange(len(self.columns.nodes)) if rows is None else np.fromiter(rows, np.intp)
        asked = asked[asked < len(self.columns.nodes)]
        found = [drift for row in asked.tolist() for drift in self._compare(row)]
        truth = _contribution(self.columns, asked)
        for row in asked[(truth != self.seen[:, asked]).any(axis=0)].tolist():
            held, true = self.seen[:, row].tolist(), _contribution(self.columns, np.array([row]))[:, 0].tolist()
            found.append(Drift(self._name(row), "amounts", str(held), str(true)))
        for request, different in self.fits.recount(asked):
            found += [Drift(self._name(row), f"fit count of {dict(request)}", "", "") for row in different.tolist()]
        for level in self.levels.levels:
            sums, added = self.sums[level.name], self._added_up(level.name)
            for number in sorted(level.ids.values()):
                if (sums[:, number] != added[:, number]).any():
                    where = self.levels.domain_name(level.name, number)
                    found.append(
                        Drift(
                            f"{level.name} {where}",
                            "sums",
                            str(sums[:, number].tolist()),
                            str(added[:, number].tolist()),
                        )
                    )
        if found:
            self._rebuild()
        return found

    def _compare(self, row: int) -> list[Drift]:
        node = self.columns.nodes[row]
        path = self.topology.path(node) if node is not None else None
        held = self.levels.path(row)
        if held != path:
            return [Drift(self._name(row), "path", str(held), str(path))]
        parent, numbers = 0, []
        for level, name in zip(self.levels.levels, path or (None,) * len(self.levels.levels), strict=True):
            parent = -1 if name is None or parent < 0 else level.ids.get((parent, name), -1)
            numbers.append(parent)
        if numbers != self.levels.numbers(row):
            return [Drift(self._name(row), "domains", str(self.levels.numbers(row)), str(numbers))]
        return []

    def _name(self, row: int) -> str:
        node = self.columns.nodes[row]
        return node.name if node is not None else f"row {row}, which has no node"


def _contribution(columns: NodeColumns, rows: Rows | None = None) -> Int64s:
    """Return what rows add to their domains: what is not charged, and below it what the nodes have.

    An overfull node counts as full, not as less than nothing: it must not hide the room of its neighbours.
    """
    free = columns.free if rows is None else columns.free.take(rows, axis=1)
    allocatable = columns.allocatable if rows is None else columns.allocatable.take(rows, axis=1)
    return np.concatenate((np.maximum(free, 0), allocatable))


def _perf_class(value: str) -> int:
    return int(value) if value.isascii() and value.isdecimal() and len(value) <= 4 else _PERF_CLASS_OF_NONE
