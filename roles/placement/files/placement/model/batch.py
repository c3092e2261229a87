# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of the batch system, what they have of each node, and what is asked of it for pods that are to be jobs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from placement.model.quantity import Amounts
from placement.model.selector import LabelPairs


@dataclass(frozen=True, slots=True, kw_only=True)
class BackingRules:
    """How a site's batch system says what pods ask for, and how long it waits."""

    # Whether pods of a gang that ask for less than a core share whole ones; otherwise each has its own.
    pack: bool = False
    # The batch system's names: for resources of pods, and for labels that pods select nodes by.
    devices: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    # Seconds that pods have to end before their job does, and that containers of a pod deleted by force may take.
    grace: float = 60.0
    linger: float = 30.0
    # As whom jobs of a namespace in a queue are submitted; empty is the daemon's own user, None that nobody can say.
    user_of: Callable[[str, LabelPairs, str], str | None] = field(default=lambda _namespace, _labels, _queue: "")


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
class Share:
    """What a job that runs has of one host, for one chunk; memory in KiB."""

    host: str
    cores: int
    memory: int = 0
    devices: Amounts = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """A job that has not ended, as its batch system reports it.

    `tag` is the UID of the gang or pod that it backs; empty for a job that is not ours, whatever its name says.
    """

    job: str
    run: int
    state: str
    # The batch system, as a lease names it.
    system: str = ""
    # It runs, and what it has is its own at this moment; a suspended job has lost it.
    runs: bool = False
    # It is on its way out.
    ends: bool = False
    tag: str = ""
    # Of a job that is ours the user, where that is not the daemon's own.
    owner: str = ""
    shares: tuple[Share, ...] = ()
    # Of a job that is not ours only hosts: those that it has, or, while it waits, those that it is expected on.
    hosts: tuple[str, ...] = ()
    # Seconds until the batch system ends it; None where it has no limit or does not run.
    left: float | None = None
    # Seconds until the batch system expects to start it; None where it does not wait, or nothing is expected.
    begins: float | None = None
    # Why it waits, in the batch system's words.
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One run of one job that is not ours on one node; its times are those of the job."""

    system: str
    job: str
    run: int
    left: float | None = None
    begins: float | None = None

    @property
    def key(self) -> str:
        """What makes it this lease and no other, in the words in which its node announces it."""
        return f"{self.system}/{self.job}/{self.run}"
