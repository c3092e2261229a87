# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws the fence between pods and jobs: reads the jobs' cpusets, and sets what kubepods may have."""

import os
from typing import Dict, FrozenSet, Tuple

from ...decide import fence
from ...model.cpu_list import parse_cpus
from ...model.jobs.lease import Lease
from ...model.settings import COUNTS, Settings
from .cpuset import Cpuset
from .limits import Limits

OWN = (("cpuset", "cpuset.cpus"), ("", "cpuset.cpus"))  # of v1, of v2: below which hierarchy, and the file there
COMES_TO = (OWN[0], ("", "cpuset.cpus.effective"), OWN[1])


class Fencing:
    def __init__(self, settings: Settings, *, proc: str, cgroup: str, cpuset: Cpuset) -> None:
        self.settings = settings
        self.proc = proc
        self.cgroup = cgroup
        self.cpuset = cpuset
        self.limits = Limits(
            cgroup=cgroup, saved=os.path.join(settings.run_dir, "limits.json"), total=self._memory_of_machine
        )

    def draw(self, leases: Tuple[Lease, ...]) -> Tuple[str, ...]:
        """Cgroups that should have told the cores of a job and did not."""
        online = self._cpus("", COMES_TO) or _all_cpus()
        held = {}
        for group in fence.cgroups_needed(leases, self.settings):
            cpus = self._cpus(group, COMES_TO)
            # on v2 all that there are may only be what its parents have: that tells nothing of this job
            if cpus and (cpus != online or self._cpus(group, OWN)):
                held[group] = cpus
        drawn = fence.draw(leases, self.settings, online=online, held=held)
        if drawn.cpus is None:
            self.cpuset.release()
        else:
            self.cpuset.confine(drawn.cpus)
        if leases:
            self.limits.cap(memory=drawn.memory, weight=drawn.weight, of=drawn.of)
        else:
            self.limits.release()
        return drawn.missing

    def has_all_it_needs(self, leases: Tuple[Lease, ...]) -> bool:
        """Return whether there is what a fence is made of. One by counts is made of nothing."""
        return not leases or self.settings.fence == COUNTS or (self.cpuset.found() and self.limits.found())

    def look(self) -> Dict[str, str]:
        """Return what pods may have now, file by file."""
        return {**self.cpuset.look(), **self.limits.look()}

    def _cpus(self, group: str, files: Tuple[Tuple[str, str], ...]) -> FrozenSet[int]:
        """Return the cores of a cgroup by the first of these files that is there."""
        for hierarchy, name in files:
            try:
                with open(os.path.join(self.cgroup, hierarchy, group, name), "rb", buffering=0) as stream:
                    return parse_cpus(stream.read(1 << 16).partition(b"\n")[0].decode("ascii"))
            except OSError:
                pass  # another version, or not there at all
        return frozenset()

    def _memory_of_machine(self) -> int:
        values: Dict[str, str] = {}
        with open(os.path.join(self.proc, "meminfo")) as stream:
            for line in stream:
                name, _colon, rest = line.partition(":")
                values[name] = rest.split()[0]
        return int(values["MemTotal"]) * 1024


def _all_cpus() -> FrozenSet[int]:
    return frozenset(range(os.cpu_count() or 1))
