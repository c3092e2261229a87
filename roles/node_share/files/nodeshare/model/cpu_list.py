# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of CPUs as the kernel writes them."""

import re
from typing import FrozenSet, List, Set

_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", re.ASCII)


class CpusetError(Exception):
    """A cpuset could not be changed; the message names the file."""


def parse_cpus(text: str) -> FrozenSet[int]:
    """As the kernel writes a cpuset: `0-3,6`."""
    found: Set[int] = set()
    for word in text.strip().split(",") if text.strip() else ():
        match = _RANGE.fullmatch(word)
        run = range(int(match.group(1)), int(match.group(2) or match.group(1)) + 1) if match else range(0)
        if not run:
            raise CpusetError("{} is not a list of CPUs".format(ascii(text[:40])))
        found.update(run)
    return frozenset(found)


def format_cpus(cpus: FrozenSet[int]) -> str:
    runs: List[List[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else "{}-{}".format(first, last) for first, last in runs)
