# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries out one action: the request, and what its answer means, as events.

A binding that was accepted says nothing here: the watch brings the pod. After any other answer the pod is read, and
what it says is the event; nothing is concluded from an answer alone. A binding that was refused while the
pod cannot be read comes back as `Undetermined`, and any action without an answer as `Unsent`: none vanishes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from placement.kube.decode.decoder import Decoder
from placement.kube.dialects import BY_NAME
from placement.kube.transport.http1 import Answer
from placement.kube.transport.status import blocked_by_budget, message, not_found
from placement.kube.write import requests
from placement.kube.write.requests import Request, Subject
from placement.kube.write.retrying_client import RetryingClient
from placement.model.messages.action import (
    Action,
    Bind,
    BindVolume,
    Evict,
    GroupStatus,
    NodeOverfull,
    PodCondition,
    PodLost,
    QueueStatus,
    SelectNode,
)
from placement.model.messages.event import (
    BindFailed,
    Deleted,
    Event,
    EvictRefused,
    StatusWriteFailed,
    Undetermined,
    Unreadable,
    Unsent,
    Upserted,
)
from placement.model.messages.refusal import Refusal
from placement.model.objects.pod import Pod
from placement.model.objects.volume import PersistentVolume

_CREATED: Final = frozenset({200, 201, 202})
_NOT_FOUND: Final = 404
# From here on it is the server that has failed, and not the request.
_SERVER: Final = 500
# A CRD without a status subresource takes the status with the object.
_SUBRESOURCE: Final = "/status"
_NAMES: Final[dict[type[Action], str]] = {
    PodCondition: "condition",
    SelectNode: "select node",
    GroupStatus: "group status",
    QueueStatus: "queue status",
}


@dataclass(frozen=True, slots=True)
class Telling:
    """What people are told about an action: subject, reason, sentence, verb and whether it is a warning."""

    subject: Subject
    reason: str
    text: str
    action: str
    warning: bool = True


