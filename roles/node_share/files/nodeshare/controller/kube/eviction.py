# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks all pods on all the nodes of a job to leave, again and again: budgets are respected, and no pod is killed."""

import itertools
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import Callable, Dict, List, NamedTuple, Set

from ...kube.client import ApiError
from ...model.backoff import spread
from ...model.node.observed import Pod
from .api import ClusterApi
from .pods import Pods

EVENTS_PER_JOB = 10
JobStillRuns = Callable[[List[str], Dict[str, List[Pod]]], bool]


class EvictionResult(NamedTuple):
    """`reason` says why pods are left, or nothing."""

    reason: str
    evicted: int
    left: int


class NodeEvictor:
    """May be used by several threads at once. `pool` serves evictions alone, `at_once` of one job at a time."""

    def __init__(
        self,
        *,
        api: ClusterApi,
        pods: Pods,
        pool: Executor,
        at_once: int,
        stopping: threading.Event,
        remark: Callable[[str], None],
    ) -> None:
        self.api = api
        self.pods = pods
        self.pool = pool
        self.at_once = at_once
        self.stopping = stopping
        self.remark = remark

    def run(self, key: str, names: List[str], *, give_up: float, job_still_runs: JobStillRuns) -> EvictionResult:
        """Return at the monotonic time `give_up` in any case, soon after a request that is under way then.

        `job_still_runs` is shown the pods every time, and says whether the job is still there.
        """
        asked: Set[str] = set()
        pause = 0.1
        while True:
            pods = self.pods.on(names, give_up=give_up)
            running = job_still_runs(names, pods)
            names = [name for name in names if pods[name]]
            here = [pod for name in names for pod in pods[name]]
            if not here:
                return EvictionResult("", len(asked), 0)
            if not running or self.stopping.is_set():
                return EvictionResult("stopping" if running else "the job has ended", len(asked), len(here))
            if time.monotonic() + pause >= give_up:
                self.pool.submit(self._report, key, names)
                return EvictionResult("pods have not left in time", len(asked), len(here))
            asked |= self._evict([pod for pod in here if not pod.leaving], give_up)
            self.stopping.wait(spread(pause))
            pause = min(1.0, pause * 1.5)

    def ask(self, names: List[str], *, give_up: float, job_still_runs: JobStillRuns) -> int:
        """Ask all pods on these nodes once to leave, and wait for none; return how many the API took."""
        pods = self.pods.on(names, give_up=give_up)
        job_still_runs(names, pods)
        return len(self._evict([pod for name in names for pod in pods[name] if not pod.leaving], give_up))

    def _evict(self, pods: List[Pod], give_up: float) -> Set[str]:
        """Ask for the eviction of these pods, a few at once; return the uids of those that the API took by `give_up`.

        What is under way then goes on, and the rest is not begun: no other job waits behind it.
        """
        waiting = iter(pods)
        under_way: Dict["Future[bool]", str] = {}  # noqa: UP037 - a class without [] before Python 3.9
        asked: Set[str] = set()
        while not self.stopping.is_set():
            for pod in itertools.islice(waiting, self.at_once - len(under_way)):
                under_way[self.pool.submit(self._evict_one, pod)] = pod.uid
            if not under_way:
                break
            done, _rest = wait(under_way, timeout=max(0.0, give_up - time.monotonic()), return_when=FIRST_COMPLETED)
            asked.update(under_way[future] for future in done if future.result())
            for future in done:
                del under_way[future]
            if time.monotonic() >= give_up:
                break
        for future in under_way:
            future.cancel()
        return asked

    def _evict_one(self, pod: Pod) -> bool:
        """Evict a pod. False: ask again later. A pod that the API cannot evict now does not hold up the others."""
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
                return
