# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pod was on which node when, and what a node was to Kubernetes, from the API server's audit log alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from testbed.kube_audit import AuditEvent

from demo.intervals import CLOSED, HELD, LEAVING, PLAIN, SHARED, STARTING, UP, WORKING, Interval, chain

TAINT, CONVERTING = "converged.hpc/batch", "converged.hpc/converting"


@dataclass(slots=True)
class Pod:
    """One pod, as far as the log has told."""

    name: str
    node: str
    moments: list[tuple[datetime, str]] = field(default_factory=list)
    gone: datetime | None = None
    succeeded: bool = False


def pod_intervals(events: Iterable[AuditEvent], *, end: datetime, working: Sequence[str] = ()) -> list[Interval]:
    """From the Binding over the first running container and the request to leave to the last ended container.

    `working` are the apps with pods that are drawn as a driver and its workers.
    """
    made = []
    for pod in read_pods(events):
        is_working = pod.name.split("-")[0] in working
        moments = [(moment, WORKING if is_working and what == UP else what) for moment, what in pod.moments]
        made += chain(pod.node, pod.name, moments, min(pod.gone or end, end))
    return made


def read_pods(events: Iterable[AuditEvent]) -> list[Pod]:
    """Return every pod that a node was chosen for, in that order; one that replaces another may have its name."""
    made: list[Pod] = []
    pods: dict[str, Pod] = {}
    for event in events:
        if event.code >= 300 or event.namespace == "kube-system":
            continue
        if (event.resource, event.verb) == ("nodes", "delete"):
            # Its kubelet is no longer there to say that they have ended.
            for left in pods.values():
                left.gone = left.gone or (event.answered if left.node == event.name else None)
        elif event.resource == "pods/binding" and event.body:
            node = str(event.body["target"]["name"])
            pods[event.name] = Pod(event.name, node, [(event.answered, STARTING)])
            made.append(pods[event.name])
        elif pod := pods.get(event.name):
            _tell(pod, event)
    return made


def _tell(pod: Pod, event: AuditEvent) -> None:
    body = event.body or {}
    if pod.gone:
        return
    if event.resource == "pods/status":
        status = body.get("status", {})
        states = [container.get("state") or {} for container in status.get("containerStatuses") or ()]
        if status.get("phase") in ("Succeeded", "Failed") or (
            states and all(state.get("terminated") is not None for state in states)
        ):
            codes = [(state.get("terminated") or {}).get("exitCode") for state in states]
            pod.gone, pod.succeeded = event.answered, status.get("phase") == "Succeeded" or set(codes) == {0}
        elif pod.moments[-1][1] == STARTING and any(state.get("running") is not None for state in states):
            pod.moments.append((event.answered, UP))
    elif event.resource == "pods/eviction" or (event.resource, event.verb) == ("pods", "delete"):
        if event.verb == "delete" and body.get("gracePeriodSeconds") == 0:
            pod.gone = event.answered
        else:
            pod.moments.append((event.answered, LEAVING))


@dataclass(frozen=True, slots=True)
class Node:
    """A Node object: there or not, ready or not, with which taints."""

    exists: bool = False
    ready: bool = False
    cordoned: bool = False
    taints: frozenset[str] = frozenset()

    def state(self) -> str:
        if not self.exists:
            return PLAIN
        if TAINT in self.taints:
            return HELD
        return SHARED if self.ready and not self.cordoned and CONVERTING not in self.taints else CLOSED


def node_intervals(
    events: Iterable[AuditEvent], names: Iterable[str], *, begin: datetime, end: datetime
) -> list[Interval]:
    """What every node was, from the first moment to the last; without a Node object it is Slurm's alone."""
    nodes = {name: Node() for name in names}
    moments = {name: [(begin, PLAIN)] for name in nodes}
    for event in events:
        resource, _slash, part = event.resource.partition("/")
        name = event.name
        if event.code < 300 and resource == "nodes" and name in nodes:
            nodes[name] = Node() if event.verb == "delete" else _changed(nodes[name], event.body or {}, part)
            moments[name].append((event.answered, nodes[name].state()))
    return [one for name, told in moments.items() for one in chain(name, name, told, end)]


def _changed(node: Node, body: Mapping[str, Any], part: str) -> Node:
    spec, ready = body.get("spec") or {}, node.ready
    for condition in (body.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready" and "status" in condition:
            ready = condition["status"] == "True"
    taints, cordoned = node.taints, node.cordoned
    if not part and "taints" in spec:
        taints = frozenset(str(taint.get("key")) for taint in spec["taints"] or ())
    if not part and "unschedulable" in spec:
        cordoned = bool(spec["unschedulable"])
    return Node(True, ready, cordoned, taints)
