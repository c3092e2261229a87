# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about other pods: where required affinity, anti-affinity and hard topology spread let a pod go.

The answers depend on where every other pod is, so they are never stored with a shape: they are made for the whole
cluster at once, from the counts by node and the label columns, when a pod is about to be placed.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.model.affinity import PodAffinityTerm, TopologySpread
from placement.model.pod import PodSpec
from placement.state.columns import NodeColumns
from placement.state.labelsets import LabelSet, LabelSets
from placement.state.masks import Bools, MaskTable

AFFINITY: Final = "pod affinity"
ANTI_AFFINITY: Final = "pod anti-affinity"
REPELLED: Final = "anti-affinity of other pods"
SPREAD: Final = "topology spread"
SPREAD_KEY: Final = "topology spread (label missing)"


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
        return any(constraint.hard for constraint in spec.spread)

    def allowed(self, spec: PodSpec, labelset: LabelSet) -> Bools | None:
        """Rows that every rule allows; None means all."""
        if not self.apply_to(spec, labelset):
            return None
        answers = self.answers(spec, labelset)
        together = answers[0][1]
        for _unused, answer in answers[1:]:
            together = together & answer
        return together

    def answers(self, spec: PodSpec, labelset: LabelSet) -> list[tuple[str, Bools]]:
        """Each rule with the rows it allows, for an explanation."""
        found: list[tuple[str, Bools]] = []
        if spec.affinity:
            found.append((AFFINITY, self._near(spec.affinity, labelset)))
        found += [(ANTI_AFFINITY, self._apart(term)) for term in spec.anti_affinity]
        for anti in self._labelsets.repelling(labelset):
            domains = self._columns.label_column(anti.term.topology_key)
            taken = np.zeros(len(domains.ids) + 1, np.bool_)
            taken[domains.of_row[anti.rows()]] = True
            # A holder on a node without the key keeps nobody away.
            taken[-1] = False
            found.append((REPELLED, ~taken[domains.of_row]))
        hard = [constraint for constraint in spec.spread if constraint.hard]
        for constraint in hard:
            found += self._spread(constraint, hard, spec, labelset)
        return found

    def preferences(self, spec: PodSpec, labelset: LabelSet) -> NDArray[np.float32] | None:
        """How much each row is liked for the pods that are near it, from 0 to 100; None where nothing is preferred."""
        soft = [constraint for constraint in spec.spread if not constraint.hard]
        if not (spec.preferred_pods or soft):
            return None
        liked = np.zeros(self._columns.capacity, np.float32)
        for weighted in spec.preferred_pods:
            term = weighted.term
            counts = self._labelsets.count((term.matcher,), self._columns.capacity).pods
            domains = self._columns.label_column(term.topology_key)
            per_domain = _by_domain(domains.of_row, counts, len(domains.ids))
            per_domain[-1] = 0
            liked += np.float32(weighted.weight) * per_domain[domains.of_row].astype(np.float32)
        for constraint in soft:
            counts = self._labelsets.count((constraint.matcher,), self._columns.capacity).staying
            domains = self._columns.label_column(constraint.topology_key)
            per_domain = _by_domain(domains.of_row, counts, len(domains.ids))
            # A node without the key is the last choice.
            per_domain[-1] = per_domain[:-1].max(initial=0) + 1
            liked -= per_domain[domains.of_row].astype(np.float32)
        least, most = liked.min(), liked.max()
        return (liked - least) * (np.float32(100) / (most - least)) if most > least else None

    def _near(self, terms: tuple[PodAffinityTerm, ...], labelset: LabelSet) -> Bools:
        """Every term's domain has a pod that all terms match; the first of its kind may start anywhere."""
        rule = tuple(term.matcher for term in terms)
        counts = self._labelsets.count(rule, self._columns.capacity).pods
        has_keys = np.ones(self._columns.capacity, np.bool_)
        has_pods = has_keys.copy()
        somewhere = False
        for term in terms:
            domains = self._columns.label_column(term.topology_key)
            labelled = domains.of_row >= 0
            per_domain = _by_domain(domains.of_row, counts, len(domains.ids)) > 0
            somewhere = somewhere or bool(per_domain[:-1].any())
            has_keys &= labelled
            has_pods &= per_domain[domains.of_row]
        if not somewhere and self._labelsets.matches(rule, labelset):
            return has_keys
        return has_keys & has_pods

    def _apart(self, term: PodAffinityTerm) -> Bools:
        """No matching pod in the domain; a node without the key is in no domain."""
        counts = self._labelsets.count((term.matcher,), self._columns.capacity).pods
        domains = self._columns.label_column(term.topology_key)
        per_domain = _by_domain(domains.of_row, counts, len(domains.ids))
        per_domain[-1] = 0
        free: Bools = np.equal(per_domain, 0)[domains.of_row]
        return free

    def _spread(
        self, constraint: TopologySpread, hard: list[TopologySpread], spec: PodSpec, labelset: LabelSet
    ) -> list[tuple[str, Bools]]:
        domains = self._columns.label_column(constraint.topology_key)
        labelled = domains.of_row >= 0
        size = len(domains.ids)
        eligible = self._eligible(constraint, hard, spec)
        exists = np.bincount(domains.of_row[eligible], minlength=size)[:size] > 0
        selector = constraint.matcher.selector
        # kube-scheduler counts no pods for a selector without requirements, although such a selector matches all.
        if selector is not None and selector.requirements:
            counts = self._labelsets.count((constraint.matcher,), self._columns.capacity).staying
            per_domain = _by_domain(domains.of_row, np.where(eligible, counts, 0), size)
        else:
            per_domain = np.zeros(size + 1, np.int64)
        number = int(exists.sum())
        least = 0 if number < max(constraint.min_domains, 1) else int(per_domain[:size][exists].min())
        itself = selector is not None and selector.matches(dict(labelset.labels))
        even = per_domain + int(itself) - least <= constraint.max_skew
        return [(SPREAD_KEY, labelled), (SPREAD, even[domains.of_row] | ~labelled)]

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


def _by_domain(of_row: NDArray[np.int32], counts: NDArray[np.int32], size: int) -> NDArray[np.int64]:
    """Sums by domain; the last entry is the sum over rows without one, so that -1 finds it."""
    # Few rows have pods of one kind: adding those up is much less than adding up all.
    rows = np.flatnonzero(counts)
    summed = np.bincount(of_row[rows] + 1, weights=counts[rows], minlength=size + 1)
    return np.roll(summed, -1).astype(np.int64)
