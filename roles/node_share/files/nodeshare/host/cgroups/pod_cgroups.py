# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all pods of this node together may use: confined for one job, or fenced off the cores of several."""

from typing import TYPE_CHECKING, Callable, List, Mapping, Tuple

from ...model.cpu_list import CpusetError
from ...model.jobs.lease import Lease
from ...model.settings import Settings
from ...store import files
from ..host import HostError
from .cpuset import Cpuset

if TYPE_CHECKING:
    from .fence_writer import Fencing

MARGIN = 512 << 20  # bytes that pods which stay may gain beside a job that has the whole node
NO_CGROUP = (
    "no cgroup of all pods (kubepods) with a cpuset and a limit of memory below {}: nothing keeps pods off; "
    "the kubelet has a cgroupRoot, or cgroupsPerQOS: false, or a controller is not delegated"
)


class PodCgroups:
    """The cgroups of all pods. `active_units` tells which of the given units run."""

    def __init__(
        self,
        settings: Settings,
        *,
        proc: str,
        cgroup: str,
        cpuset: Cpuset,
        active_units: Callable[[Tuple[str, ...]], Tuple[str, ...]],
    ) -> None:
        self.settings = settings
        self.proc = proc
        self.cgroup = cgroup
        self.cpuset = cpuset
        self.active_units = active_units

    def draw_fence(self, leases: Tuple[Lease, ...]) -> Tuple[str, ...]:
        """Keep pods off what these leases hold; return cgroups that should have told the cores of a job and did not."""
        from .limits import LimitsError

        fencing = self._fencing()
        try:
            missing = fencing.draw(leases)
        except (CpusetError, LimitsError, files.StoreError, OSError) as error:
            raise HostError(str(error)) from error
        if not fencing.has_all_it_needs(leases):
            self._need_no_pods()
        return missing

    def allowance(self) -> Mapping[str, str]:
        """Return what pods may have now, file by file."""
        try:
            return self._fencing().look()
        except OSError as error:
            raise HostError(str(error)) from error

    def confine(self, cpus: str) -> None:
        """Confine pods to these cores and to the memory they use. If one fails, do the other, then raise HostError."""
        from .limits import LimitsError

        limits = self._fencing().limits
        steps: List[Callable[[], None]] = [lambda: self.cpuset.confine(cpus), lambda: limits.hold(margin=MARGIN)]
        errors = []
        for step in steps:
            try:
                step()
            except (CpusetError, LimitsError, files.StoreError) as error:
                errors.append(str(error))
        if errors:
            raise HostError("; ".join(errors))
        if not (self.cpuset.found() and limits.found()):
            self._need_no_pods()

    def release(self) -> None:
        """Give pods back what was taken from them. Do all of it even if a part fails, and then raise HostError."""
        from .limits import LimitsError

        errors = []
        for give_back in (self.cpuset.release, self._fencing().limits.release):
            try:
                give_back()
            except (CpusetError, LimitsError, files.StoreError) as error:
                errors.append(str(error))
        if errors:
            raise HostError("; ".join(errors))

    def _need_no_pods(self) -> None:
        """Raise HostError where a kubelet runs: its pods are nowhere that could be confined."""
        if self.active_units(self.settings.services[:1]):
            raise HostError(NO_CGROUP.format(self.cgroup))

    def _fencing(self) -> "Fencing":
        from .fence_writer import Fencing

        return Fencing(self.settings, proc=self.proc, cgroup=self.cgroup, cpuset=self.cpuset)
