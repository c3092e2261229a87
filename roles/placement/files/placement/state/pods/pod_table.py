# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The known pods: where each is charged, and the way back from every tentative move.

A pod is charged where it is bound, or where we have decided to put it (assumed). The assumption ends when the truth
says where the pod is. It also ends by `forget`, when the truth has been read and says that the pod is nowhere.
A pod that waits for its victims to leave is promised room instead. What belongs to a node that is not known yet is
kept by the node's name and charged when it appears.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from placement.model.objects.pod import TERMINAL, Pod, PodSpec
from placement.state.affinity.labelsets import LabelSet, LabelSets, keys_of
from placement.state.nodes.node_columns import NodeColumns
from placement.state.nodes.vectors import Vector
from placement.state.pods.ports import PortTable
from placement.state.volumes.volume_claims import ClaimTable, Volumes


# Every decision makes one, and a structure of msgspec is made in half the time of a named tuple. It holds nothing that
# holds it in turn, so the garbage collector need not look at it.
class Plan(msgspec.Struct, frozen=True, gc=False):
    """What we intend with a pod."""

    # The node we assume it on, and the node where room is promised to it.
    assumed: str = ""
    promised: str = ""
    # Whether it is to go.
    evicting: bool = False
    # The volumes that its claims are to get.
    volumes: Volumes = ()
    # Where in the tree of racks its node was chosen, in words of the placer.
    selection: str = ""


NO_PLAN: Final = Plan()
_EVICTED: Final = Plan(evicting=True)
# In place of a promise: the nomination that the API still shows is void. No node has such a name.
_NOWHERE: Final = "/"


class PodEntry:
    """What the state knows of one pod."""

    __slots__ = ("at", "charged", "labelset", "of_node", "plan", "pod", "rank", "row", "vector")

    def __init__(self, pod: Pod, labelset: LabelSet) -> None:
        self.pod = pod
        # As the pod says it, which takes longer.
        self.of_node = pod.of_node
        self.labelset = labelset
        self.plan = NO_PLAN
        # Room that is promised to it is open to pods of higher rank.
        self.rank = pod.spec.priority
        # The name of the node it belongs to, charged or promised, and that node's row while it has one.
        self.at = ""
        self.charged = False
        self.row = -1
        # Its request over the axis as that was when it was last charged; finding it again costs a hash.
        self.vector: Vector | None = None

    @property
    def leaving(self) -> bool:
        """Whether what it holds is on its way out."""
        return self.pod.terminating or self.plan.evicting


class Departure(NamedTuple):
    """A pod that has left its node, or has begun to, or did not get there."""

    pod: Pod
    labelset: LabelSet
    row: int
    # Whether volumes that were meant for it are free again.
    frees_volumes: bool


