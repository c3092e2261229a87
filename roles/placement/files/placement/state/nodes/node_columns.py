# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes as rows of columns: amounts, flags, labels, taints.

A node keeps its row as long as it exists; the row of a removed node is a tombstone until another takes it. Arrays
double when they are full, so all others ask for them again instead of keeping them.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.model.amounts.quantity import Amounts, is_extended
from placement.model.objects.node import Node
from placement.model.rules.selector import Effect, LabelPairs, Taint
from placement.state.nodes.vectors import ResourceAxis, Vector

PRESENT: Final = 1
UNSCHEDULABLE: Final = 2
HELD: Final = 4
UNREADABLE: Final = 8
RESTING: Final = 16
LEASED: Final = 32
# It is not known whether batch jobs have it.
UNKNOWN: Final = 64
# Batch jobs have it, are about to begin there, or may have it.
BATCH_FLAGS: Final = HELD | LEASED | UNKNOWN

_LABEL_COLUMNS: Final = 256
_TAINT_SETS: Final = 1 << 12
_FIRST_CAPACITY: Final = 64
_NO_TAINTS: tuple[Taint, ...] = ()
_NO_NAMES: Final[frozenset[str]] = frozenset()


class LabelColumn:
    """The values of one label key by row, as numbers; -1 where the node does not have it."""

    __slots__ = ("ids", "of_row")

    def __init__(self, capacity: int) -> None:
        self.of_row = np.full(capacity, -1, np.int32)
        self.ids: dict[str, int] = {}

    def assign(self, row: int, value: str | None) -> None:
        """Note the value of one row."""
        self.of_row[row] = -1 if value is None else self.ids.setdefault(value, len(self.ids))

    def among(self, values: Iterable[str]) -> NDArray[np.bool_]:
        """Rows with one of these values."""
        wanted = np.zeros(len(self.ids) + 1, np.bool_)
        wanted[[self.ids[value] for value in values if value in self.ids]] = True
        # -1 (no label) indexes the last element.
        found: NDArray[np.bool_] = wanted[self.of_row]
        return found


class Ring:
    """The last rows that something happened to, for readers that catch up each in its own time."""

    SIZE: Final = 1 << 13

    def __init__(self) -> None:
        # The index type of numpy itself: others are converted at every use.
        self._rows = np.zeros(self.SIZE, np.intp)
        self.count = 0

    def note(self, row: int) -> None:
        """Something happened to the row."""
        self._rows[self.count % self.SIZE] = row
        self.count += 1

    def since(self, cursor: int) -> NDArray[np.intp] | None:
        """Return the rows noted since the count was `cursor`, some twice; None if that is too long ago to tell."""
        count = self.count - cursor
        if count > self.SIZE:
            return None
        start, end = cursor % self.SIZE, self.count % self.SIZE
        if count == 0 or start < end:
            return self._rows[start : start + count]
        return np.concatenate((self._rows[start:], self._rows[:end]))


