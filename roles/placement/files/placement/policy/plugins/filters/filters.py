# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters: each is one rule that can refuse a node to a pod, with the reason that is told. `feasibility` lists them.

A filter overrides only what it is about. There are four kinds of answers. `part` judges by the Node objects alone,
`allowed` as things stand when a pod is placed. `lacking` and those below it judge what pods take of their node, and
`why_backed` a node that the batch system chose.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import ClassVar, Final

import numpy as np

from placement.model.amounts.quantity import Amounts
from placement.model.amounts.totals import Totals
from placement.model.objects.pod import Pod, PodSpec
from placement.model.rules.selector import BACKED_TAINT, Taint, untolerated
from placement.policy.jobs.job import Task
from placement.policy.queues.reservations import Reservations
from placement.state.affinity.topology_rules import ANTI_AFFINITY, REPELLED, SPREAD, DomainRules
from placement.state.cluster import Cluster
from placement.state.nodes.node_columns import HELD, RESTING, UNKNOWN, UNREADABLE, UNSCHEDULABLE
from placement.state.nodes.node_filters import CLOSED, CORDON, Bools, Part
from placement.state.volumes.volume_rules import ATTACHED, CAPACITY, IN_USE, NONE_NOW, TOO_FEW

# Without the name of that job, so that a new one is no news for all that wait.
KEPT: Final = "kept for a job that comes before"
# What is said of nodes that could have each pod by itself.
BY_ITSELF: Final = "would do alone, but not for all that must be together"
_INSUFFICIENT: Final = "Insufficient "
_REFUSED: Final = "refused by "
_PORTS: Final = "without free host ports"
_BY_RULES: Final = "refused by its volumes or by rules about other pods"
# How reasons begin and end that pass once others leave. What is not known may be such a reason.
_WAITS_FIRST: Final = (_INSUFFICIENT, _REFUSED + CAPACITY)
_WAITS_LAST: Final = (
    *(KEPT, BY_ITSELF, CLOSED[UNKNOWN], _PORTS),
    *(ATTACHED, IN_USE, TOO_FEW, NONE_NOW),
    *(ANTI_AFFINITY, REPELLED, SPREAD),
)


def waits_for_others(reason: str) -> bool:
    """Return whether a node is refused for what others have, or are to have before, so that it helps if they leave."""
    return reason.startswith(_WAITS_FIRST) or reason.endswith(_WAITS_LAST)


class Filter:
    """Refuses nothing."""

    # Why a node is refused, where there is one reason for it.
    reason: ClassVar[str] = ""
    # Whether `allowed` is asked again about a pod that has its node and waits there for volumes.
    lasting: ClassVar[bool] = False
    # Whether it refuses a node to a pod that room was promised to there.
    for_promised: ClassVar[bool] = True

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._columns = cluster.columns

    def key(self, spec: PodSpec, request: Amounts) -> Hashable:
        """Return what of the pod decides `part` and `taken`; those of pods with equal keys are the same."""
        return None

    def part(self, spec: PodSpec, request: Amounts) -> Part | None:
        """Return the nodes that the Node objects alone allow; None means all."""
        return None

    def allowed(self, task: Task) -> Bools | None:
        """Return the nodes that are allowed as things stand; None means all."""
        return None

    def untouched(self, task: Task) -> Bools | None:
        """Return the nodes that `allowed` allows to the task and to all equal ones after it; None means all.

        It is asked only if the filter does not tie the task.
        """
        return None

    def ties(self, task: Task) -> bool:
        """Return whether placing one of several equal pods changes where the next may go, beyond what it takes."""
        return False

    def kind(self, tasks: Sequence[Task]) -> Hashable:
        """Return what decides here about these equal tasks besides spec and request; None if that is not known."""
        return ()

    def refused(self, task: Task) -> Mapping[str, Bools]:
        """Return the nodes that are refused, by reason; a node may have several reasons."""
        spec, request = task.pod.spec, task.pod.request
        part, allowed = self.part(spec, request), self.allowed(task)
        rows = [] if part is None else [np.logical_not(part.compute())]
        rows += [] if allowed is None else [np.logical_not(allowed)]
        return {self.reason: np.logical_or.reduce(rows)} if rows else {}

    def lacking(self, task: Task, row: int) -> Totals | None:
        """Return the amounts that have to be freed on the node for the task; None if it can never have them there."""
        return {}

    def holds(self, task: Task, row: int, *, leaving: bool) -> bool:
        """Return whether the task has on the node what it takes there; with what is being left by others, too, or not.

        The task is on the node already, or is promised room there.
        """
        return True

    def exclusive(self, spec: PodSpec) -> bool:
        """Return whether such a pod takes something of its node that only one pod can have."""
        return False

    def taken(self, spec: PodSpec, row: int) -> bool:
        """Return whether a pod on the node has such a thing; where that changes, the row is touched."""
        return False

    def taken_rows(self, spec: PodSpec) -> list[int]:
        """Return the rows for which `taken` is true."""
        return []

    def excludes(self, pod: Pod, other: Pod) -> bool:
        """Return whether both cannot be on one node."""
        return False

    def why_backed(self, task: Task, row: int, end: float) -> str:
        """Return why a pod may not go to a node that the batch system chose for it; empty if it may.

        Its job there ends at this time at the latest, in monotonic seconds.
        """
        part = self.part(task.pod.spec, task.pod.request)
        allowed = self.allowed(task)
        fits = (part is None or part.decide(row)) and (allowed is None or bool(allowed[row]))
        return "" if fits else f"is {self.reason}"


