# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide without I/O which jobs hold which node: what the controller believes, and what a Node object must then say.

The truth about jobs is the batch system's. `JobsByNode` follows it by the jobs handed over (Prolog and Epilog on the
controller) and by whole lists of all jobs; an answer that did not come changes nothing. The Node carries the taint, and
in `held-by` jobs for which it was set. That list is written with the taint, and again when no job in it is left. Ten
thousand array tasks on a held node cost no further write.

A taint is lifted only by a controller that acts, has seen whole lists of jobs since it does, and believes in no job
there. The node's own `leases` must be empty, and the batch system must give the node to jobs.

Only converted nodes are touched. They have a label that an administrator alone can set. A Node without it is left
alone, also where it has the name of one of the batch system's nodes.
"""

import time
from typing import Any, Dict, FrozenSet, Iterable, List, Mapping, NamedTuple, Optional, Set, Tuple, Union

from ..model.node.names import ANNOTATION, HELD_BY, TAINT, is_our_taint
from ..model.settings import HANDOVER

STATE = "converged.hpc/batch-state"
PLANNED_START = "converged.hpc/planned-start"
HELD_UNTIL = "converged.hpc/held-until"  # when jobs of held-by end at the latest; read by people and schedulers alone
START_STEP = 300.0  # seconds to which starts are rounded down and ends up: both move a little, and each write costs
PLANNED = "PLANNED"  # our own word in STATE: pods shall have left when a job or a reservation begins
SHARE_MODE = "node-restriction.kubernetes.io/converged-share-mode"  # a label, which no kubelet may write
LISTED = 50  # names in held-by: enough to see who it is, far below what an annotation may hold
SURE = 2  # whole lists in a row without a job: then it is gone


class NodeSeen(NamedTuple):
    """What matters of a Node object."""

    name: str
    uid: str
    version: str
    taints: Tuple[Mapping[str, Any], ...] = ()
    held: Tuple[str, ...] = ()
    leases: str = ""
    state: str = ""
    mode: str = ""  # empty: the node is not converted
    planned_start: str = ""
    held_until: str = ""

    @property
    def tainted(self) -> bool:
        return any(is_our_taint(taint) for taint in self.taints)


class Jobs(NamedTuple):
    """A whole list: runs that hold nodes with their nodes, and those which end just now (held, but not taken up)."""

    holding: Mapping[str, FrozenSet[str]]
    ending: FrozenSet[str] = frozenset()


class NodeHolders(NamedTuple):
    """What is believed of one node. `state` None: cannot tell, leave it."""

    holders: Tuple[str, ...] = ()
    state: Optional[str] = None
    acting: bool = False
    may_lift: bool = False
    planned: bool = False
    planned_start: Optional[str] = None  # None: cannot tell


class Decision(NamedTuple):
    """Patches by node; `unknown` are nodes of the batch system that are no Node, or not a converted one."""

    patches: Dict[str, Dict[str, Any]]
    unknown: Tuple[str, ...] = ()


class Outcome(NamedTuple):
    """What became of a job handed over. Not `ok`: the nodes help themselves, and `reason` says why."""

    ok: bool
    reason: str = ""
    nodes: int = 0
    patched: int = 0
    evicted: int = 0
    left: int = 0
    unknown: Tuple[str, ...] = ()


def node_from(item: Mapping[str, Any]) -> NodeSeen:
    meta = item["metadata"]
    annotations = meta.get("annotations") or {}
    return NodeSeen(
        str(meta["name"]),
        str(meta.get("uid", "")),
        str(meta["resourceVersion"]),
        tuple((item.get("spec") or {}).get("taints") or ()),
        tuple(word for word in str(annotations.get(HELD_BY) or "").split(",") if word),
        str(annotations.get(ANNOTATION) or ""),
        str(annotations.get(STATE) or ""),
        str((meta.get("labels") or {}).get(SHARE_MODE) or ""),
        str(annotations.get(PLANNED_START) or ""),
        str(annotations.get(HELD_UNTIL) or ""),
    )


class JobsByNode:
    """What is known of the batch system. Not for several threads at once: its owner has a lock."""

    def __init__(self) -> None:
        self.acting = False
        self.lists = 0  # whole ones since we act
        self.nodes_of: Dict[str, FrozenSet[str]] = {}
        self.states: Optional[Mapping[str, str]] = None
        self.planned: FrozenSet[str] = frozenset()
        self.starts: Optional[Mapping[str, Optional[float]]] = None
        self._holders: Dict[str, Dict[str, None]] = {}
        self._runs: Dict[str, Set[str]] = {}  # keys in nodes_of, by job
        self._missed: Dict[str, int] = {}
        self._asked_about: FrozenSet[str] = frozenset()
        self._ended_since: Set[str] = set()

    def begin(self, key: str, nodes: Iterable[str]) -> None:
        """Note a job that was handed over. Its script runs beside the batch controller that acts, and so do we."""
        self.acting = True
        self._end_earlier(key)
        self._take(key, frozenset(nodes) | self.nodes_of.get(key, frozenset()))

    def end(self, key: str) -> FrozenSet[str]:
        """Drop this run and those before it, never a later one; return the nodes that had them."""
        self._ended_since.add(key)
        return self._drop(key) | self._end_earlier(key)

    def ask(self) -> None:
        """Note that a list of all jobs is being made from now on."""
        self.acting = True
        self._asked_about = frozenset(self.nodes_of)
        self._ended_since = set()

    def take_jobs(self, jobs: Optional[Jobs]) -> None:
        """Take the list that was asked for. None: the batch system did not tell, and nothing changes."""
        if jobs is None:
            return
        self.lists += 1
        for key in self._asked_about:
            if key in jobs.holding or key in jobs.ending:
                self._missed.pop(key, None)
                continue
            self._missed[key] = self._missed.get(key, 0) + 1
            if self._missed[key] >= SURE:
                self._drop(key)
        for key, nodes in jobs.holding.items():
            if key not in self._ended_since and self.nodes_of.get(key) != nodes:
                self._take(key, nodes)

    def take_states(self, states: Optional[Mapping[str, str]]) -> None:
        if states is not None:
            self.states = states

    def of(self, node: str) -> NodeHolders:
        return NodeHolders(
            tuple(self._holders.get(node, ())),
            None if self.states is None else self.states.get(node),
            self.acting,
            self.acting and self.lists >= SURE and self.states is not None,
            node in self.planned,
            self._start_of(node),
        )

    def _start_of(self, node: str) -> Optional[str]:
        """Return what the Node is to say of its next start; None where it is not known, and stays as it was."""
        if self.starts is None or (node in self.starts and self.starts[node] is None):
            return None
        return start_text(self.starts.get(node))

    def _take(self, key: str, nodes: FrozenSet[str]) -> None:
        self._drop(key)
        self.nodes_of[key] = nodes
        self._runs.setdefault(key.rpartition("/")[0], set()).add(key)
        for node in nodes:
            self._holders.setdefault(node, {})[key] = None

    def _end_earlier(self, key: str) -> FrozenSet[str]:
        """End earlier runs of a job: it runs once at a time, and Slurm may tell of a restart before the last end."""
        job, _slash, run = key.rpartition("/")
        if run == "0":
            return frozenset()
        earlier = [other for other in self._runs.get(job, ()) if int(other.rpartition("/")[2]) < int(run)]
        self._ended_since.update(earlier)
        return frozenset(node for other in earlier for node in self._drop(other))

    def _drop(self, key: str) -> FrozenSet[str]:
        nodes = self.nodes_of.pop(key, frozenset())
        self._missed.pop(key, None)
        runs = self._runs.get(key.rpartition("/")[0], set())
        runs.discard(key)
        if not runs:
            self._runs.pop(key.rpartition("/")[0], None)
        for node in nodes:
            self._holders[node].pop(key)
            if not self._holders[node]:
                del self._holders[node]
        return nodes


def decide_nodes(nodes: Mapping[str, NodeSeen], beliefs: JobsByNode, names: Iterable[str]) -> Decision:
    """Return what must be written for these nodes. A node that needs nothing is not in it."""
    patches: Dict[str, Dict[str, Any]] = {}
    unknown: List[str] = []
    for name in names:
        seen = nodes.get(name)
        if seen is None or not seen.mode:
            unknown.append(name)
            continue
        patch = patch_of(seen, beliefs.of(name))
        if patch is not None:
            patches[name] = patch
    return Decision(patches, tuple(unknown))


def patch_of(node: NodeSeen, wanted: NodeHolders) -> Optional[Dict[str, Any]]:
    """Return a merge patch that holds for this version of the Node only; None if the Node is right already.

    `spec.unschedulable`, the administrator's cordon, is in no patch.
    """
    if not (wanted.acting and node.mode):
        return None
    if node.mode != HANDOVER:
        # Jobs and pods stand there side by side.
        wanted = wanted._replace(holders=(), planned=False, planned_start=wanted.planned_start and "")
    state = wanted.state
    if state is None:  # cannot tell
        state = node.state if node.state != PLANNED else ""
    if wanted.planned and not wanted.holders:
        state = state or PLANNED
    held, tainted = node.held, node.tainted
    if wanted.holders:
        if not tainted or not set(held) & set(wanted.holders):
            held = _listed(wanted, node)
        tainted = True
    elif node.leases or state:
        if wanted.may_lift and not node.leases:
            held = ()
        tainted = True
    elif wanted.may_lift:
        held, tainted = (), False
    start = node.planned_start if wanted.planned_start is None else wanted.planned_start
    until = node.held_until if held == node.held else ""
    texts = (
        (HELD_BY, held, node.held),
        (STATE, state, node.state),
        (PLANNED_START, start, node.planned_start),
        (HELD_UNTIL, until, node.held_until),
    )
    metadata = {name: _text(now) or None for name, now, before in texts if now != before}
    if not metadata and tainted == node.tainted:
        return None
    body: Dict[str, Any] = {"metadata": {"resourceVersion": node.version}}
    if metadata:
        body["metadata"]["annotations"] = metadata
    if tainted != node.tainted:
        others = [dict(taint) for taint in node.taints if taint.get("key") != TAINT]
        body["spec"] = {"taints": [*others, {"key": TAINT, "effect": "NoSchedule"}] if tainted else others}
    return body


def ends_patch(node: NodeSeen, ends: Mapping[str, float]) -> Optional[Dict[str, Any]]:
    """Return a merge patch that says when jobs of held-by end at the latest; None if the Node says it already.

    It is apart from `patch_of`: nothing depends on it, so it may come late, or be refused.
    """
    noted = dict(word.partition("=")[::2] for word in node.held_until.split(",") if word)
    known = {key: start_text(ends[key] + START_STEP - 1) for key in node.held[:LISTED] if key in ends}
    if not node.mode or noted == known:
        return None
    text = ",".join("{}={}".format(*item) for item in known.items()) or None
    return {"metadata": {"resourceVersion": node.version, "annotations": {HELD_UNTIL: text}}}


def start_text(at: Optional[float]) -> str:
    """Return a time, in seconds of the epoch, as the API writes times, a little early; empty where there is none."""
    return "" if at is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at // START_STEP * START_STEP))


def lifts(patch: Mapping[str, Any]) -> bool:
    """Whether this patch takes our taint away."""
    return "spec" in patch and not any(is_our_taint(taint) for taint in patch["spec"]["taints"])


def _text(value: Union[str, Tuple[str, ...]]) -> str:
    return value if isinstance(value, str) else ",".join(value)


def _listed(wanted: NodeHolders, node: NodeSeen) -> Tuple[str, ...]:
    """Return the new entries beside those that are not judged yet."""
    kept = () if wanted.may_lift else node.held
    return tuple(dict.fromkeys((*wanted.holders[:LISTED], *kept)))[: 2 * LISTED]
