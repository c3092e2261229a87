# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the cgroups of all pods. A kubelet whose cgroup driver was changed leaves that of the former driver empty."""

import os
from typing import List, Tuple

NAMES = ("kubepods", "kubepods.slice")  # by the driver cgroupfs, by systemd


def tops(cgroup: str, hierarchies: Tuple[str, ...]) -> List[str]:
    """Return the cgroups below which a kubelet of either driver puts pods, of each of these hierarchies."""
    paths = [os.path.join(cgroup, hierarchy, name) for hierarchy in hierarchies for name in NAMES]
    return [path for path in paths if os.path.isdir(path)]
