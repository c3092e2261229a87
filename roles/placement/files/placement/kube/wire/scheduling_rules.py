# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules in a pod's spec (selectors, affinity, tolerations, spread) as msgspec structs."""

from msgspec import field

from placement.kube.wire.core import Labels, Wire


class Requirement(Wire):
    """One requirement of a label or node selector."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Wire):
    """Labels and requirements together."""

    match_labels: Labels = None
    match_expressions: list[Requirement] | None = None


class NodeSelectorTerm(Wire):
    """One alternative of a node selector."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(Wire):
    """Alternatives."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredNodeTerm(Wire):
    """A node preference."""

    weight: int = 0
    preference: NodeSelectorTerm | None = None


class NodeAffinity(Wire):
    """What a pod needs and likes of a node."""

    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredNodeTerm] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Wire):
    """Pods, and the domain they are looked for in."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None


class WeightedPodAffinityTerm(Wire):
    """A preference about pods."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(Wire):
    """What a pod needs and likes about other pods."""

    required: list[PodAffinityTerm] | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[WeightedPodAffinityTerm] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire):
    """All of a pod's affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Wire):
    """A toleration."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class TopologySpread(Wire):
    """A topology spread constraint."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
