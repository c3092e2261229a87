# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of the batch system, what they have of each node, and what is asked of it for pods that are to be jobs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from placement.model.amounts.quantity import Amounts
from placement.model.rules.selector import LabelPairs


@dataclass(frozen=True, slots=True, kw_only=True)
class BackingSettings:
    """How a site's batch system says what pods ask for, and how long it waits."""

    # Whether pods of a gang that ask for less than a core share whole ones; otherwise each has its own.
    pack: bool = False
    # The batch system's names: for resources of pods, and for labels that pods select nodes by.
    devices: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    # Seconds that pods have to end before their job does, and that containers of a pod deleted by force may take.
    grace: float = 60.0
    linger: float = 30.0
    # Seconds that a node has been unreachable for when a pod that hangs there no longer holds its job.
    lost: float = 300.0
    # For whom jobs of a namespace in a queue are submitted; None where that is not known.
    whose: Callable[[str, LabelPairs, str], "Whose | None"] = field(default=lambda _name, _labels, _queue: Whose())
    # Whether pods are asked to leave for jobs that begin on their node, before the node itself asks.
    make_room: bool = True
    # Seconds for which a read of all jobs holds good; None where there is no batch system.
    holds_good: float | None = None


@dataclass(frozen=True, slots=True)
class Whose:
    """As which user a job is submitted, and to which queue of the batch system; no user is the daemon's own."""

    user: str = ""
    queue: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """So many times this, each on one node; memory in KiB."""

    count: int
    cores: int
    memory: int = 0
    devices: Amounts = ()
    # What the node must be, by the batch system's names.
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostShare:
    """What a job that runs has of one host, for one chunk; memory in KiB."""

    host: str
    cores: int
    memory: int = 0
    devices: Amounts = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """A job that has not ended, as its batch system reports it.

    `tag` is the UID of the gang or pod that it backs, and `mark` names the cluster and scheduler of these. Both are
    empty for a job that no daemon has submitted, whatever its name says.
    """

    id: str
    run: int
    state: str
    # The batch system, as a lease names it.
    system: str = ""
    # It runs, and what it has is its own at this moment; a suspended job has lost it.
    runs: bool = False
    # It is on its way out.
    ends: bool = False
    tag: str = ""
    mark: str = ""
    # Of the gang or pod; empty where the job does not say.
    namespace: str = ""
    # Of a job with a tag the user, where that is not the daemon's own; and the batch system's queue.
    owner: str = ""
    queue: str = ""
    # Of a job without a tag only while it begins; and whether, beginning, it has its hosts for itself.
    shares: tuple[HostShare, ...] = ()
    whole: bool = False
    # Those that it has, or, while it waits, those that it is expected on; for a job of ours its shares say more.
    hosts: tuple[str, ...] = ()
    # Seconds until the batch system ends it; None where it has no limit or does not run.
    left: float | None = None
    # Seconds until the batch system expects to start it; None where it does not wait, or nothing is expected.
    begins: float | None = None
    # Why it waits, in the batch system's words.
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRun:
    """One run of one job that is not ours on one node; its times are those of the job."""

    system: str
    job: str
    run: int
    left: float | None = None
    begins: float | None = None

    @property
    def key(self) -> str:
        """What makes it this run and no other, in the words in which its node announces it."""
        return f"{self.system}/{self.job}/{self.run}"
