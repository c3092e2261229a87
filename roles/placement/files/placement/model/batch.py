# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of the batch system, and the runs of them that hold a node."""

from dataclasses import dataclass

from placement.model.quantity import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """A job as its batch system reports it; `tag` is the UID of the gang it backs, empty for a user's own job."""

    system: str
    job: str
    run: int
    state: str
    nodes: tuple[str, ...] = ()
    tag: str = ""


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
