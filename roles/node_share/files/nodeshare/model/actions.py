# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodeshare may know of the node and do to it, as values: the words that decisions are written in."""

from typing import NamedTuple, Optional, Tuple, Union

from .jobs.lease import Lease
from .node.observed import Pod
from .node.state import NodeState
from .pods.placeholder import Placeholder

# events
BEGIN, END, TICK, OFF, ON, ADOPT = "begin", "end", "tick", "off", "on", "adopt"
# what can be looked at
API, LOCAL, UNITS, LIFE, MOUNTED, DEVICES = "api", "local", "units", "life", "mounted", "devices"
ROOM, PLACED, ADMITTED = "room", "placed", "admitted"
# what the batch system says of a run
LIVE, ENDING, GONE = "live", "ending", "gone"
# outcomes for the caller
ACCEPT, REQUEUE, DRAIN = "accept", "requeue", "drain"


class Look(NamedTuple):
    what: str


class AskBatch(NamedTuple):
    """Ask the batch system about these leases, at most once per call."""

    leases: Tuple[Lease, ...]


class Drop(NamedTuple):
    lease: Lease
    why: str


class Remember(NamedTuple):
    memory: NodeState


class Announce(NamedTuple):
    text: str


class Evict(NamedTuple):
    pods: Tuple[Pod, ...]


class Delete(NamedTuple):
    pods: Tuple[Pod, ...]


class Confirm(NamedTuple):
    """Tell the API that these have ended, as the kubelet would that is stopped: nothing of them runs any more."""

    pods: Tuple[Pod, ...]


class Wait(NamedTuple):
    seconds: float


class AwaitAdmission(NamedTuple):
    """Wait, and look again at nothing but what the kubelet has let in."""

    seconds: float


class StopUnits(NamedTuple):
    units: Tuple[str, ...]
    force: bool


class StartUnits(NamedTuple):
    units: Tuple[str, ...]


class Confine(NamedTuple):
    cpus: str


class Release(NamedTuple):
    """Give kubepods all CPUs again."""


class Terminate(NamedTuple):
    uids: Tuple[str, ...]


class Kill(NamedTuple):
    uids: Tuple[str, ...]


class Unmount(NamedTuple):
    """Give the memory back that volumes of these pods have, which have ended."""

    uids: Tuple[str, ...]


class Report(NamedTuple):
    """An Event on the Node, where the API takes it, and a line in the log."""

    reason: str
    text: str


class Place(NamedTuple):
    placeholders: Tuple[Placeholder, ...]


class Unplace(NamedTuple):
    names: Tuple[str, ...]


class DrawFence(NamedTuple):
    """Set what pods may have beside these leases; the same when it is so already."""

    leases: Tuple[Lease, ...]


class WakeReturner(NamedTuple):
    """Start the unit that waits out the linger and gives the node back, without waiting for it."""


class Done(NamedTuple):
    outcome: str
    reason: str
    again_in: Optional[float] = None


Action = Union[
    Look,
    AskBatch,
    Drop,
    Remember,
    Announce,
    Evict,
    Delete,
    Confirm,
    Wait,
    AwaitAdmission,
    StopUnits,
    StartUnits,
    Confine,
    Release,
    Terminate,
    Kill,
    Unmount,
    Report,
    Place,
    Unplace,
    DrawFence,
    WakeReturner,
    Done,
]
