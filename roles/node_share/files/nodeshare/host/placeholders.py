# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placeholders of jobs on this node: the room for them, the kubelet's directory, and which of them it has let in."""

from typing import TYPE_CHECKING, Callable, FrozenSet, Mapping, Optional, Tuple, TypeVar

from ..model.jobs.job_key import JobKey
from ..model.node.observed import Room
from ..model.pods.placeholder import Placeholder, name_of
from ..model.settings import Settings
from ..store import files
from .host import HostError

if TYPE_CHECKING:
    from ..kube.node_client import NodeClient
    from ..store.manifests import Manifests

T = TypeVar("T")


class Placeholders:
    """The node's placeholders. `api` gives a connection or raises ApiError; `local_pods` lists pods by processes."""

    def __init__(
        self,
        settings: Settings,
        *,
        api: "Callable[[], NodeClient]",
        local_pods: Callable[[], FrozenSet[str]],
    ) -> None:
        self.settings = settings
        self.api = api
        self.local_pods = local_pods

    def ask_room(self) -> Room:
        """Return what the API says of the node's room; where the API is silent, why."""
        from ..kube import client, room_reader

        try:
            return room_reader.ask_room(self.api(), self.local_pods)
        except client.ApiError as error:
            return Room(False, str(error))

    def placed(self) -> Mapping[str, str]:
        """Return the uids of placeholders in the kubelet's directory, by name."""
        return self._recorded(lambda manifests: manifests.placed())

    def place(self, placeholders: Tuple[Placeholder, ...]) -> None:
        """Write placeholders into the kubelet's directory."""
        self._recorded(lambda manifests: manifests.place(placeholders))

    def unplace(self, names: Tuple[str, ...]) -> None:
        """Remove placeholders from the kubelet's directory."""
        self._recorded(lambda manifests: manifests.unplace(names))

    def admitted(self, placed: Mapping[str, str], key: Optional[JobKey]) -> FrozenSet[str]:
        """Return the uids of pods that run: by the API, or by the processes where the API is silent.

        A pod that the kubelet has refused has no process. A repair asks both: a mirror pod that could not be made while
        the API was away comes a minute after it.
        """
        from ..kube import client, room_reader

        try:
            name = name_of(key) if key else ""
            found = room_reader.admitted(self.api(), {name: placed[name]} if name in placed else placed)
        except client.ApiError:
            return self.local_pods()
        return found if key or found.issuperset(placed.values()) else found | self.local_pods()

    def _recorded(self, act: "Callable[[Manifests], T]") -> "T":
        from ..store.manifests import Manifests

        try:
            return act(Manifests(self.settings.manifests))
        except files.StoreError as error:
            raise HostError(str(error)) from error
