# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes, namespaces and priority classes from their JSON."""

from datetime import datetime
from functools import lru_cache

import msgspec

from placement.kube.fields.field_error import FieldError, shown
from placement.kube.fields.metadata import Sharing, require_identity
from placement.kube.fields.resources import read_allocatable
from placement.kube.wire import core
from placement.model.objects.node import Node
from placement.model.objects.workload import Namespace, PriorityClass
from placement.model.rules.selector import Effect, Taint

HELD_BY_ANNOTATION = "converged.hpc/held-by"
HELD_UNTIL_ANNOTATION = "converged.hpc/held-until"
LEASES_ANNOTATION = "converged.hpc/leases"
PLANNED_ANNOTATION = "converged.hpc/planned-start"

_node = msgspec.json.Decoder(core.Node)
_named = msgspec.json.Decoder(core.Named)
_priority_class = msgspec.json.Decoder(core.PriorityClass)


def decode_node(raw: bytes | msgspec.Raw, sharing: Sharing) -> Node:
    """Decode a Node. Raise FieldError or a msgspec error; the functions below raise the same."""
    node = _node.decode(raw)
    version = require_identity(node.metadata, namespaced=False)
    spec, status = node.spec or core.NodeSpec(), node.status or core.NodeStatus()
    annotations = node.metadata.annotations or {}
    return Node(
        uid=node.metadata.uid,
        name=node.metadata.name,
        version=version,
        labels=sharing.labels(node.metadata.labels),
        taints=tuple(_taint(item) for item in spec.taints or ()),
        unschedulable=bool(spec.unschedulable),
        allocatable=sharing.amounts(read_allocatable(status.allocatable)),
        declared=_declared(tuple(status.declared_features or ())),
        held_by=annotations.get(HELD_BY_ANNOTATION, ""),
        held_until=annotations.get(HELD_UNTIL_ANNOTATION, ""),
        leases=annotations.get(LEASES_ANNOTATION, ""),
        planned=_planned(annotations.get(PLANNED_ANNOTATION, "")),
    )


@lru_cache(maxsize=1 << 10)
def _declared(features: tuple[str, ...]) -> frozenset[str]:
    """Return the features as a set; nodes of one kind share it."""
    return frozenset(features)


def _planned(text: str) -> float | None:
    """Return a time with its zone in seconds since 1970. A plan that cannot be read is no plan."""
    try:
        at = datetime.fromisoformat(text) if text else None
        return at.timestamp() if at is not None and at.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _taint(item: core.Taint) -> Taint:
    try:
        return Taint(item.key, item.value or "", Effect(item.effect))
    except ValueError:
        raise FieldError("spec.taints.effect", f"unknown effect {shown(item.effect)}") from None


def decode_namespace(raw: bytes | msgspec.Raw, sharing: Sharing) -> Namespace:
    """Decode a Namespace."""
    meta = _named.decode(raw).metadata
    version = require_identity(meta, namespaced=False)
    return Namespace(uid=meta.uid, name=meta.name, version=version, labels=sharing.labels(meta.labels))


def decode_priority_class(raw: bytes | msgspec.Raw, _sharing: Sharing) -> PriorityClass:
    """Decode a PriorityClass."""
    item = _priority_class.decode(raw)
    return PriorityClass(
        uid=item.metadata.uid,
        name=item.metadata.name,
        version=require_identity(item.metadata, namespaced=False),
        value=item.value,
        is_default=bool(item.global_default),
        preempts=item.preemption_policy != "Never",
    )