class Executor:
    """Carries out actions for one thread."""

    def __init__(
        self,
        sender: RetryingClient,
        *,
        tell: Callable[[Telling], None],
        refused: Callable[[Action, int, str], None],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._sender = sender
        self._tell = tell
        self._refused = refused
        self._clock = clock
        self._decoder = Decoder()

    def perform(self, action: Action) -> list[Event]:
        """Carry out the action, and return what is true now as far as that has been read."""
        match action:
            case Bind():
                return self._bind(action)
            case Evict():
                return self._evict(action)
            case PodCondition():
                return self._say(action, requests.pod_condition(action, self._now()))
            case SelectNode():
                return [Unsent(action)] if self._write(action, requests.select_node(action)) is None else []
            case BindVolume():
                return self._bind_volume(action)
            case GroupStatus():
                dialect = BY_NAME[action.dialect]
                request = requests.group_status(action, dialect, self._now())
                return self._say(action, request, or_whole=dialect.may_lack_subresource)
            case QueueStatus():
                dialect = BY_NAME[action.dialect]
                request = requests.queue_status(action, dialect, self._now())
                return self._say(action, request, or_whole=dialect.may_lack_subresource)
        return []

    def _now(self) -> str:
        return self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")

    def _bind(self, action: Bind) -> list[Event]:
        answer = self._sender.send("bind", requests.bind(action))
        if answer is None:
            return [Unsent(action)]
        if answer.status in _CREATED:
            self._tell(scheduled(action))
            return []
        said = message(answer)
        found = self._read_pod(action.namespace, action.name, action.uid)
        if found is None:
            return [Unsent(action)]
        if not found:
            self._refused(action, answer.status, said)
            return [Undetermined(action)]
        node = next((node for event in found if (node := _node_of(event, action.uid)) is not None), "")
        if node == action.node:
            # An earlier try had landed after all.
            self._tell(scheduled(action))
        elif not node and Deleted(Pod, action.uid, 0) not in found:
            self._refused(action, answer.status, said)
            found.append(BindFailed(action.uid, action.node, said))
        return found

    def _bind_volume(self, action: BindVolume) -> list[Event]:
        answer = self._sender.send("bind volume", requests.bind_volume(action))
        if answer is None:
            return [Unsent(action)]
        if answer.status in _CREATED:
            return []
        said = f"volume {action.volume}: {message(answer)}"
        found = self._read(PersistentVolume, requests.volume_path(action.volume), action.volume_uid)
        if found is None:
            return [Unsent(action)]
        if not found:
            self._refused(action, answer.status, said)
            return [Undetermined(action)]
        there = [event.item for event in found if isinstance(event, Upserted)]
        if any(isinstance(item, PersistentVolume) and item.claim_uid == action.claim_uid for item in there):
            # An earlier try had landed after all, or another pod that shares the claim had asked for the same.
            return found
        self._refused(action, answer.status, said)
        return [*found, BindFailed(action.uid, action.node, said)]

    def _evict(self, action: Evict) -> list[Event]:
        subject = Subject(api_version="v1", kind="Pod", namespace=action.namespace, name=action.name, uid=action.uid)
        answer = self._sender.send("evict", requests.evict(action))
        if answer is None:
            return [Unsent(action)]
        if answer.status in _CREATED:
            self._tell(Telling(subject, action.reason, action.message, "Preempting", warning=False))
            return []
        said = message(answer)
        found = self._read_pod(action.namespace, action.name, action.uid)
        if found is None:
            return [Unsent(action)]
        if Deleted(Pod, action.uid, 0) in found:
            return found
        self._refused(action, answer.status, said)
        return [*found, EvictRefused(action.uid, said, budget=blocked_by_budget(answer))]

    def _read_pod(self, namespace: str, name: str, uid: str) -> list[Event] | None:
        return self._read(Pod, requests.pod_path(namespace, name), uid)

    def _read(self, kind: type[Pod | PersistentVolume], path: str, uid: str) -> list[Event] | None:
        """Read the object, as events: none if no answer tells; None if the reading was given up."""
        answer = self._sender.send("read", Request("GET", path, b""))
        if answer is None:
            return None
        if not_found(answer, path):
            return [Deleted(kind, uid, 0)]
        if answer.status not in _CREATED:
            return []
        item = self._decoder.decode_object(kind, answer.body)
        if isinstance(item, Refusal):
            return [Unreadable(kind, item)]
        return [Upserted(item)] if item.uid == uid else [Deleted(kind, uid, 0), Upserted(item)]

    def _say(self, action: Action, request: Request | None, *, or_whole: bool = False) -> list[Event]:
        """Write a status. A server error becomes an event, since no watch shows that it must be written again."""
        if request is None:
            return []
        answer = self._write(action, request, or_whole=or_whole)
        if answer is None:
            return [Unsent(action)]
        return [StatusWriteFailed(action.uid)] if answer.status >= _SERVER else []

    def _write(self, action: Action, request: Request, *, or_whole: bool = False) -> Answer | None:
        """Write, and leave the result to the watch; a refused write is reported and not tried again here.

        Returns the server's answer, or None where the writing was given up without one.
        """
        what = _NAMES[type(action)]
        answer = self._sender.send(what, request)
        if or_whole and answer is not None and answer.status == _NOT_FOUND:
            whole = request.path.removesuffix(_SUBRESOURCE)
            answer = self._sender.send(what, Request(request.method, whole, request.body, request.content_type))
        if answer is not None and answer.status not in _CREATED and answer.status != _NOT_FOUND:
            self._refused(action, answer.status, message(answer))
        return answer


def _node_of(event: Event, uid: str) -> str | None:
    """Return the node of a pod that was just read, empty if it has none; None if the event is not about it."""
    if isinstance(event, Upserted) and isinstance(event.item, Pod) and event.item.uid == uid:
        return event.item.node
    if isinstance(event, Unreadable) and event.refusal.uid == uid:
        return event.refusal.node
    return None


def scheduled(action: Bind) -> Telling:
    """Describe a binding in an Event, in kube-scheduler's words."""
    subject = Subject(api_version="v1", kind="Pod", namespace=action.namespace, name=action.name, uid=action.uid)
    text = f"Successfully assigned {action.namespace}/{action.name} to {action.node}"
    return Telling(subject, "Scheduled", text, "Binding", warning=False)


def told(action: Action) -> Telling | None:
    """Return the Event that goes with an action when it is decided, if any does."""
    match action:
        case PodCondition():
            subject = Subject(
                api_version="v1", kind="Pod", namespace=action.namespace, name=action.name, uid=action.uid
            )
            return Telling(subject, "FailedScheduling", action.message, "Scheduling")
        case GroupStatus() if action.reason and not action.scheduled:
            subject = Subject(
                api_version=action.dialect,
                kind="PodGroup",
                namespace=action.namespace,
                name=action.name,
                uid=action.uid,
            )
            return Telling(subject, "Unschedulable", f"{action.reason}: {action.message}", "Scheduling")
        case PodLost():
            subject = Subject(
                api_version="v1", kind="Pod", namespace=action.namespace, name=action.name, uid=action.uid
            )
            return Telling(subject, "NodeLost", action.message, "Releasing")
        case NodeOverfull():
            subject = Subject(api_version="v1", kind="Node", namespace="", name=action.name, uid=action.uid)
            return Telling(subject, "Overfull", action.message, "Scheduling")
        case QueueStatus() if action.reason:
            subject = Subject(api_version=action.dialect, kind="Queue", namespace="", name=action.name, uid=action.uid)
            return Telling(subject, action.reason, action.message, "Accepting")
    return None
