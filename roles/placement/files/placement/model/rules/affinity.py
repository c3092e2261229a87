# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of a pod about other pods: affinity, anti-affinity and topology spread."""

from collections.abc import Callable
from dataclasses import dataclass

from placement.model.rules.selector import LabelMap, LabelSelector


@dataclass(frozen=True, slots=True)
class PodMatcher:
    """Which pods a term is about: those of some namespaces whose labels match.

    A selector of `None` matches no pod. `namespace_selector=None` adds no namespace, an empty one adds all.
    """

    namespaces: frozenset[str]
    selector: LabelSelector | None
    namespace_selector: LabelSelector | None = None

    def matches(self, namespace: str, labels: LabelMap, namespace_labels: Callable[[str], LabelMap]) -> bool:
        """Whether the term is about a pod in this namespace with these labels."""
        if self.selector is None or not self.selector.matches(labels):
            return False
        if namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and self.namespace_selector.matches(namespace_labels(namespace))


@dataclass(frozen=True, slots=True)
class PodAffinityTerm:
    """Pods of this kind, in one domain of this topology key."""

    matcher: PodMatcher
    topology_key: str


@dataclass(frozen=True, slots=True)
class WeightedPodAffinityTerm:
    """A preference; a negative weight is anti-affinity."""

    term: PodAffinityTerm
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySpread:
    """At most `max_skew` more matching pods in one domain than in the emptiest eligible one."""

    topology_key: str
    matcher: PodMatcher
    max_skew: int = 1
    min_domains: int = 1
    # DoNotSchedule is hard, ScheduleAnyway is a preference.
    hard: bool = True
    honor_node_affinity: bool = True
    honor_node_taints: bool = False
