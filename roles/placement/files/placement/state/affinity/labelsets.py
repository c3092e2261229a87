# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the pods of each label set are, and how many pods a rule about other pods finds on each node.

Pods that no selector tells apart are one label set: a set has those labels only whose keys some selector reads. Members
of an Indexed Job or a StatefulSet have a label that numbers them, and mostly nothing reads it. A selector that reads a
new key splits the sets whose pods have that label.

A rule ("pods labelled app=x in this namespace") is matched once against each label set that it may be about instead of
once against each pod, and its counts are then kept by addition. Counts are made when a rule is first asked for and are
dropped when it has not been asked for in a while: they can always be added up again.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, TypeVar

from placement.model.objects.pod import Pod
from placement.model.rules.affinity import PodAffinityTerm, PodMatcher
from placement.model.rules.selector import LabelMap, LabelPairs
from placement.state.affinity.matchers import Bucket, MatcherIndex, buckets
from placement.state.affinity.topology_counts import Tallies, Tally
from placement.state.nodes.node_columns import NodeColumns

_COUNTED_RULES: Final = 256
# Anti-affinity terms whose sums by domain are kept.
_TALLIED_TERMS: Final = 256

Key = TypeVar("Key", bound=Bucket)

# A pod is counted where all of these match it.
Rule = tuple[PodMatcher, ...]


class LabelSet:
    """One namespace and the labels that selectors read: its charged pods by row."""

    __slots__ = (
        "counted_by",
        "guarded",
        "guarded_at",
        "hidden",
        "labels",
        "leaving",
        "namespace",
        "pods",
        "repelled",
        "repelled_at",
        "users",
    )

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
        # UIDs of the disruption budgets that count its pods (see `budgets`).
        self.guarded: tuple[str, ...] = ()
        self.guarded_at = -1
        # Keys of labels that pods of the set have and no selector reads: one tuple for each combination.
        self.hidden: set[tuple[str, ...]] = set()


class Member(Protocol):
    """A known pod and its label set; it is counted on its row if it is charged and has one."""

    pod: Pod
    labelset: LabelSet
    charged: bool
    row: int


class RuleCount:
    """Pods that a rule finds, by row; `staying` leaves out those that are terminating, as topology spread does."""

    __slots__ = ("pods", "pods_by_domain", "staying", "staying_by_domain")

    def __init__(self) -> None:
        self.pods: dict[int, int] = {}
        self.staying: dict[int, int] = {}
        self.pods_by_domain = Tallies()
        self.staying_by_domain = Tallies()

    def add(self, row: int, number: int, *, leaving: bool) -> None:
        """Count pods on a node in (1) or out (-1)."""
        _count(self.pods, row, number)
        self.pods_by_domain.add(row, number)
        if not leaving:
            _count(self.staying, row, number)
            self.staying_by_domain.add(row, number)


class AntiTerm:
    """A required anti-affinity term of placed pods, and the rows they sit in."""

    __slots__ = ("by_domain", "holders", "term")

    def __init__(self, term: PodAffinityTerm) -> None:
        self.term = term
        self.holders: dict[int, int] = {}
        self.by_domain = Tallies()


