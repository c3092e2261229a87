# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What comes and goes: single pods and gangs for a pool with room, and more than fits for a pool without."""

import random
from dataclasses import dataclass
from typing import Any, Final

from placement_churn.reading import GROUP_NAME, POOL

Json = dict[str, Any]

WIDE: Final = "wide"
TIGHT: Final = "tight"
URGENT: Final = "churn-urgent"
FILLER: Final = "churn-filler"
# Of the cores of the tight pool that much is asked for.
DEMAND: Final = 1.3


@dataclass(frozen=True, slots=True)
class Job:
    """Pods of one size that come together, and go when they have lived; a gang if there is a minimum above one."""

    name: str
    pool: str
    pods: int
    least: int
    cpu: int
    urgent: bool
    lives: float

    @property
    def is_gang(self) -> bool:
        """Whether it has a PodGroup."""
        return self.pods > 1

    def names(self) -> list[str]:
        """Return the names of its pods."""
        return [f"{self.name}-{number}" for number in range(self.pods)]

    def group(self) -> Json:
        """Return the spec of its PodGroup."""
        return {"minMember": self.least, **({"priorityClassName": URGENT} if self.urgent else {})}

    def pod(self, name: str, namespace: str, scheduler: str) -> Json:
        """Return one of its pods."""
        requests = {"cpu": str(self.cpu), "memory": f"{self.cpu}Gi"}
        container = {"name": "main", "image": "localhost/none", "resources": {"requests": requests}}
        spec: Json = {
            "schedulerName": scheduler,
            "nodeSelector": {POOL: self.pool},
            "automountServiceAccountToken": False,
            "containers": [container],
        }
        metadata: Json = {"name": name, "namespace": namespace, "labels": {"app": "urgent" if self.urgent else FILLER}}
        if self.urgent:
            spec["priorityClassName"] = URGENT
        if self.is_gang:
            metadata["annotations"] = {GROUP_NAME: self.name}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Draw:
    """Draw jobs by a seed."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"jobs-{seed}")
        self._number = 0

    def wide(self) -> Job:
        """Return a job for the pool with room: every second one is a gang."""
        pods = self._rng.choice((1, 1, 2, 4, 8, 16)) if self._rng.random() < 0.75 else 1
        return self._job(WIDE, pods, self._rng.choice((1, 2, 4, 8)), urgent=False, lives=(20, 90))

    def tight(self) -> Job:
        """Return a job for the pool without room: every fourth is urgent, and preempts."""
        urgent = self._rng.random() < 0.25
        pods = self._rng.choice((1, 2, 3, 4)) if urgent else self._rng.choice((1, 1, 1, 3))
        cpu = self._rng.choice((8, 16)) if urgent else self._rng.choice((2, 4, 8))
        return self._job(TIGHT, pods, cpu, urgent=urgent, lives=(20, 60) if urgent else (60, 180))

    def _job(self, pool: str, pods: int, cpu: int, *, urgent: bool, lives: tuple[float, float]) -> Job:
        self._number += 1
        least = pods if pods < 4 or self._rng.random() < 0.7 else pods - 2
        return Job(f"{pool}-{self._number}", pool, pods, least, cpu, urgent, self._rng.uniform(*lives))
