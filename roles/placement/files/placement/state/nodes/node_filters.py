# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes a pod may use as far as the Node objects alone decide: a bool per row, for each distinct rule.

What a pod asks of its nodes is put together of several rules, its parts. Which ones, `policy/framework/feasibility`
says.

A mask is computed for all nodes at once over the label columns. When it is asked for again it catches up with the nodes
that have changed since, so thousands of changes cost nothing for masks that no pod needs. It lives while a cached shape
needs it, or while it is among the most recently used.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import reduce
from operator import or_
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from placement.model.rules.selector import (
    BACKED_TAINT,
    NODE_NAME_FIELD,
    UNSCHEDULABLE_TAINT,
    Effect,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    Toleration,
    untolerated,
)
from placement.state.nodes.node_columns import (
    HELD,
    LEASED,
    PRESENT,
    RESTING,
    UNKNOWN,
    UNREADABLE,
    UNSCHEDULABLE,
    NodeColumns,
)

Bools = NDArray[np.bool_]

_RECENT: Final = 128
# So many nodes are decided one by one; for more of them all are computed again, which is less work.
_ONE_BY_ONE: Final = 16
CORDON: Final = Taint(UNSCHEDULABLE_TAINT, "", Effect.NO_SCHEDULE)
# Why a node is closed to all pods, by the flag that closes it.
CLOSED: Final = {
    HELD: "held by batch jobs",
    LEASED: "on which batch jobs begin",
    UNKNOWN: "of which it is not known whether batch jobs have them",
    UNREADABLE: "with an unreadable Node or pod",
    RESTING: "that turned pods away a moment ago",
}
_CLOSED: Final = reduce(or_, CLOSED)