class Nowhere(Filter):
    """Rules about volumes and company that no node keeps even if pods leave: they refuse the pod itself.

    `Volumes` and `OtherPods` hold the same rules. This filter only says them before all others.
    """

    def __init__(self, cluster: Cluster, domains: DomainRules) -> None:
        super().__init__(cluster)
        self._domains = domains

    def refused(self, task: Task) -> Mapping[str, Bools]:
        """Return all nodes, by the first such rule."""
        pod, present = task.pod, self._cluster.masks.present()
        answers = (*self._cluster.volumes.answers(pod), *self._domains.answers(pod.spec, task.entry.labelset))
        rules = [(_REFUSED + reason, allowed) for reason, allowed in answers]
        return _by_first(
            (reason, allowed)
            for reason, allowed in rules
            if not waits_for_others(reason) and not (allowed & present).any()
        )


class Closed(Filter):
    """Nodes that are closed to all pods: batch jobs have them, or nothing is known of them."""

    def part(self, spec: PodSpec, request: Amounts) -> Part | None:
        """Return the nodes that are not."""
        return self._cluster.masks.open_part()

    def refused(self, task: Task) -> Mapping[str, Bools]:
        """Return the closed nodes, each under the first of its reasons."""
        flags, found = self._columns.flags, dict[str, Bools]()
        told = 0
        for flag, reason in CLOSED.items():
            rows = np.equal(flags & (flag | told), flag)
            if rows.any():
                found[reason] = rows
            told |= flag
        return found

    def why_backed(self, task: Task, row: int, end: float) -> str:
        """Return why; that the node is leased, or that leases are not known, is what the batch system knows best."""
        flags = int(self._columns.flags[row])
        if flags & (HELD | UNREADABLE):
            return "is held by batch jobs, or cannot be read"
        return "turned pods away a moment ago" if flags & RESTING else ""


class Unsuited(Filter):
    """Nodes that rejected pods like this one a moment ago, for what such pods ask for."""

    reason = "that turned pods like this away a moment ago"

    def allowed(self, task: Task) -> Bools | None:
        """Return the others."""
        return self._cluster.suited(task.pod)

    def ties(self, task: Task) -> bool:
        """Return whether there are such nodes."""
        return bool(self._cluster.unsuiting(task.pod))

    def kind(self, tasks: Sequence[Task]) -> Hashable:
        """Return nothing known, if there are such nodes."""
        return None if self.ties(tasks[0]) else ()

    def why_backed(self, task: Task, row: int, end: float) -> str:
        """Return why."""
        node = self._columns.nodes[row]
        away = node is not None and node.name in self._cluster.unsuiting(task.pod)
        return "turned pods away a moment ago" if away else ""


