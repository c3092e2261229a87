# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that can be seen of a node and done to it. `real_host` has the real one; tests have one in simulated time."""

from abc import ABC, abstractmethod
from typing import FrozenSet, Mapping, Optional, Tuple

from ..model.jobs.job_key import JobKey
from ..model.jobs.lease import Lease
from ..model.node.observed import Api, Pod, Room
from ..model.pods.placeholder import Placeholder


class HostError(Exception):
    """One thing could not be seen or done; the message says which and why."""


class Host(ABC):
    """The node, the API and the batch system. Every method is bounded in time and raises only HostError."""

    @abstractmethod
    def now(self) -> float: ...

    @abstractmethod
    def sleep(self, seconds: float) -> None: ...

    @abstractmethod
    def boot_id(self) -> str: ...

    @abstractmethod
    def ask_api(self) -> Api: ...

    @abstractmethod
    def local_pods(self) -> FrozenSet[str]: ...

    @abstractmethod
    def active_units(self, units: Tuple[str, ...]) -> Tuple[str, ...]: ...

    @abstractmethod
    def life(self, leases: Tuple[Lease, ...]) -> Mapping[str, Optional[bool]]: ...

    @abstractmethod
    def ask_batch(self, leases: Tuple[Lease, ...]) -> Mapping[str, str]: ...

    @abstractmethod
    def ask_room(self) -> Room: ...

    @abstractmethod
    def placed(self) -> Mapping[str, str]: ...

    @abstractmethod
    def place(self, placeholders: Tuple[Placeholder, ...]) -> None: ...

    @abstractmethod
    def unplace(self, names: Tuple[str, ...]) -> None: ...

    @abstractmethod
    def admitted(self, placed: Mapping[str, str], key: Optional[JobKey]) -> FrozenSet[str]:
        """Return the uids of placeholders that run or are about to: of one run, or of all."""

    @abstractmethod
    def draw_fence(self, leases: Tuple[Lease, ...]) -> Tuple[str, ...]:
        """Cgroups that should have told the cores of a job and did not."""

    @abstractmethod
    def allowance(self) -> Mapping[str, str]:
        """Return what all pods together may have now, in whatever words; it is only compared."""

    @abstractmethod
    def announce(self, text: str) -> None: ...

    @abstractmethod
    def evict(self, pods: Tuple[Pod, ...]) -> None: ...

    @abstractmethod
    def delete(self, pods: Tuple[Pod, ...]) -> None: ...

    @abstractmethod
    def confirm(self, pods: Tuple[Pod, ...]) -> None: ...

    @abstractmethod
    def stop_units(self, units: Tuple[str, ...], *, force: bool) -> None: ...

    @abstractmethod
    def start_units(self, units: Tuple[str, ...]) -> None: ...

    @abstractmethod
    def confine(self, cpus: str) -> None: ...

    @abstractmethod
    def release(self) -> None: ...

    @abstractmethod
    def terminate(self, uids: Tuple[str, ...]) -> None: ...

    @abstractmethod
    def kill(self, uids: Tuple[str, ...]) -> None: ...

    @abstractmethod
    def mounted(self) -> FrozenSet[str]:
        """Return the uids of pods that have volumes in memory here."""

    @abstractmethod
    def unmount(self, uids: Tuple[str, ...]) -> None: ...

    @abstractmethod
    def device_holders(self) -> Mapping[str, str]:
        """By pod uid, a process that has an accelerator open, in words."""

    @abstractmethod
    def report(self, reason: str, text: str) -> None: ...

    @abstractmethod
    def wake_returner(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...