class NodeColumns:
    """The columns, and two rings of rows that changed, by which cached answers catch up."""

    RING: Final = Ring.SIZE

    def __init__(self) -> None:
        self.axis = ResourceAxis()
        self.rows: dict[str, int] = {}
        self.nodes: list[Node | None] = []
        # The names of extended resources that each node has, be it none of one.
        self.offers: list[frozenset[str]] = []
        self._tombstones: list[int] = []
        shape = (len(self.axis), _FIRST_CAPACITY)
        self.allocatable = np.zeros(shape, np.int64)
        # What of the charge is on its way out; what is promised to pods not yet placed.
        self.releasing = np.zeros(shape, np.int64)
        self.nominated = np.zeros(shape, np.int64)
        # The same promises by row and rank, with their number; and their number by rank on all nodes.
        self._promised: dict[int, dict[int, tuple[int, NDArray[np.int64]]]] = {}
        self._ranks: dict[int, int] = {}
        # What is not charged, and what a pod without a promise may take, which is that less the promises that leaving
        # pods do not cover: in one array, because every charge changes both.
        self._room, self.free, self.unpromised = _divided(np.zeros((2 * len(self.axis), _FIRST_CAPACITY), np.int64))
        # CPU and memory of each node as divisors, for scores.
        self.size = np.ones((2, _FIRST_CAPACITY), np.float32)
        self.flags = np.zeros(_FIRST_CAPACITY, np.uint8)
        # How many of the charged pods run there for the node itself.
        self.own_pods = np.zeros(_FIRST_CAPACITY, np.int64)
        self.taint_set = np.zeros(_FIRST_CAPACITY, np.int32)
        self.taint_sets: dict[tuple[Taint, ...], int] = {_NO_TAINTS: 0}
        # When a batch job or a reservation is planned to begin, in seconds since 1970, by row; mostly empty.
        self.planned: dict[int, float] = {}
        # Whether there has ever been a taint that is only a preference.
        self.soft_taints = False
        self._labels: OrderedDict[str, LabelColumn] = OrderedDict()
        self._key_users: dict[str, int] = {}
        # Rows whose room, ports or Node changed, for scores; and those whose Node or flags did, for masks.
        self.touched, self.facts = Ring(), Ring()
        self.touch = self.touched.note
        # Moves whenever a Node comes, goes or changes.
        self.generation = 0

    @property
    def capacity(self) -> int:
        """Rows that the arrays have room for."""
        return int(self.flags.shape[0])

    @property
    def used(self) -> int:
        """Rows from here on have never been a node's; at least one, so that nothing is ever empty."""
        return len(self.nodes) or 1

    def __len__(self) -> int:
        return len(self.rows)

    def add_resource(self, name: str) -> None:
        """One more line in every array of amounts."""
        line = np.zeros((1, self.capacity), np.int64)
        self._room, self.free, self.unpromised = _divided(np.vstack((self.free, line, self.unpromised, line)))
        self.axis.add(name)
        for array in ("allocatable", "releasing", "nominated"):
            setattr(self, array, np.vstack((getattr(self, array), line)))
        for promised in self._promised.values():
            promised.update({rank: (number, np.append(sums, 0)) for rank, (number, sums) in promised.items()})

    def add_node(self, node: Node) -> int:
        """Give a new node a row, without any charge."""
        if self._tombstones:
            row = self._tombstones.pop()
        else:
            row = len(self.nodes)
            self.nodes.append(None)
            self.offers.append(_NO_NAMES)
            if row == self.capacity:
                self._double()
        self.rows[node.name] = row
        self.set_node(row, node)
        return row

    def set_node(self, row: int, node: Node) -> None:
        """Write what the Node object says; charges stay."""
        old = self.nodes[row]
        offered = self.axis.offer(node.allocatable)
        self.free[:, row] += offered - self.allocatable[:, row]
        self.allocatable[:, row] = offered
        self.size[:, row] = np.maximum(offered[:2], 1)
        self.generation += 1
        self._recount_unpromised(row)
        kept = int(self.flags[row]) & (UNREADABLE | RESTING | LEASED | UNKNOWN)
        self.flags[row] = kept | PRESENT | UNSCHEDULABLE * node.unschedulable | HELD * bool(node.held_by.strip())
        self.taint_set[row] = self._taint_set(node.taints)
        self.offers[row] = offered_names(node)
        if old is None or old.labels != node.labels:
            self._relabel(row, old.labels if old else (), node.labels)
        if node.planned is not None:
            self.planned[row] = node.planned
        else:
            self.planned.pop(row, None)
        self.nodes[row] = node
        self.facts.note(row)
        self.touch(row)

    def remove_node(self, node: Node) -> None:
        """Leave a tombstone in the node's row; pods that held room there must have been released before."""
        row = self.rows.pop(node.name)
        self.generation += 1
        for array in (self.allocatable, self._room, self.releasing, self.nominated):
            array[:, row] = 0
        self.flags[row] = 0
        self.own_pods[row] = 0
        self.taint_set[row] = 0
        self._relabel(row, node.labels, ())
        self.planned.pop(row, None)
        self.nodes[row] = None
        self.offers[row] = _NO_NAMES
        self._tombstones.append(row)
        self.facts.note(row)
        self.touch(row)

    def set_flag(self, row: int, flag: int, on: bool) -> None:
        """Set or clear one flag."""
        self.flags[row] = int(self.flags[row]) | flag if on else int(self.flags[row]) & ~flag
        self.facts.note(row)
        self.touch(row)

    def charge(self, row: int, vector: Vector, number: int) -> None:
        """Take room for a pod (1) or give it back (-1)."""
        # A view of its own, because an augmented assignment to part of an array copies the result there once more.
        room = self._room[:, row]
        if number > 0:
            room -= vector.twice
        else:
            room += vector.twice
        self.touch(row)

    def release(self, row: int, vector: Vector, number: int) -> None:
        """Note that charged room is on its way out (1), or no longer (-1)."""
        self.releasing[:, row] += number * vector.dense
        self._recount_unpromised(row)
        self.touch(row)

    def charged(self, row: int, amounts: Amounts) -> Vector:
        """Return what a pod takes of the node, without extended resources that the node has not got.

        Its kubelet ignores those, as when a driver of resource claims gives them.
        """
        vector, offered = self.axis.request(amounts), self.offers[row]
        if vector.extended <= offered:
            return vector
        return self.axis.request(
            tuple((name, amount) for name, amount in amounts if name not in vector.extended or name in offered)
        )

    def promise(self, row: int, vector: Vector, number: int, rank: int) -> None:
        """Note that room is promised to a pod of this rank (1), or no longer (-1)."""
        self.nominated[:, row] += number * vector.dense
        promised = self._promised.setdefault(row, {})
        known, sums = promised.get(rank, (0, np.zeros(len(self.axis), np.int64)))
        promised[rank] = (known + number, sums + number * vector.dense)
        self._ranks[rank] = self._ranks.get(rank, 0) + number
        if not known + number:
            del promised[rank]
        if not promised:
            del self._promised[row]
        if not self._ranks[rank]:
            del self._ranks[rank]
        self._recount_unpromised(row)
        self.touch(row)

    def lower_rank(self, rank: int) -> int | None:
        """Return the highest rank below this one that any room is promised to; None where there is none."""
        return max((other for other in self._ranks if other < rank), default=None) if self._ranks else None

    def nominated_from(self, row: int, rank: int) -> NDArray[np.int64]:
        """Return what is promised on the row to this rank and those above it."""
        found: NDArray[np.int64] = self.nominated[:, row]
        for other, (_unused, sums) in self._promised.get(row, {}).items():
            if other < rank:
                found = found - sums
        return found

    def future_free(self, row: int, rank: int) -> NDArray[np.int64]:
        """Return what of the row a pod of this rank may count on: what is free, and what pods that leave will free."""
        left: NDArray[np.int64] = self.free[:, row] + self.releasing[:, row] - self.nominated_from(row, rank)
        return left

    def all_future_free(self, rank: int) -> NDArray[np.int64]:
        """Return the same for all rows."""
        left: NDArray[np.int64] = self.free + self.releasing - self.nominated
        for row in self._promised:
            left[:, row] = self.future_free(row, rank)
        return left

    def unpromised_for(
        self, lines: int, ignored: int | None, rows: NDArray[np.intp] | None = None
    ) -> NDArray[np.int64]:
        """Return what is free and not promised on these rows, or on all, for the first `lines` resources.

        Promises to ranks up to the ignored one do not count: a pod of a higher rank may have that room.
        """
        unpromised = self.unpromised[:lines] if rows is None else self.unpromised[:lines].take(rows, axis=1)
        if ignored is None:
            return unpromised
        if rows is None:
            unpromised = unpromised.copy()
        concerned = self._promised.keys() if rows is None else self._promised.keys() & set(rows.tolist())
        for row in concerned:
            uncovered = np.minimum(self.releasing[:, row] - self.nominated_from(row, ignored + 1), 0)
            room = (self.free[:, row] + uncovered)[:lines, None]
            unpromised[:, [row] if rows is None else np.flatnonzero(rows == row)] = room
        return unpromised

    def _recount_unpromised(self, row: int) -> None:
        uncovered = np.minimum(self.releasing[:, row] - self.nominated[:, row], 0)
        self.unpromised[:, row] = self.free[:, row] + uncovered

    @property
    def changes(self) -> int:
        """How often a row was touched."""
        return self.touched.count

    def changed_since(self, cursor: int) -> NDArray[np.intp] | None:
        """Return the rows touched since then (some twice), or None when that is too long ago to tell."""
        return self.touched.since(cursor)

    def label_column(self, key: str) -> LabelColumn:
        """Return the values of a label by row; made when first asked for, and for the keys in use only."""
        column = self._labels.get(key)
        if column is not None:
            self._labels.move_to_end(key)
            return column
        column = LabelColumn(self.capacity)
        if self._key_users.get(key):
            for row, node in enumerate(self.nodes):
                if node is not None:
                    column.assign(row, label_value(node.labels, key))
        self._labels[key] = column
        if len(self._labels) > _LABEL_COLUMNS:
            self._labels.popitem(last=False)
        return column

    def _taint_set(self, taints: tuple[Taint, ...]) -> int:
        self.soft_taints = self.soft_taints or any(taint.effect is Effect.PREFER_NO_SCHEDULE for taint in taints)
        if len(self.taint_sets) >= _TAINT_SETS and taints not in self.taint_sets:
            # Taints with ever new values would pile up: keep those that some node has.
            self.taint_sets = {_NO_TAINTS: 0}
            for row, node in enumerate(self.nodes):
                kept = node.taints if node is not None else _NO_TAINTS
                self.taint_set[row] = self.taint_sets.setdefault(kept, len(self.taint_sets))
        return self.taint_sets.setdefault(taints, len(self.taint_sets))

    def _relabel(self, row: int, old: LabelPairs, new: LabelPairs) -> None:
        for key, _unused in old:
            self._key_users[key] -= 1
            if not self._key_users[key]:
                del self._key_users[key]
        for key, _unused in new:
            self._key_users[key] = self._key_users.get(key, 0) + 1
        for key, column in list(self._labels.items()):
            if len(column.ids) > 2 * self.capacity:
                # Values of nodes that are gone would pile up: the column is made anew when it is asked for.
                del self._labels[key]
            else:
                column.assign(row, label_value(new, key))

    def _double(self) -> None:
        more = self.capacity
        for name in ("allocatable", "releasing", "nominated"):
            setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, more))))
        self._room, self.free, self.unpromised = _divided(np.pad(self._room, ((0, 0), (0, more))))
        self.size = np.pad(self.size, ((0, 0), (0, more)), constant_values=1)
        self.flags = np.pad(self.flags, (0, more))
        self.own_pods = np.pad(self.own_pods, (0, more))
        self.taint_set = np.pad(self.taint_set, (0, more))
        for column in self._labels.values():
            column.of_row = np.pad(column.of_row, (0, more), constant_values=-1)


def offered_names(node: Node) -> frozenset[str]:
    """Return the names of the extended resources that the node has."""
    return frozenset(name for name, _unused in node.allocatable if is_extended(name)) or _NO_NAMES


def _divided(room: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Divide amounts into the whole and its halves."""
    half = len(room) // 2
    return room, room[:half], room[half:]


def label_value(labels: LabelPairs, key: str) -> str | None:
    """Return the value of a key in sorted pairs; None if it is missing."""
    index = bisect_left(labels, (key,))
    if index < len(labels) and labels[index][0] == key:
        return labels[index][1]
    return None
