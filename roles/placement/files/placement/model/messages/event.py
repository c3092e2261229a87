# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the state is told. Events say what is true now, so a repeated or an old one changes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from placement.model.batch import BatchJob
from placement.model.device_slices import DeviceSlice
from placement.model.messages.action import Action, Bind, BindVolume
from placement.model.messages.refusal import Refusal
from placement.model.node_zones import NodeZones
from placement.model.objects.disruption import DisruptionBudget
from placement.model.objects.node import Node
from placement.model.objects.pod import Pod
from placement.model.objects.volume import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from placement.model.objects.workload import Namespace, PodGroup, PriorityClass, Queue

Object = (
    Pod
    | Node
    | PodGroup
    | Queue
    | PriorityClass
    | Namespace
    | DisruptionBudget
    | PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | StorageCapacity
    | NodeZones
    | DeviceSlice
    | VolumeAttachment
)


@dataclass(frozen=True, slots=True)
class Upserted:
    """The object is there and looks like this (ADDED or MODIFIED)."""

    item: Object


# The version of an end that nobody has seen: its API is not served any more, and may be again.
UNSERVED: Final = -1


@dataclass(frozen=True, slots=True)
class Deleted:
    """The object with this UID is deleted; `version` is that of the deletion, or UNSERVED."""

    kind: type[Object]
    uid: str
    version: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The object is there but could not be read; it keeps the charge of its last readable state."""

    kind: type[Object]
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Relisted:
    """All objects of one kind at one version, the unreadable ones too: whatever is older and not here is gone."""

    kind: type[Object]
    items: Sequence[Object]
    version: int
    refused: Sequence[Refusal] = ()


@dataclass(frozen=True, slots=True)
class BindFailed:
    """The pod was to be bound there, and the truth, read afterwards, says that it is nowhere; never sent on a guess."""

    uid: str
    node: str
    message: str


@dataclass(frozen=True, slots=True)
class Undetermined:
    """A binding was refused, and what is true could not be read afterwards.

    An earlier try whose answer was lost may have landed, so the plan stands.
    """

    action: Bind | BindVolume


@dataclass(frozen=True, slots=True)
class EvictRefused:
    """The API does not let the pod go now; `budget` says whether for a disruption budget, which the message names."""

    uid: str
    message: str
    budget: bool = False


@dataclass(frozen=True, slots=True)
class Unsent:
    """The action has been given up without an answer, because the right to write was lost or everything stops.

    A request may have arrived all the same. That right never comes back to the same process, so nothing is decided on
    the room that the undone plan frees before a new process has read what is true.
    """

    action: Action


@dataclass(frozen=True, slots=True)
class StatusWriteFailed:
    """The API server has failed for long at writing a status of the pod, group or queue with this UID."""

    uid: str


@dataclass(frozen=True, slots=True)
class JobsRead:
    """All jobs of the batch system in one answer, to a question that was begun at this monotonic time."""

    jobs: tuple[BatchJob, ...]
    begun: float


@dataclass(frozen=True, slots=True)
class JobsUnread:
    """The batch system was asked for its jobs and gave no answer that can be trusted: nothing follows from it."""

    message: str


@dataclass(frozen=True, slots=True)
class HostsRead:
    """Those of the asked hosts that the batch system says are down, to a question begun at this monotonic time."""

    down: frozenset[str]
    begun: float


@dataclass(frozen=True, slots=True)
class SubmitEnded:
    """A submission has ended at this monotonic time; without a job it was refused, or its result is unknown.

    Whether there is a job says the first read that begins later.
    """

    uid: str
    job: str
    message: str
    ended: float


BatchEvent = JobsRead | JobsUnread | HostsRead | SubmitEnded
Event = (
    Upserted
    | Deleted
    | Unreadable
    | Relisted
    | BindFailed
    | Undetermined
    | EvictRefused
    | StatusWriteFailed
    | Unsent
    | BatchEvent
)