class Cordoned(Filter):
    """`kubectl cordon`, unless the pod tolerates it."""

    reason = "unschedulable"

    def key(self, spec: PodSpec, request: Amounts) -> Hashable:
        """Return whether it does."""
        return untolerated((CORDON,), spec.tolerations) is None

    def part(self, spec: PodSpec, request: Amounts) -> Part | None:
        """Return the other nodes."""
        return None if self.key(spec, request) else self._cluster.masks.cordon_part()

    def why_backed(self, task: Task, row: int, end: float) -> str:
        """Return the taint that stands for it."""
        cordoned = bool(self._columns.flags[row] & UNSCHEDULABLE) and not self.key(task.pod.spec, task.pod.request)
        return f"has taint {CORDON.key}, which the pod does not tolerate" if cordoned else ""


class Taints(Filter):
    """Taints that the pod does not tolerate."""

    def key(self, spec: PodSpec, request: Amounts) -> Hashable:
        """Return its tolerations."""
        return spec.tolerations

    def part(self, spec: PodSpec, request: Amounts) -> Part | None:
        """Return the nodes without such a taint."""
        return self._cluster.masks.taint_part(spec.tolerations)

    def refused(self, task: Task) -> Mapping[str, Bools]:
        """Return the nodes by the first such taint."""
        found: dict[str, Bools] = {}
        tolerations = task.pod.spec.tolerations
        if self._cluster.masks.taints(tolerations).allows.all():
            return found
        for taints, number in list(self._columns.taint_sets.items()):
            taint = untolerated(taints, tolerations)
            if taint is not None:
                reason, rows = f"with untolerated taint {_shown(taint)}", np.equal(self._columns.taint_set, number)
                found[reason] = found[reason] | rows if reason in found else rows
        return found

    def why_backed(self, task: Task, row: int, end: float) -> str:
        """Return the first such taint, but not that of nodes for backed pods."""
        node = self._columns.nodes[row]
        taints = tuple(taint for taint in node.taints if taint.key != BACKED_TAINT) if node is not None else ()
        taint = untolerated(taints, task.pod.spec.tolerations)
        return f"has taint {taint.key}, which the pod does not tolerate" if taint is not None else ""


class Selected(Filter):
    """nodeSelector and required node affinity."""

    reason = "not matched by node selector or node affinity"

    def key(self, spec: PodSpec, request: Amounts) -> Hashable:
        """Return both."""
        return spec.selector

    def part(self, spec: PodSpec, request: Amounts) -> Part | None:
        """Return the nodes that they match."""
        return self._cluster.masks.selector_part(spec.selector)

    def why_backed(self, task: Task, row: int, end: float) -> str:
        """Return why; one pod is asked about on one node, so no mask is made for it."""
        matched = self._cluster.masks.selector_part(task.pod.spec.selector).decide(row)
        return "" if matched else "is not matched by the pod's node selector or affinity"


class Declared(Filter):
    """Features that the pod needs and a kubelet has to declare: kube-scheduler's NodeDeclaredFeatures."""

    def key(self, spec: PodSpec, request: Amounts) -> Hashable:
        """Return the features."""
        return spec.features

    def part(self, spec: PodSpec, request: Amounts) -> Part | None:
        """Return the nodes that declare all of them."""
        return self._cluster.masks.declared_part(spec.features) if spec.features else None

    def refused(self, task: Task) -> Mapping[str, Bools]:
        """Return the nodes by the feature that they do not declare."""
        return {
            f"without declared feature {name}": np.logical_not(self._cluster.masks.declared_part((name,)).compute())
            for name in task.pod.spec.features
        }

    def why_backed(self, task: Task, row: int, end: float) -> str:
        """Return all features that the node lacks."""
        masks = self._cluster.masks
        lacking = [name for name in task.pod.spec.features if not masks.declared_part((name,)).decide(row)]
        return f"does not declare {' and '.join(lacking)}" if lacking else ""


