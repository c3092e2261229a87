# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller at work: jobs and changes come in by threads, and every Node is brought to what is believed of it.

Whatever happened (a job handed over, a list of all jobs, a change of a Node, a write that failed before) ends in the
same step, `settle`: look at the Node as kept in memory, decide, and write by compare-and-set if anything differs.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Callable, Dict, FrozenSet, Iterable, List, NamedTuple, Set, Tuple

from .cluster import Beliefs, NodeSeen, decide_cluster, patch_of
from .cluster_api import ClusterApi
from .cluster_batch import Batch
from .kube import ApiError
from .view import Pod

TRIES = 6  # of one compare-and-set: a kubelet writes to its Node a few times a minute
RETRY_SECONDS = 1.0
LEARNING_SECONDS = 2.0  # between the first lists, until they are enough to lift anything
START_SECONDS = 2.0  # that a job waits for the first list of nodes
EVENTS_PER_JOB = 10
UNKNOWN_SHOWN = 10


class Outcome(NamedTuple):
    """What became of a job handed over. Not `ok`: the nodes help themselves, and `reason` says why."""

    ok: bool
    reason: str = ""
    nodes: int = 0
    patched: int = 0
    evicted: int = 0
    left: int = 0
    unknown: Tuple[str, ...] = ()


