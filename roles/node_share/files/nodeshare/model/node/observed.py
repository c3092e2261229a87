# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was seen of the node, its API and its pods."""

from typing import FrozenSet, Mapping, NamedTuple, Optional, Tuple

from ..jobs.job_key import JobKey
from ..pods.placeholder import PRIORITY
from .state import NodeState

# announced in place of leases: no pod is left here, and nobody who could tell the API so
SWITCHED_OFF = '["off"]'


class Pod(NamedTuple):
    """A pod of this node as the API tells it. `uid` is the one its processes carry on the node."""

    namespace: str
    name: str
    uid: str
    stays: bool = False  # mirror pods, and those of DaemonSets alone until they are deleted, whatever the share mode
    leaving: bool = False  # deletion has begun
    over: bool = False  # succeeded or failed
    mounts: bool = False  # a volume that another node could have next


class Api(NamedTuple):
    """One reading of the API; `announced` is our annotation's present text, `tainted` whether our taint is there.

    Not `registered`: this node has no Node object, or no identity to ask with. `holders`: jobs, by key, for which the
    controllers have asked pods to leave, `held_seconds` ago.
    """

    answers: bool
    why: str = ""
    tainted: bool = False
    announced: str = ""
    pods: Tuple[Pod, ...] = ()
    registered: bool = True
    holders: Tuple[str, ...] = ()
    held_seconds: float = 0.0


class Guest(NamedTuple):
    """A pod with what counts when room is needed; amounts are thousandths by resource."""

    pod: Pod
    priority: int
    gang: str
    requests: Mapping[str, int]

    @property
    def stays(self) -> bool:
        """Beside jobs also what no kubelet ends for a placeholder: it spares those of at least the same priority.

        The API server gives a pod its priority by its class, so a user cannot choose one.
        """
        return self.pod.stays or self.priority >= PRIORITY


class Room(NamedTuple):
    """One reading of what this node has and which pods are on it, placeholders left out; `announced` as in Api."""

    answers: bool
    why: str = ""
    allocatable: Mapping[str, int] = {}
    guests: Tuple[Guest, ...] = ()
    announced: str = ""


class Observed(NamedTuple):
    """None means: not looked yet. `began` is when this call began; `tried` counts what this call has done."""

    now: float
    began: float
    boot_id: str
    memory: NodeState
    api: Optional[Api] = None
    local: Optional[FrozenSet[str]] = None  # uids of pods that have processes here
    mounted: Optional[FrozenSet[str]] = None  # uids of pods that have volumes in memory here
    holding: Optional[Mapping[str, str]] = None  # by pod uid: the process that has a device open, in words
    held_since: Optional[float] = None  # since when this call has seen one
    active: Optional[Tuple[str, ...]] = None  # of settings.services, in their order
    life: Optional[Mapping[str, Optional[bool]]] = None  # per lease: processes here; None: cannot tell
    answers: Mapping[str, str] = {}  # per lease: LIVE, ENDING or GONE; absent: not asked, or cannot tell
    tried: Mapping[str, int] = {}
    evicted_at: Mapping[str, float] = {}  # per pod uid, by this call
    deleted_at: Optional[float] = None
    key: Optional[JobKey] = None  # the run that this call is about
    room: Optional[Room] = None
    placed: Optional[Mapping[str, str]] = None  # placeholders in the kubelet's directory: uid by name
    unseen: str = ""  # beside pods: why the last look failed, time and again
    placed_at: Optional[float] = None  # by this call
    admitted: Optional[FrozenSet[str]] = None  # uids of those that the kubelet has let in
    unfenced: Optional[Tuple[str, ...]] = None  # after the fence was drawn: cgroups that told no cores
