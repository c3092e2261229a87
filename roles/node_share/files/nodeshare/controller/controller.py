# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller at work: jobs and changes come in by threads, and every Node is brought to what is believed of it.

Every event ends in the same step, `_settle_one`: a job handed over, a list of all jobs, a change of a Node, a write
that failed. It means: look at the Node as kept in memory, decide, and write by compare-and-set if anything differs.
"""

import bisect
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Mapping, Optional, Set

from ..kube.client import ApiError
from ..model.backoff import Backoff, spread
from ..model.jobs.job_key import JobKey
from ..model.node.observed import Pod
from ..model.settings import HANDOVER
from ..store.spool import Spool
from .batch.batch import LATE_SECONDS, Batch
from .batch.maintenance import is_maintenance
from .decide import HELD_UNTIL, JobsByNode, NodeSeen, Outcome, decide_nodes, ends_patch, lifts, patch_of
from .kube.api import ClusterApi
from .kube.eviction import NodeEvictor
from .kube.pods import Pods
from .watchdog import Beat

TRIES = 6  # of one compare-and-set: a kubelet writes to its Node a few times a minute
RETRY_SECONDS, LONGEST_RETRY = 1.0, 30.0  # between two tries of what failed to be written, while everything fails
LEARNING_SECONDS = 2.0  # between the first lists, until they are enough to lift anything
START_SECONDS = 2.0  # that a job waits for the first list of nodes
UNKNOWN_SHOWN = 10
ENDS_SECONDS = 2.0  # of each look at all jobs that may be spent on telling Nodes when their jobs end
ENDS_MANAGER = "converged-ends"
LONGEST_ROUND = 60.0  # of evictions from nodes that no job has yet
BACKED = "backed"  # the share mode in which pods are jobs themselves
Told = Callable[[str, JobKey, Outcome, float], None]


class Controller:
    """May be used by several threads at once. `told` hears of every job that has come by a note."""

    def __init__(
        self,
        *,
        api: ClusterApi,
        batch: Batch,
        spool: Spool,
        connections: int,
        remark: Callable[[str], None],
        told: Told,
        evict_on: FrozenSet[str] = frozenset(),
        drain_ahead: float = 0.0,
    ) -> None:
        self.api = api
        self.evict_on = evict_on
        self.drain_ahead = drain_ahead
        self.starts: Mapping[str, Optional[float]] = {}
        self.batch = batch
        self.spool = spool
        self.remark = remark
        self.told = told
        self.stopping = threading.Event()
        self.synced = threading.Event()  # all nodes have been listed
        self.beliefs = JobsByNode()
        self.nodes: Dict[str, NodeSeen] = {}
        self._empty: Set[str] = set()  # tainted, and seen without pods since
        self._failed: Set[str] = set()
        self._answered: Set[str] = set()  # jobs that hold nodes and wait for them no longer
        self._lifting: Set[str] = set()
        self._told_last = ""  # the last Node that was told when its jobs end
        self._lock = threading.RLock()
        self._reading = threading.Lock()
        self._writing: Dict[str, threading.Lock] = {}
        self._pool = ThreadPoolExecutor(connections)  # for patches alone: no job's taint waits for another job's pods
        self._evictors = ThreadPoolExecutor(connections)
        self._pods = Pods(api, stopping=self.stopping)
        self._node_evictor = NodeEvictor(
            api=api,
            pods=self._pods,
            pool=self._evictors,
            at_once=max(1, connections // 2),
            stopping=self.stopping,
            remark=remark,
        )

    # What the API tells

    def replace(self, nodes: List[NodeSeen]) -> None:
        with self._lock:
            gone, self.nodes = self.nodes, {node.name: node for node in nodes}
            self._empty.clear()
            self._show({*gone, *self.nodes})
        self.synced.set()
        self.settle_all()

    def changed(self, kind: str, node: NodeSeen) -> None:
        with self._lock:
            if kind == "DELETED":
                self._forget(node.name)
                return
            self._see(node)
            known = self.nodes.get(node.name)
            due = known is not None and patch_of(known, self.beliefs.of(node.name)) is not None
        if due:
            self._submit([node.name])

    def _see(self, node: NodeSeen) -> None:
        """Newer versions only: the watch tells us of our own writes late."""
        known = self.nodes.get(node.name)
        if known is not None and known.uid == node.uid and _older(node.version, known.version):
            return
        if not node.mode:
            self._forget(node.name)  # it has lost its label between our last look and a write
            return
        self.nodes[node.name] = node
        if not node.tainted or (known is not None and known.uid != node.uid):
            self._empty.discard(node.name)
        self._show([node.name])

    def _forget(self, name: str) -> None:
        """Drop a Node that is deleted, or not converted any more."""
        self.nodes.pop(name, None)
        self._empty.discard(name)
        self._show([name])

    # What the batch system tells

    def begin(self, key: str, wlm_names: Iterable[str], *, give_up: float) -> Outcome:
        names = self.batch.kube_names(wlm_names)
        self.read_notes()  # which were said before
        with self._lock:
            taken = frozenset(name for name in names if self._is_taken(name, key))
            self.beliefs.begin(key, names)
        try:
            return self._begin(key, names, taken, give_up)
        finally:
            with self._lock:
                self._answered.add(key)
                self._show(names)

    def _is_taken(self, name: str, key: str) -> bool:
        """Whether another job was given this node: it is the node's own work to be free, and what is left cannot leave.

        A job that the batch system lists and that has not been handed over yet has evicted no pod.
        """
        return any(other != key and other in self._answered for other in self.beliefs.of(name).holders)

    def _begin(self, key: str, names: FrozenSet[str], taken: FrozenSet[str], give_up: float) -> Outcome:
        if not self.synced.wait(START_SECONDS):
            return Outcome(False, "the API has not answered yet", len(names))
        with self._lock:
            decision = decide_nodes(self.nodes, self.beliefs, names)
        outcome = Outcome(True, "", len(names), len(decision.patches), 0, 0, decision.unknown[:UNKNOWN_SHOWN])
        reason = self._settle(decision.patches, give_up)
        if reason:
            return outcome._replace(ok=False, reason=reason)
        with self._lock:
            full = [name for name in names.difference(decision.unknown, taken) if self._is_full(name)]
        if not full:
            return outcome

        def job_still_runs(names: List[str], pods: Dict[str, List[Pod]]) -> bool:
            with self._lock:
                nodes = self._note_empty(names, pods)
                pods.update((name, []) for name, node in nodes.items() if node is None or node.leases)
                return key in self.beliefs.nodes_of

        try:
            result = self._node_evictor.run(key, full, give_up=give_up, job_still_runs=job_still_runs)
        except ApiError as error:
            return outcome._replace(ok=False, reason=str(error))
        return outcome._replace(ok=not result.reason, **result._asdict())

    def _note_empty(self, names: List[str], pods: Dict[str, List[Pod]]) -> Dict[str, Optional[NodeSeen]]:
        """Note which of these nodes have been seen without pods."""
        nodes = {name: self.nodes.get(name) for name in names}
        self._empty.update(name for name, node in nodes.items() if node and node.tainted and not pods[name])
        self._show(names)
        return nodes

    def _is_full(self, name: str) -> bool:
        """Whether pods may be on this node and have to leave for a job before it starts.

        A node with leases is taken by itself, or switched off. It ends what is left there, or that cannot be ended.
        """
        node = self.nodes.get(name)
        return node is not None and node.mode == HANDOVER and not node.leases and name not in self._empty

    def end(self, key: str, wlm_names: Iterable[str], *, give_up: float) -> Outcome:
        self.read_notes()
        with self._lock:
            names = self.batch.kube_names(wlm_names) | self.beliefs.end(key)
            decision = decide_nodes(self.nodes, self.beliefs, names)
            self._show(names)
        reason = self._settle(decision.patches, give_up)
        return Outcome(not reason, reason, len(names), len(decision.patches), 0, 0, decision.unknown[:UNKNOWN_SHOWN])

    def run_notes(self, pause: float, *, beat: Beat) -> None:
        """Read the scripts' notes until told to stop."""
        while not self.stopping.wait(pause):
            beat()
            try:
                self.read_notes()
            except Exception as error:  # noqa: BLE001 - a loop that ends is worse than any error
                self.remark("notes: {!r}".format(error))

    def read_notes(self) -> None:
        """Take up jobs on nodes that are held already. They are believed at once, and no caller waits."""
        with self._reading:
            for note in self.spool.read():
                key = JobKey("slurm", note.job, int(note.run))
                outcome = self._take_note(note.event, str(key), note.node)
                self.told(note.event, key, outcome, max(0.0, time.time() - note.at / 1e9))
                self.spool.remove(note.name)

    def _take_note(self, event: str, key: str, wlm_name: str) -> Outcome:
        with self._lock:
            names = self.batch.kube_names([wlm_name])
            if event == "prolog":
                self.beliefs.begin(key, names)
                self._answered.add(key)
            else:
                names |= self.beliefs.end(key)
            decision = decide_nodes(self.nodes, self.beliefs, names)
            self._show(names)
        self._submit(decision.patches)
        return Outcome(True, "", len(names), len(decision.patches), 0, 0, decision.unknown)

    def _show(self, names: Iterable[str]) -> None:
        for name in names:
            self.spool.show(self.batch.wlm_name(name), held=self._is_held(name))

    def _is_held(self, name: str) -> bool:
        """Whether a job that comes now has nothing to wait for: the taint stays, and pods were sent away."""
        node, wanted = self.nodes.get(name), self.beliefs.of(name)
        if node is None or not node.tainted or not wanted.acting or name in self._lifting:
            return False
        answered = any(key in self._answered for key in wanted.holders)
        return answered or (name in self._empty and bool(wanted.holders or node.leases))

    def poll(self) -> None:
        """Read which controller acts, all jobs, and all nodes' states; what cannot be told stays as it was."""
        in_control = self.batch.in_control()
        with self._lock:
            if in_control is False and self.beliefs.acting:
                self.remark("another controller is in control: standing by")
            if in_control is False:
                self.beliefs = JobsByNode()
                self._show(self.nodes)
            elif in_control and not self.beliefs.acting:
                self.remark("in control")
            if not in_control:
                return
            self.beliefs.ask()
            beliefs = self.beliefs
        jobs, states = self.batch.jobs(), self.batch.states()
        starts = self.batch.starts() if self.drain_ahead else None
        with self._lock:
            beliefs.take_jobs(jobs)
            beliefs.take_states(states)
            if starts is not None:
                self.starts = beliefs.starts = {
                    name: self.starts.get(name) if at is None else at for name, at in starts.items()
                }
            elif not self.drain_ahead:
                beliefs.starts = {}
            beliefs.planned = self._planned(time.time())
            self._answered.intersection_update(beliefs.nodes_of)
            self._show(self.nodes)
        self.settle_all()
        self.tell_ends()

    def tell_ends(self) -> None:
        """Write on held Nodes when their jobs end at the latest, on as many as there is time for.

        The next look goes on behind the last Node of this one, so that each Node has its turn. One request at a time,
        behind everything else, and no taint is in the same patch. A Node that is written just now is passed over, and
        come back to once. Its taint waits for one such request at most.
        """
        with self._lock:
            names = sorted(name for name, node in self.nodes.items() if node.held or node.held_until)
        ends = self.batch.ends() if names else None
        if ends is None:
            return
        give_up = time.monotonic() + ENDS_SECONDS
        begin = bisect.bisect_right(names, self._told_last)
        due = deque((*names[begin:], *names[:begin]))
        passed: Set[str] = set()
        while due and time.monotonic() <= give_up and not self.stopping.is_set():
            name = due.popleft()
            writing = self._writing_of(name)
            if not writing.acquire(blocking=False):
                if name not in passed:
                    passed.add(name)
                    due.append(name)
                continue
            try:
                self._tell_end(name, ends)
            except ApiError as error:
                self.remark("{}: {}".format(HELD_UNTIL, error))
                if error.status != 422:  # that is of this Node alone
                    return
            finally:
                writing.release()

    def _tell_end(self, name: str, ends: Mapping[str, float]) -> None:
        """Write when one Node's jobs end, if it does not say so already.

        The field manager is another than of held-by, so the time at which that was written stays to be read.
        """
        with self._lock:
            node = self.nodes.get(name)
            patch = ends_patch(node, ends) if node is not None else None
        if patch is None:
            return
        self._told_last = name
        try:
            found = self.api.patch(name, patch, manager=ENDS_MANAGER)
        except ApiError as error:
            if error.status in (404, 409):
                return  # it is another Node by now, and the next look is soon enough
            raise
        with self._lock:
            self._see(found)

    def run_polls(self, period: float, *, beat: Beat) -> None:
        """Until told to stop: lists once a period, and what failed to be written once more, ever less often."""
        due, again, backoff = 0.0, 0.0, Backoff(RETRY_SECONDS, LONGEST_RETRY)
        while not self.stopping.is_set():
            beat()
            if time.monotonic() >= due:
                try:
                    self.poll()
                except Exception as error:  # noqa: BLE001 - a loop that ends is worse than any error
                    self.remark("poll: {!r}".format(error))
                with self._lock:
                    learning = self.beliefs.acting and not self.beliefs.of("").may_lift
                due = time.monotonic() + (min(LEARNING_SECONDS, period) if learning else period)
            self.stopping.wait(min(RETRY_SECONDS, period))
            if time.monotonic() >= again:
                with self._lock:
                    failed, self._failed = list(self._failed), set()
                if failed:
                    again = time.monotonic() + backoff.failed()
                else:
                    backoff.reset()
                self._submit(failed)

    def _planned(self, now: float) -> FrozenSet[str]:
        """Nodes on which a job or a reservation begins soon, or should have begun: Slurm is late sometimes."""
        coming = (name for name, at in self.starts.items() if at and at - self.drain_ahead <= now <= at + LATE_SECONDS)
        return frozenset(coming) if self.drain_ahead else frozenset()

    def run_evictions(self, period: float, *, beat: Beat) -> None:
        """Until told to stop: once a period ask pods to leave nodes that are in maintenance, or planned for a job."""
        due = 0.0
        while not self.stopping.wait(min(RETRY_SECONDS, period)):
            beat()
            if time.monotonic() < due:
                continue
            try:
                self.evict_ahead(give_up=time.monotonic() + min(period, LONGEST_ROUND))
            except Exception as error:  # noqa: BLE001 - a loop that ends is worse than any error
                self.remark("evictions: {!r}".format(error))
            due = time.monotonic() + spread(period)

    def evict_ahead(self, *, give_up: float) -> int:
        """Ask pods once to leave where no job has come yet; return how many the API took. Budgets are respected."""
        with self._lock:
            names = sorted(name for name in self.nodes if self._is_to_empty(self.nodes[name]))

        def job_still_runs(names: List[str], pods: Dict[str, List[Pod]]) -> bool:
            with self._lock:
                self._note_empty(names, pods)
            return True

        try:
            return self._node_evictor.ask(names, give_up=give_up, job_still_runs=job_still_runs) if names else 0
        except ApiError as error:
            self.remark(str(error))
            return 0

    def _is_to_empty(self, node: NodeSeen) -> bool:
        """Only behind the taint, which keeps new pods away, and never where pods are jobs themselves."""
        wanted = self.beliefs.of(node.name)
        if not (wanted.acting and node.tainted) or node.mode == BACKED or node.name in self._empty:
            return False
        ahead = wanted.planned and node.mode == HANDOVER and not node.leases
        return ahead or is_maintenance(wanted.state or "", self.evict_on)

    # Bringing Nodes to what is believed

    def settle_all(self) -> None:
        with self._lock:
            names = list(decide_nodes(self.nodes, self.beliefs, self.nodes).patches)
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
        with self._writing_of(name):  # two jobs on one node must not race each other
            try:
                return self._write(name)
            except ApiError as error:
                with self._lock:
                    self._failed.add(name)
                return str(error)
            finally:
                with self._lock:
                    self._lifting.discard(name)
                    self._show([name])

    def _writing_of(self, name: str) -> threading.Lock:
        """Return the lock that every write to this Node holds."""
        with self._lock:
            return self._writing.setdefault(name, threading.Lock())

    def _write(self, name: str) -> str:
        for _attempt in range(TRIES):
            patch = self._patch(name)
            if patch is not None and lifts(patch) and name not in self._lifting:
                with self._lock:
                    self._lifting.add(name)
                    self._show([name])
                self.read_notes()  # who was told just now that the node is held has left one
                patch = self._patch(name)
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

    def _patch(self, name: str) -> Optional[Dict[str, Any]]:
        with self._lock:
            node = self.nodes.get(name)
            return None if node is None else patch_of(node, self.beliefs.of(name))

    def stop(self) -> None:
        """Stop after what is being written; each request has its own bound."""
        self.stopping.set()
        for pool in (self._pool, self._evictors, self._pods):
            pool.shutdown(wait=True)


def _older(version: str, than: str) -> bool:
    return version.isdigit() and than.isdigit() and int(version) < int(than)
