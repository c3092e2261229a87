# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pods that must leave, for all jobs that wait. Lists of a whole cluster's pods are made one at a time and shared.

A list counts for a caller only if it began after the call: what was bound before a taint must be in it.
"""

import concurrent.futures
import threading
import time
from typing import Dict, Iterable, List, Optional

from ...kube.client import ApiError
from ...model.node.observed import Pod
from .api import ClusterApi

FEW = 64  # up to so many nodes are asked about their pods one by one; for more, all pods are listed
LONGEST_REST = 1.0  # seconds between two lists of all pods
RESTS = 3.0  # times as long as the list before took: lists of all pods never take more than a quarter of the time

ByNode = Dict[str, List[Pod]]


class Pods:
    """May be used by several threads at once. Times are seconds."""

    def __init__(self, api: ClusterApi, *, stopping: threading.Event) -> None:
        self.api = api
        self.stopping = stopping
        self._lock = threading.Lock()
        # A list that has not begun.
        self._next: Optional["concurrent.futures.Future[ByNode]"] = None  # noqa: UP037 - no [] before Python 3.9
        self._lister = concurrent.futures.ThreadPoolExecutor(1)
        self._ended, self._took = -LONGEST_REST, 0.0

    def on(self, names: Iterable[str], *, give_up: float) -> ByNode:
        """Return the pods that must leave, by node, as they are after this call began.

        Raises ApiError, also where they are not told by the monotonic time `give_up`.
        """
        wanted = sorted(set(names))
        if len(wanted) <= FEW:
            return self.api.pods(wanted)
        with self._lock:
            if self._next is None:
                self._next = self._lister.submit(self._list)
            coming = self._next
        try:
            found = coming.result(max(0.0, give_up - time.monotonic()))
        except concurrent.futures.TimeoutError as error:
            raise ApiError(0, "the list of all pods did not come in time") from error
        return {name: found.get(name, []) for name in wanted}

    def _list(self) -> ByNode:
        rest = min(LONGEST_REST, RESTS * self._took)
        self.stopping.wait(max(0.0, self._ended + rest - time.monotonic()))
        with self._lock:
            self._next = None  # from now on a call needs the list after this one
        began = time.monotonic()
        try:
            return self.api.all_pods()
        finally:
            self._ended = time.monotonic()
            self._took = self._ended - began

    def shutdown(self, *, wait: bool) -> None:
        """End with the list that is being made."""
        self._lister.shutdown(wait=wait)
