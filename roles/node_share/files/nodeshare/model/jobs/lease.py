# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases and marks of ended jobs, as records."""

from typing import Any, Dict, NamedTuple, Optional, Tuple

from .job_key import JobKey


class Lease(NamedTuple):
    """One run of one batch job on this node, with what its caller knew. `began` is monotonic, valid in its boot."""

    key: JobKey
    boot_id: str
    began: float
    start: Optional[int] = None
    cores: Optional[int] = None
    memory: Optional[int] = None
    devices: Tuple[str, ...] = ()
    exclusive: bool = False
    doubtful: bool = False
    corrupt: bool = False
    cgroup: str = ""  # of the job, below the hierarchy that has its cpuset

    def share(self) -> Tuple[object, ...]:
        """Return what the job takes of this node, as far as its caller said."""
        return (self.cores, self.memory, self.devices, self.exclusive, self.cgroup)

    def told(self) -> Dict[str, Any]:
        """Return what others are told of the lease, as JSON: which run of which job, and how much of this node."""
        share = {"cores": self.cores, "memory": self.memory, "devices": self.devices, "exclusive": self.exclusive}
        return dict(self.key._asdict(), start=self.start, **share)


class Ended(NamedTuple):
    """What an `end` leaves behind for a begin that comes late."""

    key: JobKey
    boot_id: str
    at: float
    start: Optional[int] = None
