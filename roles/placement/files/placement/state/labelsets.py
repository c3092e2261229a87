# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the pods of each label set are, and how many pods a rule about other pods finds on each node.

Pods of one controller are one label set. A rule ("pods labelled app=x in this namespace") is matched once against each
label set instead of once against each pod, and its counts are then kept by addition. Counts are made when a rule is
first asked for and are dropped when it has not been asked for in a while: they can always be added up again.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.model.affinity import PodAffinityTerm, PodMatcher
from placement.model.selector import LabelMap, LabelPairs
from placement.state.tallies import Tallies

_COUNTED_RULES: Final = 256

# A pod is counted where all of these match it.
Rule = tuple[PodMatcher, ...]


class LabelSet:
    """One namespace and label set: its charged pods by row."""

    __slots__ = ("counted_by", "labels", "leaving", "namespace", "pods", "repelled", "repelled_at", "users")

    def __init__(self, namespace: str, labels: LabelPairs) -> None:
        self.namespace = namespace
        self.labels = labels
        # Known pods with these labels, charged or not: without any the set is forgotten.
        self.users = 0
        self.pods: dict[int, int] = {}
        self.leaving: dict[int, int] = {}
        self.counted_by: list[RuleCount] = []
        self.repelled: tuple[AntiTerm, ...] = ()
        self.repelled_at = -1


class RuleCount:
    """Pods that a rule finds, by row; `staying` leaves out those that are terminating, as topology spread does."""

    __slots__ = ("pods", "pods_by_domain", "staying", "staying_by_domain")

    def __init__(self, capacity: int) -> None:
        self.pods = np.zeros(capacity, np.int32)
        self.staying = np.zeros(capacity, np.int32)
        self.pods_by_domain = Tallies()
        self.staying_by_domain = Tallies()

    def add(self, row: int, number: int, *, leaving: bool) -> None:
        """Counts pods on a node in or out."""
        self.pods[row] += number
        self.pods_by_domain.add(row, number)
        if not leaving:
            self.staying[row] += number
            self.staying_by_domain.add(row, number)

    def grow(self, capacity: int) -> None:
        """Makes room for more nodes."""
        more = capacity - self.pods.shape[0]
        if more > 0:
            self.pods = np.pad(self.pods, (0, more))
            self.staying = np.pad(self.staying, (0, more))


class AntiTerm:
    """A required anti-affinity term of placed pods, and the rows they sit in."""

    __slots__ = ("by_domain", "holders", "term")

    def __init__(self, term: PodAffinityTerm) -> None:
        self.term = term
        self.holders: dict[int, int] = {}
        self.by_domain = Tallies()

    def counts(self, capacity: int) -> NDArray[np.int32]:
        """How many pods with the term each row has."""
        counts = np.zeros(capacity, np.int32)
        counts[list(self.holders)] = list(self.holders.values())
        return counts


class LabelSets:
    """All label sets, rules and anti-affinity terms."""

    def __init__(self, namespace_labels: Callable[[str], LabelMap]) -> None:
        self._namespace_labels = namespace_labels
        self._sets: dict[tuple[str, LabelPairs], LabelSet] = {}
        self._counts: OrderedDict[Rule, RuleCount] = OrderedDict()
        self._anti: dict[PodAffinityTerm, AntiTerm] = {}
        # Moves when a label set's list of repelling terms may be out of date.
        self._anti_generation = 0

    def obtain(self, namespace: str, labels: LabelPairs) -> LabelSet:
        """The label set, for a query; it is not kept unless a pod has it."""
        return self._sets.get((namespace, labels)) or LabelSet(namespace, labels)

    def enter(self, namespace: str, labels: LabelPairs) -> LabelSet:
        """The label set of a pod that has become known."""
        labelset = self._sets.get((namespace, labels))
        if labelset is None:
            labelset = LabelSet(namespace, labels)
            self._sets[namespace, labels] = labelset
            labelset.counted_by = [count for rule, count in self._counts.items() if self.matches(rule, labelset)]
        labelset.users += 1
        return labelset

    def leave(self, labelset: LabelSet) -> None:
        """A pod is no longer known; it must not be charged any more."""
        labelset.users -= 1
        if not labelset.users:
            del self._sets[labelset.namespace, labelset.labels]

    def place(self, labelset: LabelSet, row: int, number: int, *, leaving: bool) -> None:
        """Counts a pod in (1) or out (-1)."""
        _count(labelset.pods, row, number)
        if leaving:
            _count(labelset.leaving, row, number)
        for count in labelset.counted_by:
            count.add(row, number, leaving=leaving)

    def place_terms(self, terms: Iterable[PodAffinityTerm], row: int, number: int) -> None:
        """Counts the anti-affinity terms of a pod in or out."""
        for term in terms:
            anti = self._anti.get(term)
            if anti is None:
                anti = self._anti[term] = AntiTerm(term)
                self._anti_generation += 1
            _count(anti.holders, row, number)
            anti.by_domain.add(row, number)
            if not anti.holders:
                del self._anti[term]
                self._anti_generation += 1

    def count(self, rule: Rule, capacity: int) -> RuleCount:
        """How many pods the rule finds on each node."""
        count = self._counts.get(rule)
        if count is not None:
            self._counts.move_to_end(rule)
            count.grow(capacity)
            return count
        count = RuleCount(capacity)
        for labelset in self._sets.values():
            if self.matches(rule, labelset):
                labelset.counted_by.append(count)
                for row, number in labelset.pods.items():
                    count.pods[row] += number
                    count.staying[row] += number - labelset.leaving.get(row, 0)
        self._counts[rule] = count
        if len(self._counts) > _COUNTED_RULES:
            self._drop(self._counts.popitem(last=False)[1])
        return count

    def repelling(self, labelset: LabelSet) -> tuple[AntiTerm, ...]:
        """Anti-affinity terms of placed pods that are about pods of this label set."""
        if labelset.repelled_at != self._anti_generation:
            labelset.repelled = tuple(
                anti for anti in self._anti.values() if self.matches((anti.term.matcher,), labelset)
            )
            labelset.repelled_at = self._anti_generation
        return labelset.repelled

    def matches(self, rule: Rule, labelset: LabelSet) -> bool:
        """Whether the rule is about pods of this label set."""
        labels = dict(labelset.labels)
        return all(matcher.matches(labelset.namespace, labels, self._namespace_labels) for matcher in rule)

    def grow(self, capacity: int) -> None:
        """The columns have doubled."""
        for count in self._counts.values():
            count.grow(capacity)

    def namespaces_changed(self) -> None:
        """The labels of a namespace changed: rules that select namespaces are counted afresh when next asked for."""
        for rule in [rule for rule in self._counts if any(matcher.namespace_selector for matcher in rule)]:
            self._drop(self._counts.pop(rule))
        self._anti_generation += 1

    def _drop(self, dropped: RuleCount) -> None:
        for labelset in self._sets.values():
            if dropped in labelset.counted_by:
                labelset.counted_by.remove(dropped)


def _count(counts: dict[int, int], row: int, number: int) -> None:
    left = counts.get(row, 0) + number
    if left:
        counts[row] = left
    else:
        del counts[row]
