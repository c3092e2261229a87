# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Score rows: for each distinct kind of pod, how good every node is for it, kept up to date by what changed.

Placing a pod changes one node, and most pods look like the one before. So a row is computed for all nodes once, and
afterwards only where the ring of changes says so. What depends on other pods is not in it (see `topology_rules`).
"""

from collections.abc import Callable, Hashable, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from placement.model.amounts.quantity import Amounts
from placement.model.objects.pod import PodSpec
from placement.model.rules.selector import NodeSelector
from placement.state.nodes.node_columns import NodeColumns
from placement.state.nodes.node_filters import Bools, Mask, MaskTable
from placement.state.nodes.vectors import Vector

Scores = NDArray[np.float32]
Int64s = NDArray[np.int64]
# Score of nodes from the CPU and memory they have and what would be left open once the pod is there, by resource and
# node. It must treat every node by itself and use +, -, *, / and comparisons only: then a node scores the same alone as
# among all. The answer is the caller's to change.
Scorer = Callable[[Scores, Int64s], Scores]

# What else makes nodes better or worse for pods of a shape, by what would be left open and the rows asked about, None
# for all; finite. It must treat every node by itself, too.
Extra = Callable[["ShapeRow", Int64s, NDArray[np.intp] | None], Scores]

INFEASIBLE: Final = np.float32(-np.inf)
_LADDER: Final = 8
# Blocks of rows of which the best is looked for, at least.
_BLOCKS: Final = 256
_MET: Final = 1 << 12


class Feasible(Protocol):
    """What says where pods may go, besides the room for what they request (see `policy/framework/feasibility`)."""

    def shape_key(self, spec: PodSpec, request: Amounts) -> Hashable:
        """Return what is equal for pods to which all other answers are equal."""

    def mask(self, spec: PodSpec, request: Amounts) -> Mask:
        """Return the nodes that such pods may use, whatever is on them."""

    def exclusive(self, spec: PodSpec) -> bool:
        """Return whether such a pod takes something of its node that only one pod can have."""

    def taken(self, spec: PodSpec, row: int) -> bool:
        """Return whether a pod on the node has such a thing; where that changes, the row is touched."""

    def taken_rows(self, spec: PodSpec) -> list[int]:
        """Return the rows for which `taken` is true."""


class ShapeRow:
    """One kind of pod: its score by row, as of a point in the ring of changes."""

    __slots__ = (
        "cursor",
        "exclusive",
        "ignored",
        "mask",
        "narrowed",
        "preferred",
        "request",
        "scores",
        "spec",
        "used",
        "vector",
    )

    def __init__(
        self,
        spec: PodSpec,
        request: Amounts,
        vector: Vector,
        mask: Mask,
        preferred: list[tuple[np.float32, Mask]],
        ignored: int | None,
        *,
        exclusive: bool,
    ) -> None:
        self.spec = spec
        self.request = request
        self.vector = vector
        self.mask = mask
        # What a node scores more where a mask allows it.
        self.preferred = preferred
        # Room that is promised to ranks up to this one is open to it.
        self.ignored = ignored
        # Whether a pod takes something of its node that only one can have.
        self.exclusive = exclusive
        self.scores: Scores = np.zeros(0, np.float32)
        self.cursor = -1
        self.narrowed = 0
        self.used = 0


class ScoreTable:
    """The most recently used shapes."""

    def __init__(
        self,
        columns: NodeColumns,
        masks: MaskTable,
        feasible: Feasible,
        scorer: Scorer,
        *,
        capacity: int = 512,
        preference: int = 0,
        extras: Sequence[Extra] = (),
    ) -> None:
        self._columns = columns
        self._masks = masks
        self._feasible = feasible
        self._scorer = scorer
        self._extras = extras
        self._capacity = capacity
        self._preference = preference
        self._rows: dict[tuple[object, ...], ShapeRow] = {}
        self._uses = 0
        # Shapes by the identity of spec and request, which are kept so that no other object takes their identity.
        self._met: dict[tuple[int, int, int | None], tuple[PodSpec, Amounts, ShapeRow, bool]] = {}

    def row(self, spec: PodSpec, request: Amounts, rank: int | None = None) -> ShapeRow:
        """Return the up-to-date row of pods with this spec, request and rank; the rank is their priority by default."""
        ignored = self._columns.lower_rank(spec.priority if rank is None else rank)
        # Equal pods mostly share one spec and one request, and hashing those costs more than placing a pod.
        known = self._met.get((id(spec), id(request), ignored))
        if known is not None and known[0] is spec and known[1] is request and known[3] is self._columns.soft_taints:
            shape = known[2]
        else:
            shape = self._obtain(spec, request, ignored)
            if len(self._met) >= _MET:
                self._met.clear()
            self._met[id(spec), id(request), ignored] = (spec, request, shape, self._columns.soft_taints)
        self._uses += 1
        shape.used = self._uses
        self.catch_up(shape)
        return shape

    def _obtain(self, spec: PodSpec, request: Amounts, ignored: int | None) -> ShapeRow:
        soft = self._columns.soft_taints
        # What is only preferred depends on the tolerations, too.
        key = (
            self._feasible.shape_key(spec, request),
            spec.tolerations if soft else (),
            spec.preferred_nodes,
            soft,
            request,
            ignored,
        )
        shape = self._rows.get(key)
        if shape is None:
            mask = self._feasible.mask(spec, request)
            vector = self._columns.axis.request(request)
            exclusive = self._feasible.exclusive(spec)
            shape = ShapeRow(spec, request, vector, mask, self._preferred(spec), ignored, exclusive=exclusive)
            self._rows[key] = shape
            if len(self._rows) > self._capacity:
                oldest = min((key for key, row in self._rows.items() if row is not shape), key=self._last_use)
                del self._rows[oldest]
                self._met.clear()
        return shape

    def _last_use(self, key: tuple[object, ...]) -> int:
        return self._rows[key].used

    def _preferred(self, spec: PodSpec) -> list[tuple[np.float32, Mask]]:
        """Return the extra score of a node under each mask: at most 100 times the weight for each kind of preference.

        They are parts of the pod's own sum, not of the best node's: so a node scores the same alone as among all.
        """
        if not self._preference:
            return []
        whole = np.float32(100 * self._preference)
        found = [(whole, self._masks.soft_taints(spec.tolerations))] if self._columns.soft_taints else []
        total = sum(item.weight for item in spec.preferred_nodes)
        for item in spec.preferred_nodes if total > 0 else ():
            mask = self._masks.selector(NodeSelector((), (item.term,)))
            found.append((whole * np.float32(item.weight / total), mask))
        return found

    def catch_up(self, shape: ShapeRow) -> None:
        """Scores again what has changed since the row was last asked for."""
        columns, mask = self._columns, shape.mask
        changes = columns.touched.count
        if shape.cursor == changes:
            return
        allows = mask.allows
        rows = columns.touched.since(shape.cursor) if shape.cursor >= 0 else None
        older = len(shape.vector.dense) != len(columns.axis) or len(shape.scores) != columns.capacity
        if rows is None or older:
            shape.vector = columns.axis.request(shape.request)
            shape.scores = self._evaluate(
                shape, columns.size, columns.unpromised_for(len(shape.vector.asked), shape.ignored), None
            )
            np.putmask(shape.scores, ~allows, INFEASIBLE)
            if shape.exclusive:
                shape.scores[self._feasible.taken_rows(shape.spec)] = INFEASIBLE
        else:
            if shape.narrowed != mask.narrowed:
                np.putmask(shape.scores, ~allows, INFEASIBLE)
            self._score_again(shape, rows.compress(allows.take(rows)))
        shape.cursor, shape.narrowed = changes, mask.narrowed

    def _score_again(self, shape: ShapeRow, rows: NDArray[np.intp]) -> None:
        """Scores of rows that the mask allows."""
        if not len(rows):
            return
        # `take`, because plain indexing of so few columns costs several times as much.
        unpromised = self._columns.unpromised_for(len(shape.vector.asked), shape.ignored, rows)
        shape.scores[rows] = self._evaluate(shape, self._columns.size.take(rows, axis=1), unpromised, rows)
        if shape.exclusive:
            taken = [row for row in rows.tolist() if self._feasible.taken(shape.spec, row)]
            shape.scores[taken] = INFEASIBLE

    def _evaluate(self, shape: ShapeRow, size: Scores, unpromised: Int64s, rows: NDArray[np.intp] | None) -> Scores:
        """Scores of these rows by their room alone; None means all."""
        vector = shape.vector
        if vector.unknown:
            return np.full(unpromised.shape[1], INFEASIBLE, np.float32)
        left = unpromised - vector.asked
        scores = self._scorer(size, left)
        for bonus, mask in shape.preferred:
            scores += bonus * (mask.allows if rows is None else mask.allows.take(rows))
        for extra in self._extras:
            scores += extra(shape, left, rows)
        # Mostly there is room everywhere, and then nothing is to be told apart.
        if left.item(left.argmin()) < 0:
            fits = np.logical_and.reduce(unpromised >= vector.least)
            np.putmask(scores, np.logical_not(fits, out=fits), INFEASIBLE)
        return scores

    def best(self, shape: ShapeRow, allowed: Bools | None = None, liked: Scores | None = None) -> int:
        """Return the best row, or -1; among equals the first, so that the answer is always the same."""
        used = self._columns.used
        scores = shape.scores[:used]
        if allowed is not None:
            scores = np.where(allowed[:used], scores, INFEASIBLE)
        if liked is not None:
            scores = scores + liked[:used]
        row = int(scores.argmax())
        return row if scores[row] > INFEASIBLE else -1

    def targets(self, shape: ShapeRow, number: int, allowed: Bools | None = None) -> list[int]:
        """Rows for a run of equal pods, as if each had been placed before the next; shorter where room ends.

        Only for pods that no rule about other pods concerns.
        """
        scores = shape.scores[: self._columns.used]
        if allowed is not None:
            scores = np.where(allowed[: self._columns.used], scores, INFEASIBLE)
        rows = _best_rows(scores, number)
        if not len(rows):
            return []
        heap = list(zip((-shape.scores[rows]).tolist(), rows.tolist(), strict=True))
        heapify(heap)
        # Most nodes are taken once or twice: the score after the first pod is made for all of them at once.
        ladders = {row: [score] for row, score in zip(rows.tolist(), self._after_one(shape, rows), strict=True)}
        taken: dict[int, int] = {}
        found: list[int] = []
        while heap and len(found) < number:
            row = heap[0][1]
            found.append(row)
            taken[row] = taken.get(row, 0) + 1
            ladder = ladders[row] or self._ladder(shape, row, taken[row])
            ladders[row] = ladder
            score = ladder.pop()
            if score > INFEASIBLE:
                heapreplace(heap, (-score, row))
            else:
                heappop(heap)
        return found

    def _after_one(self, shape: ShapeRow, rows: NDArray[np.intp]) -> list[float]:
        if shape.exclusive:
            return [float(INFEASIBLE)] * len(rows)
        columns, asked = self._columns, shape.vector.asked
        unpromised = columns.unpromised_for(len(asked), shape.ignored, rows) - asked
        scores: list[float] = self._evaluate(shape, columns.size.take(rows, axis=1), unpromised, rows).tolist()
        return scores

    def _ladder(self, shape: ShapeRow, row: int, placed: int) -> list[float]:
        """Scores of one node after `placed` pods of the shape, one more, two more, ...; the next one last."""
        counts = np.arange(placed + _LADDER - 1, placed - 1, -1, dtype=np.int64)
        asked = shape.vector.asked
        unpromised = self._columns.unpromised_for(len(asked), shape.ignored, np.array([row])) - asked * counts
        size = np.repeat(self._columns.size[:, row, None], _LADDER, axis=1)
        ladder: list[float] = self._evaluate(shape, size, unpromised, np.full(_LADDER, row)).tolist()
        return ladder


def _best_rows(scores: Scores, number: int) -> NDArray[np.intp]:
    """Return the rows a run of so many pods can touch: the best feasible ones, the first among equals."""
    if number >= len(scores):
        return np.flatnonzero(scores > INFEASIBLE)
    if number < 1:
        return np.zeros(0, np.intp)
    least = _bound(scores, number)
    better = np.flatnonzero(scores > least)
    if len(better) > number:
        ranked = scores[better]
        least = np.partition(ranked, len(ranked) - number)[len(ranked) - number]
        better, equal = better[ranked > least], better[ranked == least]
    else:
        equal = np.flatnonzero(scores == least) if least > INFEASIBLE else better[:0]
    return np.concatenate((better, equal[: number - len(better)]))


def _bound(scores: Scores, number: int) -> np.float32:
    """Return a score that at least so many rows reach: the best of so many blocks. Sorting all takes far longer."""
    blocks = max(number, min(_BLOCKS, len(scores)))
    size = len(scores) // blocks
    best = scores[: size * blocks].reshape(blocks, size).max(axis=1)
    bound: np.float32 = np.partition(best, blocks - number)[blocks - number]
    return bound