class HostPorts(Filter):
    """Ports of the node itself."""

    reason = _PORTS

    def key(self, spec: PodSpec, request: Amounts) -> Hashable:
        """Return the pod's ports."""
        return spec.host_ports

    def refused(self, task: Task) -> Mapping[str, Bools]:
        """Return the nodes where a pod has one of them."""
        if not task.pod.spec.host_ports:
            return {}
        refused = np.zeros(self._columns.capacity, np.bool_)
        refused[self.taken_rows(task.pod.spec)] = True
        return {self.reason: refused}

    def holds(self, task: Task, row: int, *, leaving: bool) -> bool:
        """Return whether no other pod there has one of the task's ports."""
        for entry in self._cluster.pods.at_node(task.node) if task.pod.spec.host_ports else ():
            held = entry.charged and not (leaving and entry.leaving) and entry.pod.uid != task.uid
            if held and self.excludes(task.pod, entry.pod):
                return False
        return True

    def exclusive(self, spec: PodSpec) -> bool:
        """Return whether the pod has ports of its node."""
        return bool(spec.host_ports)

    def taken(self, spec: PodSpec, row: int) -> bool:
        """Return whether another pod has one of them."""
        return self._cluster.ports.clash(spec.host_ports, row)

    def taken_rows(self, spec: PodSpec) -> list[int]:
        """Return the rows where another pod has one of them."""
        return self._cluster.ports.clashing_rows(spec.host_ports)

    def excludes(self, pod: Pod, other: Pod) -> bool:
        """Return whether both want the same port."""
        return any(mine.clashes(theirs) for mine in pod.spec.host_ports for theirs in other.spec.host_ports)

    def why_backed(self, task: Task, row: int, end: float) -> str:
        """Return why."""
        return "has no free host port for it" if self.taken(task.pod.spec, row) else ""


class Room(Filter):
    """What pods request. For all nodes at once `state/nodes/score_table` compares it, together with the scores."""

    def refused(self, task: Task) -> Mapping[str, Bools]:
        """Return the nodes that have too little of something: under all that they have too little of."""
        columns, found = self._columns, dict[str, Bools]()
        vector = columns.axis.request(task.pod.request)
        unpromised = columns.unpromised_for(len(columns.axis), columns.lower_rank(task.priority))
        for name in vector.unknown:
            found[f"without {name}"] = np.ones(columns.capacity, np.bool_)
        for index, name in enumerate(columns.axis.names):
            wanted = int(vector.dense[index])
            if not wanted:
                continue
            lacking = unpromised[index] < wanted
            never = lacking & (columns.allocatable[index] < wanted)
            found[f"too small: {name}"] = never
            found[_INSUFFICIENT + name] = lacking & ~never
        return found

    def lacking(self, task: Task, row: int) -> Totals | None:
        """Return what the task asks for and the node will not have without evictions; None where it is too small."""
        columns = self._columns
        vector = columns.axis.request(task.pod.request)
        if vector.unknown or (columns.allocatable[:, row] < vector.dense).any():
            return None
        lacking = vector.dense - columns.future_free(row, task.priority)
        # What is not asked for is never lacking, even where too much of it has been promised.
        short = np.flatnonzero((lacking > 0) & (vector.dense > 0)).tolist()
        return {columns.axis.names[index]: int(lacking[index]) for index in short}

    def holds(self, task: Task, row: int, *, leaving: bool) -> bool:
        """Return whether the node has what it holds there, or is promised as others are."""
        columns = self._columns
        wanted = columns.axis.request(task.pod.request).dense > 0
        left = columns.free[:, row] - (0 if task.entry.charged else columns.nominated_from(row, task.priority))
        if leaving:
            left = left + columns.releasing[:, row]
        return not np.any(left[wanted] < 0)

    def kind(self, tasks: Sequence[Task]) -> Hashable:
        """Return the promises that do not count for such pods."""
        return (self._columns.lower_rank(tasks[0].priority),)

    def why_backed(self, task: Task, row: int, end: float) -> str:
        """Return why."""
        vector = self._columns.axis.request(task.pod.request)
        fits = not vector.unknown and np.all(self._columns.free[: len(vector.least), row] >= vector.least[:, 0])
        return "" if fits else "has too little left for it"


