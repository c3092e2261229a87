# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selectors, affinity, tolerations and spread constraints: from the JSON of a pod's spec to the model.

Each entry takes the raw JSON text and remembers the answer, because pods of one controller repeat it to the byte.
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from placement.kube.fields.field_error import FieldError, shown
from placement.kube.wire import scheduling_rules as wire
from placement.model.objects.pod import PreferredNodeTerm
from placement.model.rules.affinity import PodAffinityTerm, PodMatcher, TopologySpread, WeightedPodAffinityTerm
from placement.model.rules.selector import (
    LabelPairs,
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    Toleration,
)

_REMEMBERED = 4096

_affinity = msgspec.json.Decoder(wire.Affinity | None)
_tolerations = msgspec.json.Decoder(list[wire.Toleration] | None)
_spread = msgspec.json.Decoder(list[wire.TopologySpread] | None)


class Affinity(msgspec.Struct, frozen=True, gc=False):
    """All of a pod's affinity, in the model's records."""

    # None: no required node affinity.
    node_terms: tuple[NodeSelectorTerm, ...] | None = None
    preferred_nodes: tuple[PreferredNodeTerm, ...] = ()
    pods: tuple[PodAffinityTerm, ...] = ()
    anti_pods: tuple[PodAffinityTerm, ...] = ()
    preferred_pods: tuple[WeightedPodAffinityTerm, ...] = ()


@lru_cache(maxsize=_REMEMBERED)
def read_affinity(text: bytes, namespace: str) -> Affinity:
    """`spec.affinity` of a pod in this namespace."""
    affinity = _affinity.decode(text)
    if affinity is None:
        return Affinity()
    node, pods, anti = affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity
    return Affinity(
        node_terms=node_terms(node.required) if node and node.required else None,
        preferred_nodes=tuple(
            PreferredNodeTerm(_node_term(item.preference), item.weight)
            for item in (node.preferred if node else None) or ()
            if item.weight and item.preference is not None
        ),
        pods=_pod_terms(pods.required if pods else None, namespace, "spec.affinity.podAffinity"),
        anti_pods=_pod_terms(anti.required if anti else None, namespace, "spec.affinity.podAntiAffinity"),
        preferred_pods=(
            *_weighted(pods.preferred if pods else None, namespace, 1),
            *_weighted(anti.preferred if anti else None, namespace, -1),
        ),
    )


@lru_cache(maxsize=_REMEMBERED)
def read_tolerations(text: bytes) -> tuple[Toleration, ...]:
    """`spec.tolerations`."""
    return tuple(
        Toleration(key=item.key or "", operator=item.operator or "", value=item.value or "", effect=item.effect or "")
        for item in _tolerations.decode(text) or ()
    )


@lru_cache(maxsize=_REMEMBERED)
def read_spread(text: bytes, namespace: str, labels: LabelPairs) -> tuple[TopologySpread, ...]:
    """`spec.topologySpreadConstraints` of a pod with these labels (its `matchLabelKeys` refer to them)."""
    return tuple(_spread_of(item, namespace, dict(labels)) for item in _spread.decode(text) or ())


def node_terms(selector: wire.NodeSelector) -> tuple[NodeSelectorTerm, ...]:
    """Decode the alternatives of a node selector."""
    return tuple(_node_term(term) for term in selector.node_selector_terms or ())


def label_selector(selector: wire.LabelSelector | None, field: str) -> LabelSelector | None:
    """Decode a label selector. Unlike a node selector's term, an invalid one raises FieldError."""
    if selector is None:
        return None
    equal = tuple(
        Requirement(key, Operator.IN, (value,)) for key, value in sorted((selector.match_labels or {}).items())
    )
    requirements = (*equal, *_requirements(selector.match_expressions, field))
    for requirement in requirements:
        error = requirement.error()
        if error is None and requirement.operator in (Operator.GT, Operator.LT):
            error = f"{requirement.operator} is for nodes only"
        if error is not None:
            raise FieldError(field, error)
    return LabelSelector(requirements)


def _requirements(items: Sequence[wire.Requirement] | None, field: str) -> tuple[Requirement, ...]:
    found = []
    for item in items or ():
        try:
            operator = Operator(item.operator)
        except ValueError:
            raise FieldError(field, f"unknown operator {shown(item.operator)}") from None
        found.append(Requirement(item.key, operator, tuple(item.values or ())))
    return tuple(found)


def _node_term(term: wire.NodeSelectorTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        _requirements(term.match_expressions, "nodeSelectorTerms.matchExpressions"),
        _requirements(term.match_fields, "nodeSelectorTerms.matchFields"),
    )


def _pod_terms(terms: Sequence[wire.PodAffinityTerm] | None, namespace: str, field: str) -> tuple[PodAffinityTerm, ...]:
    return tuple(_pod_term(term, namespace, field) for term in terms or ())


def _weighted(
    terms: Sequence[wire.WeightedPodAffinityTerm] | None, namespace: str, sign: int
) -> tuple[WeightedPodAffinityTerm, ...]:
    return tuple(
        WeightedPodAffinityTerm(_pod_term(item.pod_affinity_term, namespace, "podAffinityTerm"), sign * item.weight)
        for item in terms or ()
        if item.weight and item.pod_affinity_term is not None
    )


def _pod_term(term: wire.PodAffinityTerm, namespace: str, field: str) -> PodAffinityTerm:
    if not term.topology_key:
        raise FieldError(f"{field}.topologyKey", "is empty")
    # Neither namespaces nor a selector of them: the pod's own namespace is meant.
    own = () if term.namespaces or term.namespace_selector else (namespace,)
    matcher = PodMatcher(
        frozenset(term.namespaces or own),
        label_selector(term.label_selector, f"{field}.labelSelector"),
        label_selector(term.namespace_selector, f"{field}.namespaceSelector"),
    )
    return PodAffinityTerm(matcher, term.topology_key)


def _spread_of(item: wire.TopologySpread, namespace: str, labels: dict[str, str]) -> TopologySpread:
    field = "spec.topologySpreadConstraints"
    if item.max_skew < 1:
        raise FieldError(f"{field}.maxSkew", f"{item.max_skew} is not positive")
    if not item.topology_key:
        raise FieldError(f"{field}.topologyKey", "is empty")
    if item.when_unsatisfiable not in ("DoNotSchedule", "ScheduleAnyway"):
        raise FieldError(f"{field}.whenUnsatisfiable", f"unknown value {shown(item.when_unsatisfiable)}")
    selector = label_selector(item.label_selector, f"{field}.labelSelector")
    if selector is not None:
        own = [Requirement(key, Operator.IN, (labels[key],)) for key in item.match_label_keys or () if key in labels]
        # Newer API servers have merged them already.
        added = tuple(requirement for requirement in own if requirement not in selector.requirements)
        selector = LabelSelector((*selector.requirements, *added))
    return TopologySpread(
        topology_key=item.topology_key,
        matcher=PodMatcher(frozenset({namespace}), selector),
        max_skew=item.max_skew,
        min_domains=item.min_domains or 1,
        hard=item.when_unsatisfiable == "DoNotSchedule",
        honor_node_affinity=item.node_affinity_policy != "Ignore",
        honor_node_taints=item.node_taints_policy == "Honor",
    )
