# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the daemon decides to do; `kube` carries it out, and the result comes back as events."""

from dataclasses import dataclass
from enum import StrEnum

from placement.model.amounts.quantity import Amounts
from placement.model.batch import Chunk
from placement.model.rules.selector import LabelPairs


class GroupPhase(StrEnum):
    """Where a group stands, in the words of kube-batch; each dialect translates them."""

    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    FINISHED = "Completed"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """Put a pod on a node; the UID goes along, so that a namesake is never bound.

    Answered by `Upserted` or `BindFailed`.
    """

    uid: str
    namespace: str
    name: str
    node: str
    # The tag of the job of the batch system that it is bound for; None leaves its annotation as it is.
    tag: str | None = None
    # The domains of the node, for its annotation, where the graph chose it.
    selection: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """Ask a pod to leave, through the Eviction API. Answered by `Upserted`, `Deleted` or `EvictRefused`."""

    uid: str
    namespace: str
    name: str
    # The reason of the Event, and its message.
    reason: str
    message: str
    # Seconds that its containers have to end; None is what the pod itself says.
    grace: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectNode:
    """Ask the provisioner for a claim's volume on this node; the pod is bound once the claim is."""

    uid: str
    namespace: str
    name: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BindVolume:
    """Give a volume that is there to a claim of this pod; the pod is bound to its node once the claim is.

    The version goes along, so that one of two requests for the same volume is refused. That ends as `BindFailed`.
    """

    uid: str
    namespace: str
    name: str
    node: str
    volume: str
    volume_uid: str
    version: int
    claim: str
    claim_uid: str
    # Whether it was we who chose it, and not who made it.
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCondition:
    """Write PodScheduled=False with this reason and message, and one FailedScheduling Event that says the same.

    Only decided when it differs from the last one for this pod.
    """

    uid: str
    namespace: str
    name: str
    reason: str
    message: str
    # The node where victims leave for this pod; empty takes a nomination back.
    nominated_node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """What a PodGroup's status should say; its dialect writes as much of it as its API defines.

    Without a phase nothing is known of the group but why it cannot be read: the rest of its status stays as it is.
    """

    uid: str
    namespace: str
    name: str
    dialect: str
    phase: GroupPhase | None
    # Whether the gang has its nodes. Where it has not, reason and message say why; once true it is not taken back.
    scheduled: bool
    reason: str = ""
    message: str = ""
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """What a Queue's status should say: groups by phase, shares, and what is wrong with its spec."""

    uid: str
    name: str
    dialect: str
    # Where it cannot be read, only why is written: the rest of its status stays as it is.
    readable: bool = True
    pending: int = 0
    inqueue: int = 0
    running: int = 0
    unknown: int = 0
    allocated: Amounts = ()
    deserved: Amounts = ()
    # A reason with a message is a condition and a Warning Event; without one the spec is in order.
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOverfull:
    """Tell of a node whose pods request more than it offers; an Event, and nothing is written."""

    uid: str
    name: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLost:
    """Tell of a pod that holds its job no longer because its node is down; an Event, and nothing is written."""

    uid: str
    namespace: str
    name: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """Ask the batch system for a job that backs a gang, or a pod by itself. Ends as `SubmitEnded`.

    The queue and the namespace decide which account pays, never what the pod says of itself.
    """

    uid: str
    namespace: str
    name: str
    queue: str
    namespace_labels: LabelPairs
    chunks: tuple[Chunk, ...]
    # By which the daemon knows its jobs from those of another on the same batch system.
    mark: str
    # Seconds; None leaves it to the batch system.
    walltime: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Have a job ended, because nothing of what it backed is left; a read of all jobs says when it is gone."""

    uid: str
    # The batch system's own name of the job, and whose it is, where it is not the daemon's own.
    name: str
    user: str = ""
    # Whether the job is to end although one of its hosts cannot be reached.
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AskHosts:
    """Ask the batch system which of these hosts are down. Ends as `HostsRead` if there is an answer."""

    hosts: tuple[str, ...]
    # It is about no object of the API.
    uid: str = ""
    name: str = ""


BatchAction = Submit | Release | AskHosts
Action = (
    Bind
    | Evict
    | SelectNode
    | BindVolume
    | PodCondition
    | PodLost
    | GroupStatus
    | QueueStatus
    | NodeOverfull
    | BatchAction
)