class Controller:
    """May be used by several threads at once."""

    def __init__(self, *, api: ClusterApi, batch: Batch, connections: int, remark: Callable[[str], None]) -> None:
        self.api = api
        self.batch = batch
        self.remark = remark
        self.stopping = threading.Event()
        self.synced = threading.Event()  # all nodes have been listed
        self.beliefs = Beliefs()
        self.nodes: Dict[str, NodeSeen] = {}
        self._empty: Set[str] = set()  # tainted, and seen without pods since
        self._failed: Set[str] = set()
        self._answered: Set[str] = set()  # jobs that hold nodes and wait for them no longer
        self._lock = threading.RLock()
        self._writing: Dict[str, threading.Lock] = {}
        self._pool = ThreadPoolExecutor(connections)

    # What the API tells

    def replace(self, nodes: List[NodeSeen]) -> None:
        with self._lock:
            self.nodes = {node.name: node for node in nodes}
            self._empty.clear()
        self.synced.set()
        self.settle_all()

    def changed(self, kind: str, node: NodeSeen) -> None:
        with self._lock:
            if kind == "DELETED":
                self.nodes.pop(node.name, None)
                self._empty.discard(node.name)
                return
            self._see(node)
            due = patch_of(self.nodes[node.name], self.beliefs.of(node.name)) is not None
        if due:
            self._submit([node.name])

    def _see(self, node: NodeSeen) -> None:
        """Newer versions only: the watch tells us of our own writes late."""
        known = self.nodes.get(node.name)
        if known is not None and known.uid == node.uid and _older(node.version, known.version):
            return
        self.nodes[node.name] = node
        if not node.tainted or (known is not None and known.uid != node.uid):
            self._empty.discard(node.name)

    # What the batch system tells

    def begin(self, key: str, wlm_names: Iterable[str], *, give_up: float) -> Outcome:
        names = self.batch.kube_names(wlm_names)
        with self._lock:
            taken = frozenset(name for name in names if self._is_taken(name, key))
            self.beliefs.begin(key, names)
        try:
            return self._begin(key, names, taken, give_up)
        finally:
            with self._lock:
                self._answered.intersection_update(self.beliefs.nodes_of)
                self._answered.add(key)

    def _is_taken(self, name: str, key: str) -> bool:
        """Whether another job was given this node: it is the node's own work to be free, and what is left cannot leave.

        A job that the batch system lists and that has not been handed over yet has sent nobody away.
        """
        return any(other != key and other in self._answered for other in self.beliefs.of(name).holders)

    def _begin(self, key: str, names: FrozenSet[str], taken: FrozenSet[str], give_up: float) -> Outcome:
        if not self.synced.wait(START_SECONDS):
            return Outcome(False, "the API has not answered yet", len(names))
        with self._lock:
            decision = decide_cluster(self.nodes, self.beliefs, names)
        outcome = Outcome(True, "", len(names), len(decision.patches), 0, 0, decision.unknown[:UNKNOWN_SHOWN])
        reason = self._settle(decision.patches, give_up)
        if reason:
            return outcome._replace(ok=False, reason=reason)
        with self._lock:
            full = [name for name in names.difference(decision.unknown, taken) if name not in self._empty]
        try:
            return self._drain(key, full, give_up, outcome) if full else outcome
        except ApiError as error:
            return outcome._replace(ok=False, reason=str(error))

    def end(self, key: str, wlm_names: Iterable[str], *, give_up: float) -> Outcome:
        with self._lock:
            names = self.batch.kube_names(wlm_names) | self.beliefs.end(key)
            decision = decide_cluster(self.nodes, self.beliefs, names)
        reason = self._settle(decision.patches, give_up)
        return Outcome(not reason, reason, len(names), len(decision.patches), 0, 0, decision.unknown[:UNKNOWN_SHOWN])

    def poll(self) -> None:
        """Who is in control, all jobs, all nodes' states; what cannot be told stays as it was."""
        in_control = self.batch.in_control()
        with self._lock:
            if in_control is False and self.beliefs.acting:
                self.remark("another controller is in control: standing by")
            if in_control is False:
                self.beliefs = Beliefs()
            elif in_control and not self.beliefs.acting:
                self.remark("in control")
            if not in_control:
                return
            self.beliefs.ask()
            beliefs = self.beliefs
        jobs, states = self.batch.jobs(), self.batch.states()
        with self._lock:
            beliefs.take_jobs(jobs)
            beliefs.take_states(states)
        self.settle_all()

    def run_polls(self, period: float) -> None:
        """Until told to stop: lists once a period, and what failed to be written once a second."""
        due = 0.0
        while not self.stopping.is_set():
            if time.monotonic() >= due:
                self.poll()
                with self._lock:
                    learning = self.beliefs.acting and not self.beliefs.of("").may_lift
                due = time.monotonic() + (min(LEARNING_SECONDS, period) if learning else period)
            self.stopping.wait(min(RETRY_SECONDS, period))
            with self._lock:
                failed, self._failed = list(self._failed), set()
            self._submit(failed)

    # Bringing Nodes to what is believed

    def settle_all(self) -> None:
        with self._lock:
            names = list(decide_cluster(self.nodes, self.beliefs, self.nodes).patches)
        self._submit(names)

    def _submit(self, names: Iterable[str]) -> None:
        if not self.stopping.is_set():
            for name in names:
                self._pool.submit(self._settle_one, name)

    def _settle(self, names: Iterable[str], give_up: float) -> str:
        """Empty, or why not all were written by then. What is under way goes on."""
        if self.stopping.is_set():
            return "stopping"
        under_way = [self._pool.submit(self._settle_one, name) for name in names]
        done, late = wait(under_way, timeout=max(0.0, give_up - time.monotonic()))
        failures = [answer for answer in (future.result() for future in done) if answer]
        if late:
            failures.append("{} nodes not written in time".format(len(late)))
        return "; ".join(sorted(set(failures))[:3])

    def _settle_one(self, name: str) -> str:
        with self._lock:
            writing = self._writing.setdefault(name, threading.Lock())
        with writing:  # two jobs on one node must not race each other
            try:
                return self._write(name)
            except ApiError as error:
                with self._lock:
                    self._failed.add(name)
                return str(error)

    def _write(self, name: str) -> str:
        for _attempt in range(TRIES):
            with self._lock:
                node = self.nodes.get(name)
                patch = None if node is None else patch_of(node, self.beliefs.of(name))
            if patch is None:
                return ""
            try:
                found = self.api.patch(name, patch)
            except ApiError as error:
                if error.status not in (404, 409):
                    raise
                if error.status == 404:
                    with self._lock:
                        self.nodes.pop(name, None)
                    return ""
                found = self.api.node(name)
            with self._lock:
                self._see(found)
        raise ApiError(409, "{}: changed by others {} times in a row".format(name, TRIES))

    # Pods

    def _drain(self, key: str, names: List[str], give_up: float, outcome: Outcome) -> Outcome:
        """Ask all pods on all the nodes to leave, again and again: budgets are respected until the deadline."""
        asked: Set[str] = set()
        pause = 0.1
        while True:
            pods = self.api.pods(names)
            with self._lock:
                self._empty.update(name for name in names if not pods[name] and self.nodes[name].tainted)
                running = key in self.beliefs.nodes_of
            names = [name for name in names if pods[name]]
            here = [pod for name in names for pod in pods[name]]
            outcome = outcome._replace(evicted=len(asked), left=len(here))
            if not here:
                return outcome
            if not running or self.stopping.is_set():
                return outcome._replace(ok=False, reason="stopping" if running else "the job has ended")
            if time.monotonic() + pause >= give_up:
                self._report(key, names)
                return outcome._replace(ok=False, reason="pods have not left in time")
            asked |= self._evict([pod for pod in here if not pod.leaving])
            self.stopping.wait(pause)
            pause = min(1.0, pause * 1.5)

    def _evict(self, pods: List[Pod]) -> FrozenSet[str]:
        if self.stopping.is_set():
            return frozenset()
        under_way = [(pod, self._pool.submit(self._evict_one, pod)) for pod in pods]
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

    def stop(self) -> None:
        """What is being written is finished; each request has its own bound."""
        self.stopping.set()
        self._pool.shutdown(wait=True)


def _older(version: str, than: str) -> bool:
    return version.isdigit() and than.isdigit() and int(version) < int(than)
