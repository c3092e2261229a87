# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about other pods: where required affinity, anti-affinity and hard topology spread let a pod go.

What a rule says, it says of domains: of each value of a node label, and of nodes without it. The counts by domain are
kept by addition (see `topology_counts`), and only when the rules of a pod have been put together they are answered by
node.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement.model.objects.pod import PodSpec
from placement.model.rules.affinity import PodAffinityTerm, TopologySpread
from placement.state.affinity.labelsets import LabelSet, LabelSets, Rule
from placement.state.affinity.topology_counts import Tally
from placement.state.nodes.node_columns import LabelColumn, NodeColumns
from placement.state.nodes.node_filters import Bools, MaskTable

AFFINITY: Final = "pod affinity"
ANTI_AFFINITY: Final = "pod anti-affinity"
REPELLED: Final = "anti-affinity of other pods"
SPREAD: Final = "topology spread"
SPREAD_KEY: Final = "topology spread (label missing)"


class Verdict(NamedTuple):
    """What one rule says of each domain; the last is for nodes that are in none."""

    reason: str
    column: LabelColumn
    allows: Bools

    def rows(self) -> Bools:
        """Return the same by row."""
        rows: Bools = self.allows.take(self.column.of_row)
        return rows


class DomainRules:
    """Answers over one cluster."""

    def __init__(self, columns: NodeColumns, masks: MaskTable, labelsets: LabelSets) -> None:
        self._columns = columns
        self._masks = masks
        self._labelsets = labelsets

    def apply_to(self, spec: PodSpec, labelset: LabelSet) -> bool:
        """Whether any rule about other pods concerns such a pod."""
        if spec.affinity or spec.anti_affinity or self._labelsets.repelling(labelset):
            return True
        return bool(spec.spread) and any(constraint.hard for constraint in spec.spread)

    def allowed(self, spec: PodSpec, labelset: LabelSet) -> Bools | None:
        """Rows that every rule allows; None means all."""
        if not self.apply_to(spec, labelset):
            return None
        # Domains are few, rows are many: what is about one label is put together before it is spread over the rows.
        joint: dict[int, Verdict] = {}
        for verdict in self._verdicts(spec, labelset):
            known = joint.get(id(verdict.column))
            both = verdict.allows if known is None else known.allows & verdict.allows
            joint[id(verdict.column)] = Verdict(verdict.reason, verdict.column, both)
        together, *others = (verdict.rows() for verdict in joint.values())
        for other in others:
            together &= other
        return together

    def answers(self, spec: PodSpec, labelset: LabelSet) -> list[tuple[str, Bools]]:
        """Each rule with the rows it allows, for an explanation."""
        return [(verdict.reason, verdict.rows()) for verdict in self._verdicts(spec, labelset)]

    def _verdicts(self, spec: PodSpec, labelset: LabelSet) -> Iterator[Verdict]:
        if spec.affinity:
            yield from self._near(spec.affinity, labelset)
        for term in spec.anti_affinity:
            yield _apart(ANTI_AFFINITY, self._pods((term.matcher,), term.topology_key))
        for anti in self._labelsets.repelling(labelset):
            yield _apart(REPELLED, self._labelsets.held(anti, self._columns))
        hard = [constraint for constraint in spec.spread if constraint.hard]
        for constraint in hard:
            yield from self._spread(constraint, hard, spec, labelset)

    def preferences(self, spec: PodSpec, labelset: LabelSet) -> NDArray[np.float32] | None:
        """How much each row is liked for the pods that are near it, from 0 to 100; None where nothing is preferred."""
        soft = [constraint for constraint in spec.spread if not constraint.hard]
        if not (spec.preferred_pods or soft):
            return None
        liked = np.zeros(self._columns.capacity, np.float32)
        for weighted in spec.preferred_pods:
            tally = self._pods((weighted.term.matcher,), weighted.term.topology_key)
            sums = tally.sums.astype(np.float32)
            # A node without the key is near nobody.
            sums[-1] = 0
            liked += np.float32(weighted.weight) * sums.take(tally.column.of_row)
        for constraint in soft:
            tally = self._staying(constraint)
            sums = tally.sums.astype(np.float32)
            # A node without the key is the last choice.
            sums[-1] = sums[:-1].max(initial=0) + 1
            liked -= sums.take(tally.column.of_row)
        least, most = liked.min(), liked.max()
        return (liked - least) * (np.float32(100) / (most - least)) if most > least else None

    def _pods(self, rule: Rule, key: str) -> Tally:
        count = self._labelsets.count(rule)
        return count.pods_by_domain.obtain(self._columns, key, count.pods)

    def _staying(
        self, constraint: TopologySpread, eligible: Callable[[], Bools] | None = None, mark: Hashable = None
    ) -> Tally:
        count, key = self._labelsets.count((constraint.matcher,)), constraint.topology_key
        return count.staying_by_domain.obtain(self._columns, key, count.staying, eligible=eligible, mark=mark)

    def _near(self, terms: tuple[PodAffinityTerm, ...], labelset: LabelSet) -> Iterator[Verdict]:
        """Every term's domain has a pod that all terms match; the first of its kind may start anywhere."""
        rule = tuple(term.matcher for term in terms)
        # To look a rule up takes as long as it has terms, so it is done once, and terms about one key are one verdict.
        count = self._labelsets.count(rule)
        keys = dict.fromkeys(term.topology_key for term in terms)
        tallies = [count.pods_by_domain.obtain(self._columns, key, count.pods) for key in keys]
        somewhere = any(tally.sums[:-1].any() for tally in tallies)
        anywhere = not somewhere and self._labelsets.matches(rule, labelset)
        for tally in tallies:
            allows = np.ones(len(tally.sums), np.bool_) if anywhere else tally.sums > 0
            allows[-1] = False
            yield Verdict(AFFINITY, tally.column, allows)

    def _spread(
        self, constraint: TopologySpread, hard: list[TopologySpread], spec: PodSpec, labelset: LabelSet
    ) -> Iterator[Verdict]:
        selector = constraint.matcher.selector
        mark = (
            tuple(other.topology_key for other in hard),
            spec.selector if constraint.honor_node_affinity else None,
            spec.tolerations if constraint.honor_node_taints else None,
        )
        tally = self._staying(constraint, lambda: self._eligible(constraint, hard, spec), mark)
        sums = tally.sums
        # kube-scheduler counts no pods for a selector without requirements, although such a selector matches all.
        if selector is None or not selector.requirements:
            sums = np.zeros(len(sums), np.int64)
        existing = sums[:-1] if tally.exists is None else sums[:-1][tally.exists]
        least = 0 if len(existing) < max(constraint.min_domains, 1) else int(existing.min())
        itself = selector is not None and selector.matches(dict(labelset.labels))
        labelled = np.ones(len(sums), np.bool_)
        labelled[-1] = False
        yield Verdict(SPREAD_KEY, tally.column, labelled)
        even = sums + int(itself) - least <= constraint.max_skew
        even[-1] = True
        yield Verdict(SPREAD, tally.column, even)

    def _eligible(self, constraint: TopologySpread, hard: list[TopologySpread], spec: PodSpec) -> Bools:
        """Nodes whose domains count: those with all keys, and by policy those the pod's own rules accept."""
        eligible = self._masks.present()
        for other in hard:
            eligible &= self._columns.label_column(other.topology_key).of_row >= 0
        if constraint.honor_node_affinity:
            eligible &= self._masks.selector(spec.selector).allows
        if constraint.honor_node_taints:
            eligible &= self._masks.taints(spec.tolerations).allows
        return eligible


def _apart(reason: str, tally: Tally) -> Verdict:
    """No such pod in the domain; a node without the key is in no domain."""
    allows = np.equal(tally.sums, 0)
    allows[-1] = True
    return Verdict(reason, tally.column, allows)
