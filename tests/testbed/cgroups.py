# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cgroups a node container gets, decided from what the machine has and what the node's systemd accepts.

Three ways were found to work. Limits are real in the first two; the third exists because the
systemd of Debian 13 refuses cgroup v1, and a machine booted with v1 keeps its controllers there.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from testbed.errors import BedError

CGROUP_ROOT = Path("/sys/fs/cgroup")
FIRST_DEBIAN_WITHOUT_V1 = 13


class Way(Enum):
    """How node containers get their cgroups."""

    V1 = "cgroup-v1"
    V2 = "cgroup-v2"
    PRIVATE_V2 = "private-cgroup-v2"

    @property
    def has_limits(self) -> bool:
        """Whether CPU and memory limits of pods and jobs are real."""
        return self is not Way.PRIVATE_V2


def host_version(root: Path = CGROUP_ROOT) -> int:
    """2 where the machine has the unified hierarchy only, 1 for v1 and hybrid."""
    if (root / "cgroup.controllers").exists():
        return 2
    if (root / "memory").is_dir():
        return 1
    raise BedError(f"{root}: neither cgroup v2 nor a v1 memory controller found; boot the machine with cgroups enabled")


def choose(*, version: int, debian: int) -> Way:
    """The best way for nodes of this Debian on a machine with this cgroup version."""
    if version == 2:
        return Way.V2
    return Way.PRIVATE_V2 if debian >= FIRST_DEBIAN_WITHOUT_V1 else Way.V1