class LabelSets:
    """All label sets, rules and anti-affinity terms."""

    def __init__(self, namespace_labels: Callable[[str], LabelMap], members: Callable[[], Iterable[Member]]) -> None:
        self._namespace_labels = namespace_labels
        self._members = members
        self._sets: dict[tuple[str, LabelPairs], LabelSet] = {}
        # The same by namespace and label, to find the label sets that match a rule.
        self._found: dict[str, dict[Bucket, dict[LabelSet, None]]] = {}
        # How many selectors read each key, and the sets whose pods have a label that none reads, by its key.
        self._read: dict[str, int] = {}
        self._hiding: dict[str, dict[LabelSet, None]] = {}
        # How often sets have been split, so that pods which were of one set may be of different ones now.
        self.splits = 0
        self._counts: OrderedDict[Rule, RuleCount] = OrderedDict()
        self._counted: MatcherIndex[tuple[Rule, RuleCount]] = MatcherIndex()
        self._anti: dict[PodAffinityTerm, AntiTerm] = {}
        self._repelling: MatcherIndex[AntiTerm] = MatcherIndex()
        self._tallied: OrderedDict[AntiTerm, None] = OrderedDict()
        # Moves when a label set's list of repelling terms may be out of date.
        self._anti_generation = 0

    def obtain(self, namespace: str, labels: LabelPairs) -> LabelSet:
        """Return a label set of all these labels, for a query about a pod that is not known."""
        return LabelSet(namespace, labels)

    def read(self, keys: Iterable[str]) -> None:
        """Tell pods apart by these labels from now on: a selector reads them."""
        fresh: list[str] = []
        for key in keys:
            known = self._read.get(key, 0)
            self._read[key] = known + 1
            if not known and key in self._hiding:
                fresh.append(key)
        if fresh:
            self._split({labelset for key in fresh for labelset in self._hiding[key]})

    def unread(self, keys: Iterable[str]) -> None:
        """Note that a selector is gone which read these labels; sets that are told apart by them stay."""
        for key in keys:
            self._read[key] -= 1
            if not self._read[key]:
                del self._read[key]

    def _split(self, hiding: set[LabelSet]) -> None:
        self.splits += 1
        for member in self._members():
            old = member.labelset
            if old not in hiding:
                continue
            counted, leaving = member.charged and member.row >= 0, member.pod.terminating
            if counted:
                self.place(old, member.row, -1, leaving=leaving)
            self.leave(old)
            member.labelset = self.enter(member.pod.namespace, member.pod.labels)
            if counted:
                self.place(member.labelset, member.row, 1, leaving=leaving)

    def enter(self, namespace: str, labels: LabelPairs) -> LabelSet:
        """Return the label set of a pod that has become known."""
        shown = tuple([pair for pair in labels if pair[0] in self._read]) if labels else labels
        labelset = self._sets.get((namespace, shown))
        if labelset is None:
            labelset = self._sets[namespace, shown] = LabelSet(namespace, shown)
            found = self._found.setdefault(namespace, {})
            for bucket in (None, *shown):
                found.setdefault(bucket, {})[labelset] = None
            candidates = self._counted.candidates(namespace, shown)
            labelset.counted_by = [count for rule, count in candidates if self.matches(rule, labelset)]
        if len(shown) < len(labels):
            hidden = tuple([key for key, _value in labels if key not in self._read])
            if hidden not in labelset.hidden:
                labelset.hidden.add(hidden)
                for key in hidden:
                    self._hiding.setdefault(key, {})[labelset] = None
        labelset.users += 1
        return labelset

    def leave(self, labelset: LabelSet) -> None:
        """Forget a pod's label set; the pod must not be charged any more."""
        labelset.users -= 1
        if labelset.users:
            return
        del self._sets[labelset.namespace, labelset.labels]
        found = self._found[labelset.namespace]
        for bucket in (None, *labelset.labels):
            _forget(found, bucket, labelset)
        if not found:
            del self._found[labelset.namespace]
        for key in {key for hidden in labelset.hidden for key in hidden}:
            _forget(self._hiding, key, labelset)

    def labelled(self, key: str, value: str) -> Iterator[LabelSet]:
        """Yield the sets of all namespaces whose pods have this label; the key must be one that is read."""
        for found in self._found.values():
            yield from found.get((key, value), ())

    def place(self, labelset: LabelSet, row: int, number: int, *, leaving: bool) -> None:
        """Count a pod in (1) or out (-1)."""
        _count(labelset.pods, row, number)
        if leaving:
            _count(labelset.leaving, row, number)
        for count in labelset.counted_by:
            count.add(row, number, leaving=leaving)

    def place_terms(self, terms: Iterable[PodAffinityTerm], row: int, number: int) -> None:
        """Count the anti-affinity terms of a pod in or out."""
        for term in terms:
            anti = self._anti.get(term)
            if anti is None:
                anti = self._anti[term] = AntiTerm(term)
                self._repelling.add(term.matcher, anti)
                self._anti_generation += 1
            _count(anti.holders, row, number)
            anti.by_domain.add(row, number)
            if not anti.holders:
                del self._anti[term]
                self._repelling.discard(term.matcher, anti)
                self._tallied.pop(anti, None)
                self._anti_generation += 1

    def count(self, rule: Rule) -> RuleCount:
        """How many pods the rule finds on each node."""
        count = self._counts.get(rule)
        if count is not None:
            self._counts.move_to_end(rule)
            return count
        # A rule of a pod that is not known may read labels that no other does.
        self.read(keys_of(rule))
        count = RuleCount()
        for labelset in self._matching(rule):
            labelset.counted_by.append(count)
            for row, number in labelset.pods.items():
                _count(count.pods, row, number)
                staying = number - labelset.leaving.get(row, 0)
                if staying:
                    _count(count.staying, row, staying)
        self._counts[rule] = count
        self._counted.add(rule[0], (rule, count))
        if len(self._counts) > _COUNTED_RULES:
            oldest, dropped = next(iter(self._counts.items()))
            self._drop(oldest, dropped, self._matching(oldest))
        return count

    def repelling(self, labelset: LabelSet) -> tuple[AntiTerm, ...]:
        """Anti-affinity terms of placed pods that are about pods of this label set."""
        if labelset.repelled_at != self._anti_generation:
            candidates = self._repelling.candidates(labelset.namespace, labelset.labels)
            labelset.repelled = tuple([anti for anti in candidates if self.matches((anti.term.matcher,), labelset)])
            labelset.repelled_at = self._anti_generation
        return labelset.repelled

    def held(self, anti: AntiTerm, columns: NodeColumns) -> Tally:
        """How many pods with the term there are in each domain; sums of the terms asked for last are kept."""
        self._tallied[anti] = None
        self._tallied.move_to_end(anti)
        if len(self._tallied) > _TALLIED_TERMS:
            self._tallied.popitem(last=False)[0].by_domain.clear()
        return anti.by_domain.obtain(columns, anti.term.topology_key, anti.holders)

    def matches(self, rule: Rule, labelset: LabelSet) -> bool:
        """Whether the rule is about pods of this label set."""
        labels = dict(labelset.labels)
        return all(matcher.matches(labelset.namespace, labels, self._namespace_labels) for matcher in rule)

    def namespaces_changed(self) -> None:
        """Note new labels of a namespace: rules that select namespaces are counted again when next asked for."""
        for rule, count in list(self._counts.items()):
            if any(matcher.namespace_selector for matcher in rule):
                self._drop(rule, count, self._sets.values())
        self._anti_generation += 1

    def _matching(self, rule: Rule) -> Iterator[LabelSet]:
        first = rule[0]
        if first.selector is None:
            return
        for namespace in sorted(first.namespaces) if first.namespace_selector is None else list(self._found):
            found = self._found.get(namespace, {})
            for bucket in buckets(first.selector):
                # Sets are not kept by keys alone.
                for labelset in found.get(None if isinstance(bucket, str) else bucket, ()):
                    if self.matches(rule, labelset):
                        yield labelset

    def _drop(self, rule: Rule, dropped: RuleCount, counted: Iterable[LabelSet]) -> None:
        del self._counts[rule]
        self._counted.discard(rule[0], (rule, dropped))
        self.unread(keys_of(rule))
        for labelset in counted:
            if dropped in labelset.counted_by:
                labelset.counted_by.remove(dropped)


def keys_of(rule: Rule) -> list[str]:
    """Return the label keys that the rule reads."""
    selectors = [matcher.selector for matcher in rule if matcher.selector is not None]
    return [requirement.key for selector in selectors for requirement in selector.requirements]


def _count(counts: dict[int, int], row: int, number: int) -> None:
    left = counts.get(row, 0) + number
    if left:
        counts[row] = left
    else:
        del counts[row]


def _forget(table: dict[Key, dict[LabelSet, None]], key: Key, labelset: LabelSet) -> None:
    found = table[key]
    del found[labelset]
    if not found:
        del table[key]
