# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each action is as a request to the API: pure functions from an action to method, path and body.

Every write names the UID it means, so that it never meets a namesake.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from placement.kube.dialects.dialect import STRATEGIC_PATCH, Dialect
from placement.kube.wire.volume import BOUND_BY_CONTROLLER, SELECTED_NODE
from placement.model.messages.action import Bind, BindVolume, Evict, GroupStatus, PodCondition, QueueStatus, SelectNode
from placement.model.objects.pod import JOB_TAG
from placement.model.rules.topology import PATH

Json = dict[str, Any]
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
# The API's limits.
MAX_CONDITION: Final = 32_768
MAX_NOTE: Final = 1024

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    method: str
    path: str
    body: bytes
    content_type: str = JSON


class _Meta(msgspec.Struct, omit_defaults=True):
    name: str
    uid: str
    annotations: dict[str, str] | None = None


class _Target(msgspec.Struct):
    name: str
    kind: str = "Node"


class _Binding(msgspec.Struct, rename="camel"):
    metadata: _Meta
    target: _Target
    api_version: str = "v1"
    kind: str = "Binding"


def pod_path(namespace: str, name: str) -> str:
    """Where a pod is."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def volume_path(name: str) -> str:
    """Where a volume is."""
    return f"/api/v1/persistentvolumes/{name}"


def bind(action: Bind) -> Request:
    """POST of a Binding, whose annotations the API gives to the pod together with the node, over those it has.

    The decoding of unknown fields is not asked for: it costs the server a second pass.
    """
    annotations = {} if action.tag is None else {JOB_TAG: action.tag}
    if action.selection:
        annotations[PATH] = action.selection
    body = _encode(_Binding(_Meta(action.name, action.uid, annotations or None), _Target(action.node)))
    return Request("POST", f"{pod_path(action.namespace, action.name)}/binding?fieldValidation=Ignore", body)


def evict(action: Evict) -> Request:
    """POST of an Eviction, which respects disruption budgets."""
    options: Json = {"preconditions": {"uid": action.uid}}
    if action.grace is not None:
        options["gracePeriodSeconds"] = action.grace
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": action.name, "namespace": action.namespace},
        "deleteOptions": options,
    }
    return Request("POST", f"{pod_path(action.namespace, action.name)}/eviction", _encode(body))


def pod_condition(action: PodCondition, now: str) -> Request:
    """PodScheduled=False with the reason; and the nomination, which an empty one takes back."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": action.reason,
        "message": action.message[:MAX_CONDITION],
        "lastTransitionTime": now,
    }
    status = {"conditions": [condition], "nominatedNodeName": action.nominated_node or None}
    body = {"metadata": {"uid": action.uid}, "status": status}
    return Request("PATCH", f"{pod_path(action.namespace, action.name)}/status", _encode(body), STRATEGIC_PATCH)


def select_node(action: SelectNode) -> Request:
    """Build the annotation by which a provisioner learns where the volume is wanted."""
    body = {"metadata": {"uid": action.uid, "annotations": {SELECTED_NODE: action.node}}}
    path = f"/api/v1/namespaces/{action.namespace}/persistentvolumeclaims/{action.name}"
    return Request("PATCH", path, _encode(body), MERGE_PATCH)


def bind_volume(action: BindVolume) -> Request:
    """Build the reference to the claim; the volume controller does the rest, and later releases what we chose."""
    claim = {"kind": "PersistentVolumeClaim", "namespace": action.namespace, "name": action.claim}
    body = {
        "metadata": {
            "uid": action.volume_uid,
            "resourceVersion": str(action.version),
            "annotations": {BOUND_BY_CONTROLLER: "yes"} if action.chosen else {},
        },
        "spec": {"claimRef": {"apiVersion": "v1", "uid": action.claim_uid, **claim}},
    }
    return Request("PATCH", volume_path(action.volume), _encode(body), MERGE_PATCH)


def group_status(action: GroupStatus, dialect: Dialect, now: str) -> Request | None:
    """Build the status that the dialect's API defines; None if it has no groups, or no word for the status."""
    status = dialect.group_status(action, now) if dialect.group_status is not None else None
    if not status:
        return None
    body = {"metadata": {"uid": action.uid}, "status": status}
    return Request("PATCH", f"{dialect.group_path(action.namespace, action.name)}/status", _encode(body), dialect.patch)


def queue_status(action: QueueStatus, dialect: Dialect, now: str) -> Request | None:
    """Build the status of a queue, by the same rules."""
    status = dialect.queue_status(action, now) if dialect.queue_status is not None else None
    if not status:
        return None
    body = {"metadata": {"uid": action.uid}, "status": status}
    return Request("PATCH", f"{dialect.queue_path(action.name)}/status", _encode(body), dialect.patch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The object an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """An Event: what happened to which object; `serial` makes its name, so a repeated POST makes no second one."""

    subject: Subject
    reason: str
    text: str
    action: str
    warning: bool
    serial: str
    time: str


def event(note: Note, *, controller: str, instance: str) -> Request:
    """POST of an Event; those of objects without a namespace live in `default`."""
    subject = note.subject
    namespace = subject.namespace or "default"
    body: Json = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        # 253 characters are the limit of a name; a pod's own may have as many.
        "metadata": {"name": f"{subject.name[:220].rstrip('.-')}.{note.serial}", "namespace": namespace},
        "eventTime": note.time,
        "reportingController": controller,
        "reportingInstance": instance[:128],
        "action": note.action,
        "reason": note.reason,
        "regarding": {
            "apiVersion": subject.api_version,
            "kind": subject.kind,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
        },
        "note": shortened(note.text, MAX_NOTE),
        "type": "Warning" if note.warning else "Normal",
    }
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events?fieldValidation=Ignore"
    return Request("POST", path, _encode(body))


def shortened(text: str, limit: int) -> str:
    """At most so many characters, and in UTF-8 at most so many bytes."""
    data = text.encode()
    return text if len(data) <= limit else data[: limit - 3].decode(errors="ignore") + "…"
