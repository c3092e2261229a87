# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller asks of a batch system, whichever it is. "Cannot tell" is None."""

import time
from abc import ABC, abstractmethod
from typing import Callable, Dict, FrozenSet, Iterable, Mapping, Optional, Tuple, TypeVar

from ...model.answer import Answer
from ..decide import Jobs

Run = Callable[[Tuple[str, ...]], Answer]
Read = TypeVar("Read")
Start = Tuple[float, Iterable[str]]
LATE_SECONDS = 120.0  # how long a planned start may be past before pods may come again


class Batch(ABC):
    """The questions, with Kubernetes' names in the answers. `run` raises OSError where there is no answer in time."""

    def __init__(self, *, run: Run, host: str, names: Mapping[str, str], remark: Callable[[str], None]) -> None:
        self.run = run
        self.host = host
        self.names = names
        self.wlm_names = {kube: wlm for wlm, kube in names.items()}
        self.remark = remark

    @abstractmethod
    def in_control(self) -> Optional[bool]: ...

    @abstractmethod
    def jobs(self) -> Optional[Jobs]: ...

    @abstractmethod
    def states(self) -> Optional[Dict[str, str]]: ...

    def starts(self) -> Optional[Mapping[str, Optional[float]]]:
        """When the next planned job or reservation begins on each node that has one, in seconds of the epoch.

        None, for all nodes or for one: it cannot be told, and stays as it was.
        """
        return {}

    def ends(self) -> Optional[Dict[str, float]]:
        """When jobs that run end at the latest, by key, in seconds of the epoch; without those that have no limit.

        None: it cannot be told, as by a batch system that is not asked for ends.
        """
        return None

    def earliest(self, starts: Iterable[Start]) -> Dict[str, float]:
        """Return the next start on each node. One that was long ago must not hide the plans behind it."""
        found: Dict[str, float] = {}
        missed = time.time() - LATE_SECONDS
        for at, names in starts:
            if at < missed:
                continue
            for name in self.kube_names(names):
                found[name] = min(at, found.get(name, at))
        return found

    def kube_names(self, wlm_names: Iterable[str]) -> FrozenSet[str]:
        return frozenset(self.names.get(name, name) for name in wlm_names)

    def wlm_name(self, kube_name: str) -> str:
        return self.wlm_names.get(kube_name, kube_name)

    def answered(
        self, argv: Tuple[str, ...], read: Callable[[str], Read], codes: Tuple[int, ...] = (0,)
    ) -> Optional[Read]:
        """Return what a command printed, read; None and a remark if it printed nothing that can be read."""
        try:
            answer = self.run(argv)
        except OSError as error:
            self.remark(str(error))
            return None
        if answer.code not in codes:
            self.remark("{}: exit code {}: {}".format(argv[0], answer.code, answer.err.strip()[:200]))
            return None
        try:
            return read(answer.out)
        except ValueError as error:
            self.remark("{}: {}".format(argv[0], error))
            return None


def plain(text: str) -> str:
    """Return the words of a reason, without user and time, which change with every repetition."""
    return ascii(text.partition(" [")[0].strip())[1:-1]
