# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks all pods on all the nodes of a job to leave, again and again: budgets are respected, and no pod is killed."""

import threading
import time
from concurrent.futures import Executor
from typing import Callable, Dict, FrozenSet, List, NamedTuple, Set

from .cluster_api import ClusterApi
from .kube import ApiError
from .view import Pod

EVENTS_PER_JOB = 10
Looked = Callable[[List[str], Dict[str, List[Pod]]], bool]


class Drained(NamedTuple):
    """`reason` says why pods are left, or nothing."""

    reason: str
    evicted: int
    left: int


class Drain:
    """May be used by several threads at once."""

    def __init__(
        self, *, api: ClusterApi, pool: Executor, stopping: threading.Event, remark: Callable[[str], None]
    ) -> None:
        self.api = api
        self.pool = pool
        self.stopping = stopping
        self.remark = remark

    def run(self, key: str, names: List[str], *, give_up: float, looked: Looked) -> Drained:
        """`looked` is shown the pods every time, and says whether the job is still there."""
        asked: Set[str] = set()
        pause = 0.1
        while True:
            pods = self.api.pods(names)
            running = looked(names, pods)
            names = [name for name in names if pods[name]]
            here = [pod for name in names for pod in pods[name]]
            if not here:
                return Drained("", len(asked), 0)
            if not running or self.stopping.is_set():
                return Drained("stopping" if running else "the job has ended", len(asked), len(here))
            if time.monotonic() + pause >= give_up:
                self._report(key, names)
                return Drained("pods have not left in time", len(asked), len(here))
            asked |= self._evict([pod for pod in here if not pod.leaving])
            self.stopping.wait(pause)
            pause = min(1.0, pause * 1.5)

    def _evict(self, pods: List[Pod]) -> FrozenSet[str]:
        if self.stopping.is_set():
            return frozenset()
        under_way = [(pod, self.pool.submit(self._evict_one, pod)) for pod in pods]
        return frozenset(pod.uid for pod, future in under_way if future.result())

    def _evict_one(self, pod: Pod) -> bool:
        """False: ask again later. One pod that the API cannot evict now is no reason to give up on the others."""
        try:
            return self.api.evict(pod)
        except ApiError as error:
            self.remark(str(error))
            return False

    def _report(self, key: str, names: List[str]) -> None:
        for name in names[:EVENTS_PER_JOB]:
            try:
                self.api.event(name, "BatchDrainIncomplete", "pods have not left in time for batch job " + key)
            except ApiError as error:
                self.remark(str(error))
