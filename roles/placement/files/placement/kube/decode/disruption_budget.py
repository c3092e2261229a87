# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disruption budgets and storage classes from their JSON."""

import msgspec

from placement.kube.decode.scheduling_rules import label_selector
from placement.kube.fields.metadata import Sharing, require_identity
from placement.kube.wire import core, scheduling_rules
from placement.kube.wire.volume import MIGRATED
from placement.model.objects.disruption import DisruptionBudget
from placement.model.objects.volume import StorageClass
from placement.model.rules.selector import NodeSelectorTerm, Operator, Requirement


class _BudgetSpec(core.Wire):
    selector: scheduling_rules.LabelSelector | None = None


class _BudgetStatus(core.Wire):
    disruptions_allowed: int = 0


class _Budget(core.Named):
    spec: _BudgetSpec | None = None
    status: _BudgetStatus | None = None


class _TopologyLabel(core.Wire):
    key: str = ""
    values: list[str] | None = None


class _Topology(core.Wire):
    match_label_expressions: list[_TopologyLabel] | None = None


class _StorageClass(core.Named):
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[_Topology] | None = None


_budget = msgspec.json.Decoder(_Budget)
_storage_class = msgspec.json.Decoder(_StorageClass)
_NO_SPEC = _BudgetSpec()
_NO_STATUS = _BudgetStatus()


def decode_budget(raw: bytes | msgspec.Raw, _sharing: Sharing) -> DisruptionBudget:
    """Decode a PodDisruptionBudget; one without a status allows nothing."""
    item = _budget.decode(raw)
    spec, status = item.spec or _NO_SPEC, item.status or _NO_STATUS
    return DisruptionBudget(
        uid=item.metadata.uid,
        namespace=item.metadata.namespace,
        name=item.metadata.name,
        version=require_identity(item.metadata, namespaced=True),
        selector=label_selector(spec.selector, "spec.selector"),
        allowed=status.disruptions_allowed,
    )


def decode_storage_class(raw: bytes | msgspec.Raw, _sharing: Sharing) -> StorageClass:
    """Decode a StorageClass."""
    item = _storage_class.decode(raw)
    return StorageClass(
        uid=item.metadata.uid,
        name=item.metadata.name,
        version=require_identity(item.metadata, namespaced=False),
        provisioner=MIGRATED.get(item.provisioner, item.provisioner),
        waits=item.volume_binding_mode == "WaitForFirstConsumer",
        topology=None if not item.allowed_topologies else tuple(_term(term) for term in item.allowed_topologies),
    )


def _term(topology: _Topology) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(
            Requirement(label.key, Operator.IN, tuple(label.values or ()))
            for label in topology.match_label_expressions or ()
        )
    )
