# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which jobs live on this node, by its processes."""

import os
import re
from typing import Dict, Optional, Set, Tuple

from ..model.jobs.lease import Lease
from .pods.processes import is_of_our_user

_STEP = re.compile(r"slurmstepd: \[(\d+)\.", re.ASCII)


def life(leases: Tuple[Lease, ...], *, boot_id: str, proc: str = "/proc") -> Dict[str, Optional[bool]]:
    """Per lease: True, its processes are here; False, they are not; None, that cannot be told from here."""
    steps: Optional[Set[str]] = None
    found: Dict[str, Optional[bool]] = {}
    for lease in leases:
        key = lease.key
        if key.wlm == "slurm" and key.job.isdigit():
            if steps is None:
                steps = _slurm_steps(proc)
            found[str(key)] = key.job in steps
        elif lease.boot_id and lease.boot_id != boot_id:
            found[str(key)] = False  # no process outlives its boot
        else:
            found[str(key)] = None
    return found


def _slurm_steps(proc: str) -> Set[str]:
    """Job ids of the step daemons on this node, which write it into their own title."""
    found = set()
    for name in os.listdir(proc):
        if name.isdigit():
            try:
                with open(os.path.join(proc, name, "cmdline"), "rb") as stream:
                    title = _STEP.match(stream.read(100).decode("ascii", "replace"))
            except OSError:
                continue  # ended meanwhile
            if title and is_of_our_user(proc, int(name)):  # a batch user may give his processes any title
                found.add(title.group(1))
    return found