class PodTable:
    """All known pods by UID, charged to the columns."""

    def __init__(self, columns: NodeColumns, labelsets: LabelSets, ports: PortTable, claims: ClaimTable) -> None:
        self.by_uid: dict[str, PodEntry] = {}
        # UIDs by namespace and name; one key for both would take as much memory again.
        self.by_name: dict[str, dict[str, str]] = {}
        self._columns = columns
        self._labelsets = labelsets
        self._ports = ports
        self._claims = claims
        # UIDs by the node they belong to; a dict keeps their order.
        self._at: dict[str, dict[str, None]] = {}
        self._undo: list[tuple[str, Plan]] = []
        # Moves when the labels of a pod change, for then rules about other pods may say something else, and when its
        # request does, for then there may be more room.
        self.amended = 0
        # Pods that may take less of their node than before, since the policy last looked; it takes them away.
        self.departed: list[Departure] = []

    def put(self, pod: Pod) -> None:
        """Note that the pod is as given."""
        entry = self.by_uid.get(pod.uid)
        if entry is None:
            keys = _keys_read(pod.spec)
            if keys:
                self._labelsets.read(keys)
            entry = PodEntry(pod, self._labelsets.enter(pod.namespace, pod.labels))
            self.by_uid[pod.uid] = entry
            self.by_name.setdefault(pod.namespace, {})[pod.name] = pod.uid
            self._deposit(entry)
            return
        # Once the API shows a node, only a pending eviction is kept of the plan.
        plan = entry.plan
        if pod.node or pod.phase in TERMINAL:
            plan = _EVICTED if plan.evicting else NO_PLAN
        same = plan.volumes == entry.plan.volumes and _belongs(pod, plan) == (entry.at, entry.charged)
        if same and _alike(entry.pod, pod):
            # Most news is of what is charged already: it is where we have put it, and it runs there.
            entry.pod, entry.plan = pod, plan
            return
        # A pod that has its node now has its volumes, too.
        self._note_departure(entry, frees_volumes=bool(entry.plan.volumes) and pod.node != entry.plan.assumed)
        self._withdraw(entry)
        if entry.pod.spec is not pod.spec:
            self._labelsets.read(_keys_read(pod.spec))
            self._labelsets.unread(_keys_read(entry.pod.spec))
        labelset = entry.labelset
        if entry.pod.labels != pod.labels:
            entry.labelset = self._labelsets.enter(pod.namespace, pod.labels)
            self._labelsets.leave(labelset)
        self.amended += entry.labelset is not labelset or entry.pod.request != pod.request
        entry.pod, entry.of_node, entry.plan, entry.vector = pod, pod.of_node, plan, None
        self._deposit(entry)

    def remove(self, uid: str) -> None:
        """Note that the pod is gone."""
        entry = self.by_uid.pop(uid)
        self._note_departure(entry, frees_volumes=bool(entry.plan.volumes))
        self._withdraw(entry)
        self._labelsets.leave(entry.labelset)
        keys = _keys_read(entry.pod.spec)
        if keys:
            self._labelsets.unread(keys)
        namesakes = self.by_name[entry.pod.namespace]
        del namesakes[entry.pod.name]
        if not namesakes:
            del self.by_name[entry.pod.namespace]

    def _note_departure(self, entry: PodEntry, *, frees_volumes: bool) -> None:
        if entry.row >= 0:
            self.departed.append(Departure(entry.pod, entry.labelset, entry.row, frees_volumes))

    def named(self, namespace: str, name: str) -> str | None:
        """Return the UID of the pod of this name."""
        return self.by_name.get(namespace, {}).get(name)

    def at_node(self, name: str) -> list[PodEntry]:
        """Pods that belong to the node of this name, whether it is known or not."""
        return [self.by_uid[uid] for uid in self._at.get(name, ())]

    def waiting(self) -> dict[str, list[str]]:
        """UIDs of pods that belong to nodes that are not known, by the node's name."""
        return {name: list(uids) for name, uids in self._at.items() if name not in self._columns.rows}

    def charge_node(self, name: str) -> None:
        """Charges the pods of a node that has appeared."""
        for entry in self.at_node(name):
            self._charge(entry)

    def uncharge_node(self, name: str) -> None:
        """Take the charges off a node that is about to go; its pods stay with its name."""
        for entry in self.at_node(name):
            self._uncharge(entry)

    def uncharge_users(self, resource: str) -> list[PodEntry]:
        """Take off the charge of every pod that asks for this resource; return these pods."""
        asks = {entry.pod.request: False for entry in self.by_uid.values()}
        asks = {request: any(name == resource for name, _unused in request) for request in asks}
        users = [entry for entry in self.by_uid.values() if entry.row >= 0 and asks[entry.pod.request]]
        for entry in users:
            self._uncharge(entry)
        return users

    def charge_again(self, entries: list[PodEntry]) -> None:
        """Charges what `uncharge_users` took off."""
        for entry in entries:
            self._charge(entry)

    def assume(self, uid: str, node: str, volumes: Volumes = (), selection: str = "") -> None:
        """We have decided to put the pod there, with these volumes."""
        entry = self.by_uid[uid]
        self._plan(entry, Plan(node, "", entry.plan.evicting, volumes, selection))

    def promise(self, uid: str, node: str, rank: int | None = None) -> None:
        """Keep room on this node for the pod until it is placed; its rank is its priority unless another is given."""
        entry = self.by_uid[uid]
        if rank is not None and rank != entry.rank:
            self._withdraw(entry)
            entry.rank = rank
            self._deposit(entry)
        self._plan(entry, Plan("", node, entry.plan.evicting))

    def forget(self, uid: str) -> None:
        """Note that the pod is not where we wanted it; its nomination is void, too."""
        entry = self.by_uid[uid]
        self._plan(entry, Plan("", _NOWHERE if entry.pod.nominated_node else "", entry.plan.evicting))

    def give_up(self, uid: str) -> None:
        """Note for good that the pod is not where we wanted it: the API did not take its binding."""
        entry = self.by_uid[uid]
        self._note_departure(entry, frees_volumes=bool(entry.plan.volumes))
        self.forget(uid)
        self.settle()

    def evict(self, uid: str, *, evicting: bool = True) -> None:
        """Note that the pod is to leave, or is not after all."""
        entry = self.by_uid[uid]
        self._plan(entry, msgspec.structs.replace(entry.plan, evicting=evicting))

    def mark(self) -> int:
        """Return a point to come back to; no event may be applied between it and the way back."""
        return len(self._undo)

    def rollback(self, mark: int) -> None:
        """Take back every plan since the mark, last first."""
        while len(self._undo) > mark:
            uid, plan = self._undo.pop()
            self._set_plan(self.by_uid[uid], plan)

    def settle(self) -> None:
        """Nothing decided so far will be taken back."""
        self._undo.clear()

    def _plan(self, entry: PodEntry, plan: Plan) -> None:
        self._undo.append((entry.pod.uid, entry.plan))
        self._set_plan(entry, plan)

    def _set_plan(self, entry: PodEntry, plan: Plan) -> None:
        self._withdraw(entry)
        entry.plan = plan
        self._deposit(entry)

    def _deposit(self, entry: PodEntry) -> None:
        at, entry.charged = _belongs(entry.pod, entry.plan)
        entry.at = at
        if at:
            self._at.setdefault(at, {})[entry.pod.uid] = None
            self._charge(entry)

    def _withdraw(self, entry: PodEntry) -> None:
        if entry.at:
            self._uncharge(entry)
            neighbours = self._at[entry.at]
            del neighbours[entry.pod.uid]
            if not neighbours:
                del self._at[entry.at]
            entry.at = ""

    def _charge(self, entry: PodEntry) -> None:
        entry.row = self._columns.rows.get(entry.at, -1)
        if entry.row >= 0:
            self._book(entry, 1)

    def _uncharge(self, entry: PodEntry) -> None:
        if entry.row >= 0:
            self._book(entry, -1)
            entry.row = -1

    def _book(self, entry: PodEntry, number: int) -> None:
        pod, row, vector, columns = entry.pod, entry.row, entry.vector, self._columns
        if vector is None or len(vector.dense) != len(columns.axis.names):
            vector = entry.vector = columns.axis.request(pod.request)
        if vector.extended:
            vector = columns.charged(row, pod.request)
        if not entry.charged:
            columns.promise(row, vector, number, entry.rank)
            return
        columns.charge(row, vector, number)
        if entry.of_node:
            columns.own_pods[row] += number
        if entry.leaving:
            columns.release(row, vector, number)
        self._labelsets.place(entry.labelset, row, number, leaving=pod.terminating)
        spec = pod.spec
        if spec.anti_affinity:
            self._labelsets.place_terms(spec.anti_affinity, row, number)
        if spec.host_ports:
            self._ports.place(spec.host_ports, row, number)
        if pod.volume_claims:
            self._claims.use(pod, row, number)
        for claim, volume in entry.plan.volumes:
            self._claims.speak_for(claim, volume, entry.at, number)


def _belongs(pod: Pod, plan: Plan) -> tuple[str, bool]:
    """Return the node that the pod belongs to, and whether it is charged there (or else promised)."""
    if pod.phase in TERMINAL:
        return "", False
    node = pod.node or plan.assumed
    if node:
        return node, True
    promised = plan.promised
    return "" if promised == _NOWHERE else promised or pod.nominated_node, False


def _keys_read(spec: PodSpec) -> Sequence[str]:
    """Return the keys of labels of other pods that the rules of such a pod read."""
    if not (spec.affinity or spec.anti_affinity or spec.spread or spec.preferred_pods):
        return ()
    terms = (*spec.affinity, *spec.anti_affinity, *(weighted.term for weighted in spec.preferred_pods))
    return keys_of((*(term.matcher for term in terms), *(constraint.matcher for constraint in spec.spread)))


def _alike(pod: Pod, other: Pod) -> bool:
    """Whether two states of a pod take the same from their node."""
    return (
        pod.terminating == other.terminating
        and pod.of_node == other.of_node
        and (pod.spec is other.spec or pod.spec == other.spec)
        and pod.request == other.request
        and pod.labels == other.labels
        and pod.volume_claims == other.volume_claims
    )
