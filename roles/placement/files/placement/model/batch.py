# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of the batch system, what they have of each node, and what is asked of it for pods that are to be jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from placement.model.quantity import Amounts


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
    # It runs, and what it has is its own at this moment; a suspended job has lost it.
    runs: bool = False
    # It is on its way out.
    ends: bool = False
    tag: str = ""
    shares: tuple[Share, ...] = ()
    # Seconds until the batch system ends it; None where it has no limit or does not run.
    left: float | None = None
    # Why it waits, in the batch system's words.
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One run of one job on one node; a late end of run 1 must never free run 2."""

    system: str
    job: str
    run: int
    node: str
    # Unix seconds, and the kernel's boot id: together they tell a run from its namesake.
    start: int = 0
    boot: str = ""
    request: Amounts = ()

    @property
    def key(self) -> tuple[str, str, int, str]:
        """What makes it this lease and no other."""
        return (self.system, self.job, self.run, self.node)