class Volumes(Filter):
    """The pod's claims, and what they may attach."""

    reason = _BY_RULES
    lasting = True

    def allowed(self, task: Task) -> Bools | None:
        """Return the nodes that reach all volumes, or can have them made."""
        return self._cluster.volumes.allowed(task.pod) if task.pod.volume_claims else None

    def ties(self, task: Task) -> bool:
        """Return whether the pod has any: one pod's volume can be the last."""
        return bool(task.pod.volume_claims)

    def kind(self, tasks: Sequence[Task]) -> Hashable:
        """Return nothing known, for pods with volumes."""
        return None if tasks[0].pod.volume_claims else ()

    def refused(self, task: Task) -> Mapping[str, Bools]:
        """Return the nodes that each rule refuses."""
        return _by_first((_REFUSED + reason, allowed) for reason, allowed in self._cluster.volumes.answers(task.pod))


class OtherPods(Filter):
    """Affinity, anti-affinity and hard topology spread."""

    reason = _BY_RULES

    def __init__(self, cluster: Cluster, domains: DomainRules) -> None:
        super().__init__(cluster)
        self._domains = domains

    def allowed(self, task: Task) -> Bools | None:
        """Return the nodes whose domains allow it."""
        return self._domains.allowed(task.pod.spec, task.entry.labelset)

    def ties(self, task: Task) -> bool:
        """Return whether any rule about other pods concerns the task."""
        return self._domains.apply_to(task.pod.spec, task.entry.labelset)

    def kind(self, tasks: Sequence[Task]) -> Hashable:
        """Return the label set, where a rule is about it.

        A single pod that is kept apart from others fits nowhere until one of them leaves. Company comes without that.
        """
        first, spec = tasks[0], tasks[0].pod.spec
        if spec.affinity or any(constraint.hard for constraint in spec.spread):
            return None
        repelling = self._cluster.labelsets.repelling(first.entry.labelset)
        if not spec.anti_affinity and not repelling:
            return ()
        apart = (*spec.anti_affinity, *(anti.term for anti in repelling))
        if len(tasks) > 1 or any(term.matcher.namespace_selector is not None for term in apart):
            return None
        return (first.entry.labelset,)

    def refused(self, task: Task) -> Mapping[str, Bools]:
        """Return the nodes that each rule refuses."""
        answers = self._domains.answers(task.pod.spec, task.entry.labelset)
        return _by_first((_REFUSED + reason, allowed) for reason, allowed in answers)


class Reserved(Filter):
    """What is kept for the heads of queues."""

    reason = KEPT
    for_promised = False

    def __init__(self, cluster: Cluster, reservations: Reservations) -> None:
        super().__init__(cluster)
        self._reservations = reservations

    def allowed(self, task: Task) -> Bools | None:
        """Return the nodes with enough left for the heads."""
        return self._reservations.mask(task)

    def untouched(self, task: Task) -> Bools | None:
        """Return the nodes on which nothing is kept."""
        return self._reservations.untouched(task)

    def kind(self, tasks: Sequence[Task]) -> Hashable:
        """Return the reservations that bind the job."""
        return self._reservations.binding(tasks[0])

    def why_backed(self, task: Task, row: int, end: float) -> str:
        """Return why."""
        allowed = self._reservations.mask(task, end)
        return "" if allowed is None or allowed[row] else f"is {KEPT}"


def _by_first(answers: Iterable[tuple[str, Bools]]) -> dict[str, Bools]:
    """Return the nodes that each rule refuses and no rule before it does."""
    found: dict[str, Bools] = {}
    told: Bools | None = None
    for reason, allowed in answers:
        refused = ~allowed if told is None else ~(allowed | told)
        told = refused if told is None else told | refused
        found[reason] = found[reason] | refused if reason in found else refused
    return found


def _shown(taint: Taint) -> str:
    return "{" + taint.key + (f"={taint.value}" if taint.value else "") + f":{taint.effect}" + "}"
