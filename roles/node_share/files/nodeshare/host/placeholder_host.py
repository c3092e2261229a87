# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the real node that share mode `placeholder` needs: its room, the kubelet's directory, the fence."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Callable, FrozenSet, Mapping, Optional, Tuple, TypeVar

from ..model.cpu_list import CpusetError
from ..model.job_key import JobKey
from ..model.lease import Lease
from ..model.observed import Room
from ..model.placeholder import Placeholder, name_of
from ..model.settings import Settings
from ..store import files
from .cpuset import Cpuset
from .host import Host, HostError

if TYPE_CHECKING:
    from ..kube.node_client import NodeClient
    from ..store.manifests import Manifests
    from .fence_writer import Fencing

T = TypeVar("T")
NO_CGROUP = (
    "no cgroup of all pods (kubepods) with a cpuset and a limit of memory below {}: nothing keeps pods off; "
    "the kubelet has a cgroupRoot, or cgroupsPerQOS: false, or a controller is not delegated"
)


class PlaceholderHost(Host):
    """What it needs of the node is named here, and is the node's own."""

    settings: Settings
    proc: str
    cgroup: str
    cpuset: Cpuset

    @abstractmethod
    def _api(self) -> "NodeClient": ...

    def ask_room(self) -> Room:
        from ..kube import client, room_reader

        try:
            return room_reader.ask_room(self._api(), self.local_pods)
        except client.ApiError as error:
            return Room(False, str(error))

    def placed(self) -> Mapping[str, str]:
        return self._recorded(lambda manifests: manifests.placed())

    def place(self, placeholders: Tuple[Placeholder, ...]) -> None:
        self._recorded(lambda manifests: manifests.place(placeholders))

    def unplace(self, names: Tuple[str, ...]) -> None:
        self._recorded(lambda manifests: manifests.unplace(names))

    def admitted(self, placed: Mapping[str, str], key: Optional[JobKey]) -> FrozenSet[str]:
        """By the API; where that is silent, by the processes, of which a refused pod has none.

        A repair asks both: a mirror pod that could not be made while the API was away comes a minute after it.
        """
        from ..kube import client, room_reader

        try:
            name = name_of(key) if key else ""
            found = room_reader.admitted(self._api(), {name: placed[name]} if name in placed else placed)
        except client.ApiError:
            return self.local_pods()
        return found if key or found.issuperset(placed.values()) else found | self.local_pods()

    def draw_fence(self, leases: Tuple[Lease, ...]) -> Tuple[str, ...]:
        from .limits import LimitsError

        fencing = self._fencing()
        try:
            missing = fencing.draw(leases)
        except (CpusetError, LimitsError, files.StoreError, OSError) as error:
            raise HostError(str(error)) from error
        if not fencing.has_all_it_needs(leases):
            self._need_no_pods()
        return missing

    def _need_no_pods(self) -> None:
        """Raise WorldError where a kubelet runs: its pods are nowhere that could be confined."""
        if self.active_units(self.settings.services[:1]):
            raise HostError(NO_CGROUP.format(self.cgroup))

    def allowance(self) -> Mapping[str, str]:
        try:
            return self._fencing().look()
        except OSError as error:
            raise HostError(str(error)) from error

    def _fencing(self) -> "Fencing":
        from .fence_writer import Fencing

        return Fencing(self.settings, proc=self.proc, cgroup=self.cgroup, cpuset=self.cpuset)

    def _recorded(self, act: "Callable[[Manifests], T]") -> "T":
        from ..store.manifests import Manifests

        try:
            return act(Manifests(self.settings.manifests))
        except files.StoreError as error:
            raise HostError(str(error)) from error
