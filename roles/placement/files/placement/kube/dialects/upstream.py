# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Upstream's own PodGroup: pods name it in `spec.schedulingGroup`, and its status has conditions only.

Kubernetes 1.36 serves `v1alpha2`, 1.37 serves `v1beta1` in its place. They differ in the condition's name and in how
`disruptionMode` is written.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import msgspec

from placement.kube.dialects import reading
from placement.kube.dialects.dialect import STRATEGIC_PATCH, Dialect, Json, Raw
from placement.kube.fields.field_error import demand
from placement.kube.fields.metadata import Sharing
from placement.kube.wire import group as wire_group
from placement.model.messages.action import GroupPhase, GroupStatus
from placement.model.objects.workload import UPSTREAM, UPSTREAM_ALPHA, PodGroup
from placement.model.rules.topology import TopologyRequest

MEMBER_FIELD: Final = "spec.schedulingPolicy.gang.minCount"
TOPOLOGY_FIELD: Final = "spec.schedulingConstraints.topology"
_group = msgspec.json.Decoder(wire_group.UpstreamGroup)
_members = msgspec.json.Decoder(wire_group.Members)
# The members that are served of each object in a group's spec. A newer API may have others, which demand something too.
_SERVED: Final = {
    ("schedulingPolicy",): {"basic", "gang"},
    ("schedulingPolicy", "basic"): set[str](),
    ("schedulingPolicy", "gang"): {"minCount"},
    ("schedulingConstraints",): {"topology"},
    ("schedulingConstraints", "topology"): {"key"},
}
_PREEMPTION: Final = (None, "", "Never", "PreemptLowerPriority")
_NO_GROUP: Final = wire_group.UpstreamSpec()
_NO_POLICY: Final = wire_group.Policy()
# The condition that says whether the gang has its nodes.
_SCHEDULED: Final = {UPSTREAM: "PodGroupInitiallyScheduled", UPSTREAM_ALPHA: "PodGroupScheduled"}
# `disruptionMode` where pods may be disrupted one by one, in both versions.
_ONE_BY_ONE: Final = (b'"Pod"', b"null", b"{}", b"")


def read_group(dialect: str, raw: Raw, _sharing: Sharing) -> PodGroup:
    """Return the group; with the `basic` policy its pods are scheduled one by one."""
    found = _group.decode(raw)
    spec = found.spec or _NO_GROUP
    gang = (spec.scheduling_policy or _NO_POLICY).gang
    return reading.group(
        found.metadata,
        dialect,
        min_member=1 if gang is None else reading.member_count(gang.min_count),
        priority_class=spec.priority_class_name or "",
        member_field=MEMBER_FIELD,
        phase=GroupPhase.RUNNING if _is_scheduled(found, _SCHEDULED[dialect]) else GroupPhase.PENDING,
        priority=None if spec.priority is None else reading.priority(spec.priority),
        preempts=spec.preemption_policy != "Never",
        unsupported=(*_unsupported(spec), *_unknown(_members.decode(raw).spec)),
        topology=_topology(spec),
    )


def _keys(spec: wire_group.UpstreamSpec) -> list[str]:
    constraints = spec.scheduling_constraints
    return [item.key for item in (constraints.topology if constraints is not None else None) or ()]


def _topology(spec: wire_group.UpstreamSpec) -> TopologyRequest | None:
    keys = _keys(spec)
    return TopologyRequest(required=(keys[0],), field=TOPOLOGY_FIELD) if keys else None


def _unsupported(spec: wire_group.UpstreamSpec) -> Iterator[str]:
    policy = spec.scheduling_policy or _NO_POLICY
    if policy.gang is not None and policy.basic is not None:
        yield demand("spec.schedulingPolicy", "basic and gang", "one of them")
    keys = _keys(spec)
    if len(keys) > 1:
        yield demand(TOPOLOGY_FIELD, keys, "one key")
    mode = spec.disruption_mode
    if bytes(mode) not in _ONE_BY_ONE and not reading.is_object_of(mode, "single"):
        yield demand("spec.disruptionMode", bytes(mode).decode(errors="replace"), "Pod, or single")
    if spec.preemption_policy not in _PREEMPTION:
        yield demand("spec.preemptionPolicy", spec.preemption_policy, "PreemptLowerPriority or Never")
    if spec.resource_claims:
        yield demand("spec.resourceClaims", [item.name for item in spec.resource_claims])
    if spec.parent_composite_pod_group_name:
        yield demand("spec.parentCompositePodGroupName", spec.parent_composite_pod_group_name)


def _unknown(spec: Mapping[str, object] | None) -> Iterator[str]:
    for path, served in _SERVED.items():
        found: object = spec
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        for part in found if isinstance(found, list) else [found]:
            members = part if isinstance(part, Mapping) else {}
            for name in sorted(members.keys() - served):
                if members[name] is not None:
                    yield demand(".".join(("spec", *path, name)), members[name])


def _is_scheduled(found: wire_group.UpstreamGroup, name: str) -> bool:
    conditions = (found.status.conditions if found.status else None) or ()
    return any((condition.type, condition.status) == (name, "True") for condition in conditions)


def group_status(name: str, status: GroupStatus, now: str) -> Json:
    """Return the condition of this name; its reasons are named by the API."""
    if status.scheduled:
        said = {"status": "True", "reason": "Scheduled", "message": status.message}
    else:
        # Our own reasons are finer; they begin the message.
        message = f"{status.reason}: {status.message}" if status.reason else status.message
        said = {"status": "False", "reason": "Unschedulable", "message": message}
    return {"conditions": [{"type": name, "lastTransitionTime": now, **said}]}


def _dialect(name: str, older: Dialect | None = None) -> Dialect:
    return Dialect(
        name=name,
        read_group=partial(read_group, name),
        group_status=partial(group_status, _SCHEDULED[name]),
        patch=STRATEGIC_PATCH,
        older=older,
    )


ALPHA_DIALECT: Final = _dialect(UPSTREAM_ALPHA)
DIALECT: Final = _dialect(UPSTREAM, ALPHA_DIALECT)
