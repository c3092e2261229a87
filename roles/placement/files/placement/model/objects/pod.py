# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod as the scheduler needs it: what is its own in `Pod`, what it shares with its siblings in `PodSpec`.

The split is for memory: ten thousand pods of one controller hold one `PodSpec`, one label set and one request.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Final

from placement.model.amounts.quantity import Amounts
from placement.model.rules.affinity import PodAffinityTerm, TopologySpread, WeightedPodAffinityTerm
from placement.model.rules.selector import ANY_NODE, LabelPairs, NodeSelector, NodeSelectorTerm, Toleration
from placement.model.rules.topology import TopologyRequest
from placement.shared.victims import NODE_CRITICAL

# A static pod with this annotation stands for a batch job. A kubelet mirrors it; users make no pods in this namespace.
_PLACEHOLDERS: Final = "kube-system"
_LEASE_ANNOTATION: Final = "converged.hpc/lease"
# What a Binding writes on a pod that a job of the batch system backs: the tag of that job.
JOB_TAG: Final = "converged.hpc/job-tag"
# Seconds that the containers of a pod may need to end past its deadline, even if its own grace is shorter.
GRACE: Final = 30


class Phase(StrEnum):
    """A pod's phase; the two terminal ones hold no resources."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


TERMINAL = frozenset({Phase.SUCCEEDED, Phase.FAILED})


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A port of the node itself; the address 0.0.0.0 clashes with every address."""

    address: str
    protocol: str
    port: int

    def clashes(self, other: "HostPort") -> bool:
        """Whether both cannot be open on one node."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.address == other.address or "0.0.0.0" in (self.address, other.address)


@dataclass(frozen=True, slots=True)
class PreferredNodeTerm:
    """A node preference and its weight."""

    term: NodeSelectorTerm
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """What pods of one template share and what decides where they may run."""

    scheduler_name: str = "default-scheduler"
    priority: int = 0
    priority_class: str = ""
    preempts: bool = True
    selector: NodeSelector = ANY_NODE
    preferred_nodes: tuple[PreferredNodeTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[PodAffinityTerm, ...] = ()
    anti_affinity: tuple[PodAffinityTerm, ...] = ()
    preferred_pods: tuple[WeightedPodAffinityTerm, ...] = ()
    spread: tuple[TopologySpread, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    # What its node must declare that its kubelet can do.
    features: tuple[str, ...] = ()
    # `activeDeadlineSeconds` and `terminationGracePeriodSeconds`.
    deadline: int | None = None
    grace: int = GRACE
    # Where the pods of its sub-group are to be together.
    topology: TopologyRequest | None = None
    # Not supported and therefore refused: what the pod uses, in words for its condition.
    unsupported: tuple[str, ...] = ()

    @property
    def longest(self) -> float:
        """Return the seconds from its start in which the pod has ended, with its grace; inf without a deadline."""
        return self.deadline + max(GRACE, self.grace) if self.deadline is not None and self.deadline > 0 else inf


PLAIN_SPEC = PodSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod, by its UID; never acted on by name alone."""

    uid: str
    namespace: str
    name: str
    version: int
    spec: PodSpec = PLAIN_SPEC
    labels: LabelPairs = ()
    # Only those under `scheduling.` and `converged.hpc/`: groups, walltimes, leases.
    annotations: LabelPairs = ()
    request: Amounts = ()
    created: str = ""
    owner: str = ""
    node: str = ""
    nominated_node: str = ""
    # When its kubelet took it, as the API says it; only of pods with a deadline.
    started: str = ""
    phase: Phase = Phase.PENDING
    # Whether the node's kubelet rejected it, although it was bound there; and whether for what pods of this kind ask
    # for, such as whole cores of one socket, and not for the state of the node.
    rejected: bool = False
    unsuited: bool = False
    terminating: bool = False
    gated: bool = False
    # Mirror and DaemonSet pods are left alone by drains and preemption. Before it runs, a mirror is only its creator's
    # word for a static pod.
    mirror: bool = False
    daemon: bool = False
    # Claims of volumes by name, in the pod's own namespace.
    volume_claims: tuple[str, ...] = ()
    # Those of them that are made for this pod, and must be its own.
    ephemeral_claims: tuple[str, ...] = ()
    # `spec.schedulingGroup.podGroupName`.
    scheduling_group: str = ""
    # The annotation of that name; a word of its owner until a Binding has overwritten it.
    tag: str = ""

    @property
    def charged(self) -> bool:
        """Whether it holds room on its node: a terminating pod does, until it is gone."""
        return bool(self.node) and self.phase not in TERMINAL

    @property
    def stays(self) -> bool:
        """Whether it leaves its node for no job: a DaemonSet's, a static one such as a placeholder, or the node's."""
        return self.mirror or self.daemon or self.spec.priority >= NODE_CRITICAL

    @property
    def lease(self) -> str:
        """What the placeholder of a batch job says of that job, in the words of its node; empty for all other pods."""
        is_placeholder = self.mirror and self.namespace == _PLACEHOLDERS
        return dict(self.annotations).get(_LEASE_ANNOTATION, "") if is_placeholder else ""

    @property
    def of_node(self) -> bool:
        """Whether it runs there for the node itself: it stays, and holds no place of a batch job."""
        return self.stays and not self.lease