def lets_in(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> bool:
    """Return whether a pod with these gets in; for backed pods' nodes none counts, because any user can write one."""
    backed = any(taint.key == BACKED_TAINT and taint.effect is not Effect.PREFER_NO_SCHEDULE for taint in taints)
    return not backed and untolerated(taints, tolerations) is None


class Part(NamedTuple):
    """One rule about Node objects: the rows that it allows, or whether it allows one row."""

    compute: Callable[[], Bools]
    decide: Callable[[int], bool]


class Mask:
    """One rule's answer by row."""

    __slots__ = ("__weakref__", "_allows", "_columns", "_compute", "_cursor", "_decide", "narrowed")

    def __init__(self, columns: NodeColumns, compute: Callable[[], Bools], decide: Callable[[int], bool]) -> None:
        self._columns = columns
        self._compute = compute
        self._decide = decide
        self._cursor = columns.facts.count
        self._allows = compute()
        # Moves when a row is allowed no longer; true once `allows` has been asked for.
        self.narrowed = 0

    @property
    def allows(self) -> Bools:
        """Return the rows that the rule allows, as things stand; not to be changed, and not to be kept."""
        if self._cursor != self._columns.facts.count:
            self._catch_up()
        return self._allows

    def _catch_up(self) -> None:
        facts, before = self._columns.facts, self._allows
        rows = facts.since(self._cursor)
        self._cursor = facts.count
        if rows is None or len(rows) > _ONE_BY_ONE or len(before) != self._columns.capacity:
            self._allows = self._compute()
            self.narrowed += bool(np.any(before & ~self._allows[: len(before)]))
            return
        for row in set(rows.tolist()):
            allowed, before[row] = before[row], self._decide(row)
            self.narrowed += bool(allowed) and not before[row]


class MaskTable:
    """All masks in use."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._masks: WeakValueDictionary[Hashable, Mask] = WeakValueDictionary()
        self._recent: deque[Mask] = deque(maxlen=_RECENT)

    def selector(self, selector: NodeSelector) -> Mask:
        """Nodes that nodeSelector and required node affinity accept."""
        return self._mask(selector, lambda: self._selected(selector), lambda row: self._selects(selector, row))

    def taints(self, tolerations: tuple[Toleration, ...]) -> Mask:
        """Nodes without a taint that keeps these tolerations off."""
        return self._mask(
            tolerations, lambda: self._tolerated(tolerations), lambda row: self._tolerates(tolerations, row)
        )

    def soft_taints(self, tolerations: tuple[Toleration, ...]) -> Mask:
        """Nodes without a taint that such pods had better avoid."""

        def verdict(taints: tuple[Taint, ...]) -> bool:
            return untolerated(taints, tolerations, (Effect.PREFER_NO_SCHEDULE,)) is None

        def compute() -> Bools:
            verdicts = [verdict(taints) for taints in self._columns.taint_sets]
            agreeable: Bools = np.array(verdicts, np.bool_)[self._columns.taint_set]
            return agreeable

        def decide(row: int) -> bool:
            node = self._columns.nodes[row]
            return node is None or verdict(node.taints)

        return self._mask(("soft", tolerations), compute, decide)

    def joint(self, key: Hashable, parts: Sequence[Part]) -> Mask:
        """Nodes that every part allows; equal keys stand for equal parts."""

        def compute() -> Bools:
            allows = self.present()
            for part in parts:
                allows &= part.compute()
            return allows

        return self._mask(("joint", key), compute, lambda row: all(part.decide(row) for part in parts))

    def open_part(self) -> Part:
        """Nodes that are not closed to all pods."""
        return self._unflagged(_CLOSED)

    def cordon_part(self) -> Part:
        """Nodes that are not cordoned."""
        return self._unflagged(UNSCHEDULABLE)

    def taint_part(self, tolerations: tuple[Toleration, ...]) -> Part:
        """Nodes without a taint that keeps these tolerations off."""
        return Part(lambda: self.taints(tolerations).allows, lambda row: self._tolerates(tolerations, row))

    def selector_part(self, selector: NodeSelector) -> Part:
        """Nodes that nodeSelector and required node affinity accept."""
        return Part(lambda: self.selector(selector).allows, lambda row: self._selects(selector, row))

    def declared_part(self, features: tuple[str, ...]) -> Part:
        """Nodes that declare all of these features."""
        wanted = frozenset(features)

        def decide(row: int) -> bool:
            node = self._columns.nodes[row]
            return node is not None and wanted <= node.declared

        def compute() -> Bools:
            declaring = np.zeros(self._columns.capacity, np.bool_)
            declaring[[row for row in range(len(self._columns.nodes)) if decide(row)]] = True
            return declaring

        return Part(compute, decide)

    def _unflagged(self, flags: int) -> Part:
        def compute() -> Bools:
            unflagged: Bools = np.equal(self._columns.flags & (flags | PRESENT), PRESENT)
            return unflagged

        return Part(compute, lambda row: int(self._columns.flags[row]) & (flags | PRESENT) == PRESENT)

    def present(self) -> Bools:
        """Rows that are nodes; a fresh array."""
        present: Bools = np.not_equal(self._columns.flags & PRESENT, 0)
        return present

    def _mask(self, key: Hashable, compute: Callable[[], Bools], decide: Callable[[int], bool]) -> Mask:
        mask = self._masks.get(key)
        if mask is None:
            mask = Mask(self._columns, compute, decide)
            self._masks[key] = mask
        self._recent.append(mask)
        return mask

    def _tolerated(self, tolerations: tuple[Toleration, ...]) -> Bools:
        verdicts = [lets_in(taints, tolerations) for taints in self._columns.taint_sets]
        tolerated: Bools = np.array(verdicts, np.bool_)[self._columns.taint_set]
        return tolerated

    def _tolerates(self, tolerations: tuple[Toleration, ...], row: int) -> bool:
        node = self._columns.nodes[row]
        return node is None or lets_in(node.taints, tolerations)

    def _selects(self, selector: NodeSelector, row: int) -> bool:
        node = self._columns.nodes[row]
        return node is not None and selector.matches(node.name, dict(node.labels))

    def _selected(self, selector: NodeSelector) -> Bools:
        chosen = self.present()
        for key, value in selector.labels:
            chosen &= self._required(Requirement(key, Operator.IN, (value,)))
        if selector.terms is not None:
            accepted = np.zeros(self._columns.capacity, np.bool_)
            for term in selector.terms:
                accepted |= self._term(term)
            chosen &= accepted
        return chosen

    def _term(self, term: NodeSelectorTerm) -> Bools:
        if not (term.expressions or term.fields) or term.error() is not None:
            return np.zeros(self._columns.capacity, np.bool_)
        accepted = np.ones(self._columns.capacity, np.bool_)
        for requirement in term.expressions:
            accepted &= self._required(requirement)
        for field in term.fields:
            named = np.zeros(self._columns.capacity, np.bool_)
            if field.key == NODE_NAME_FIELD:
                row = self._columns.rows.get(field.values[0])
                if row is not None:
                    named[row] = True
            else:
                named[:] = field.values[0] == ""
            accepted &= named if field.operator is Operator.IN else ~named
        return accepted

    def _required(self, requirement: Requirement) -> Bools:
        column = self._columns.label_column(requirement.key)
        # One verdict per distinct value; the last is for nodes without the label, whose number is -1.
        verdicts = np.zeros(len(column.ids) + 1, np.bool_)
        match requirement.operator:
            case Operator.EXISTS:
                verdicts[:-1] = True
            case Operator.DOES_NOT_EXIST:
                verdicts[-1] = True
            case Operator.IN:
                verdicts[[column.ids[value] for value in requirement.values if value in column.ids]] = True
            case Operator.NOT_IN:
                verdicts[:] = True
                verdicts[[column.ids[value] for value in requirement.values if value in column.ids]] = False
            case Operator.GT | Operator.LT:
                for value, number in column.ids.items():
                    verdicts[number] = requirement.matches({requirement.key: value})
        required: Bools = verdicts[column.of_row]
        return required
