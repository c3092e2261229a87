# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state: `apply` takes an event and changes what it says, in time proportional to that.

Events may come twice, late, or in any order across objects: an older version of an object never replaces a newer one,
and a deleted one does not rise again. After any such order the state is that of a fresh list.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from itertools import chain
from typing import Final

import numpy as np

from placement.model.amounts.quantity import Amounts
from placement.model.device_slices import DeviceSlice
from placement.model.messages.event import (
    UNSERVED,
    BindFailed,
    Deleted,
    Event,
    EvictRefused,
    Object,
    Relisted,
    Unreadable,
    Upserted,
)
from placement.model.messages.refusal import Refusal
from placement.model.objects.node import Node
from placement.model.objects.pod import Pod
from placement.model.objects.workload import Namespace, PodGroup
from placement.model.rules.selector import LabelMap
from placement.model.slicing import Steps, paced
from placement.state.affinity.labelsets import LabelSets
from placement.state.device_table import DeviceTable
from placement.state.nodes.node_columns import UNREADABLE, NodeColumns, offered_names
from placement.state.nodes.node_filters import Bools, MaskTable
from placement.state.object_store import ObjectTable
from placement.state.pods.budgets import BudgetTable
from placement.state.pods.pod_table import PodEntry, PodTable
from placement.state.pods.ports import PortTable
from placement.state.volumes.volume_claims import ClaimTable
from placement.state.volumes.volume_rules import VolumeRules

# Deleted UIDs that are remembered. An event that comes later than so many deletions is from before the last relist.
_GRAVES: Final = 1 << 15
# So many objects of a list are compared with what is known, or taken in, in one go.
_READ_AT_ONCE: Final = 4096
_TAKEN_AT_ONCE: Final = 64
_NO_LABELS: LabelMap = {}
# Namespace and request: what pods are told apart by where a node rejects them for what they ask for.
Shape = tuple[str, Amounts]


class Cluster:
    """Nodes and pods in columns; everything else by kind and UID."""

    def __init__(self) -> None:
        self.columns = NodeColumns()
        # Nodes that rejected pods a moment ago for what such pods ask for.
        self.unsuited: dict[Shape, dict[str, None]] = {}
        self.masks = MaskTable(self.columns)
        self.labelsets = LabelSets(self._namespace_labels, self._members)
        self.budgets = BudgetTable(self.labelsets)
        self.ports = PortTable()
        # Pods are in `pods`, nodes here as well, because their columns go by name.
        self.objects = ObjectTable()
        self.claims = ClaimTable(self.columns, self.objects)
        self.pods = PodTable(self.columns, self.labelsets, self.ports, self.claims)
        self.volumes = VolumeRules(self.columns, self.masks, self.objects, self.claims)
        self.devices = DeviceTable()
        self._namespaces: dict[str, Namespace] = {}
        self._node_uids: dict[str, str] = {}
        # Moves when a node opens because what could not be read there can be, or is gone.
        self.reopened = 0
        # Unreadable objects by kind and UID; for a pod, the node that is closed because of it.
        self.unreadable: dict[type[Object], dict[str, Refusal]] = {}
        # What has changed since the policy last looked, by kind and UID; the policy takes it away.
        self.changed: dict[type[Object], dict[str, None]] = {}
        self._graves: OrderedDict[str, int] = OrderedDict()
        # The version of the last list by kind: an unknown object that is older was not in it, so it is gone.
        self._listed: dict[type[Object], int] = {}

    def apply(self, event: Event) -> None:
        """Apply the news of the event."""
        match event:
            case Upserted(item):
                self._see(item)
            case Deleted(kind, uid, version):
                self._bury(kind, uid, version)
            case Unreadable(kind, refusal):
                self._note_unreadable(kind, refusal)
            case Relisted():
                for _unused in self.relist(event):
                    pass
            case BindFailed(uid, node, _unused):
                entry = self.pods.by_uid.get(uid)
                if entry is not None and entry.plan.assumed == node:
                    self.pods.give_up(uid)
                    self._note(Pod, uid)
            case EvictRefused(uid):
                if uid in self.pods.by_uid:
                    self.pods.evict(uid, evicting=False)
                    self.pods.settle()
                    self._note(Pod, uid)

    def close(self, node: str, why: int, *, closed: bool) -> None:
        """Nothing more goes to the node for this reason, RESTING, LEASED or UNKNOWN, or something may again."""
        row = self.columns.rows.get(node)
        # What is so already stays untouched: every cached mask and score of the node would be made anew.
        if row is not None and bool(self.columns.flags[row] & why) != closed:
            self.columns.set_flag(row, why, closed)

    def set_unsuited(self, node: str, shape: Shape, *, unsuited: bool) -> None:
        """Keep pods of this namespace and request off the node, or let them go there again."""
        nodes = self.unsuited.setdefault(shape, {})
        if unsuited:
            nodes[node] = None
        else:
            nodes.pop(node, None)
        if not nodes:
            del self.unsuited[shape]

    def unsuiting(self, pod: Pod) -> Collection[str]:
        """Return the nodes that have rejected pods like this a moment ago, by name."""
        return self.unsuited.get((pod.namespace, pod.request), ()) if self.unsuited else ()

    def suited(self, pod: Pod) -> Bools | None:
        """Return the rows that have rejected no pod like this a moment ago; None where no node has."""
        nodes = self.unsuiting(pod)
        if not nodes:
            return None
        found = np.ones(self.columns.capacity, np.bool_)
        found[[self.columns.rows[node] for node in nodes if node in self.columns.rows]] = False
        return found

    def _note(self, kind: type[Object], uid: str) -> None:
        self.changed.setdefault(kind, {})[uid] = None

    def _known(self, kind: type[Object], uid: str) -> Object | None:
        if kind is Pod:
            entry = self.pods.by_uid.get(uid)
            return entry.pod if entry else None
        return self.objects.get(kind, {}).get(uid)

    def _is_old(self, kind: type[Object], uid: str, version: int, known: Object | None) -> bool:
        if known is not None and known.version >= version:
            return True
        return max(self._graves.get(uid, -1), self._listed.get(kind, -1) if known is None else -1) >= version

    def _see(self, item: Object) -> None:
        kind, known = type(item), self._known(type(item), item.uid)
        if self._is_old(kind, item.uid, item.version, known):
            return
        self._drop_unreadable(kind, item.uid, item.version)
        if isinstance(item, Pod):
            self._note(Pod, item.uid)
            if self._outlives_namesake(Pod, self.pods.named(item.namespace, item.name), item):
                self.pods.put(item)
            return
        if isinstance(item, Node):
            if self._outlives_namesake(Node, self._node_uids.get(item.name), item):
                self._see_node(item, known if isinstance(known, Node) else None)
            return
        self._note(kind, item.uid)
        self.objects.put(item)
        self.claims.changed(item)
        self.volumes.changed(known, item)
        self.budgets.changed(known, item)
        self.devices.changed(known, item)
        if isinstance(item, Namespace):
            self._namespaces[item.name] = item
            self.labelsets.namespaces_changed()

    def _outlives_namesake(self, kind: type[Object], uid: str | None, item: Pod | Node) -> bool:
        """Whether `item` is the newer of two objects of one name; the older must have been deleted unnoticed."""
        if uid is None or uid == item.uid:
            return True
        known = self._known(kind, uid)
        if known is not None and known.version > item.version:
            return False
        self._remove(kind, uid)
        return True

    def _see_node(self, node: Node, known: Node | None) -> None:
        self.objects.setdefault(Node, {})[node.uid] = node
        self._node_uids[node.name] = node.uid
        if known is not None and _same_for_scheduling(known, node):
            self.columns.nodes[self.columns.rows[node.name]] = node
            return
        self._note(Node, node.uid)
        for name in self.columns.axis.unknown_names(node.allocatable):
            users = self.pods.uncharge_users(name)
            self.columns.add_resource(name)
            self.pods.charge_again(users)
        row = self.columns.rows.get(node.name)
        if row is None:
            row = self.columns.add_node(node)
            self.pods.charge_node(node.name)
            self.claims.nodes_changed(node.name)
            self._reflag(node.name)
        elif self.columns.offers[row] != offered_names(node):
            # Pods on it are charged with what it has of what they ask for, so with something else from now on.
            self.pods.uncharge_node(node.name)
            self.columns.set_node(row, node)
            self.pods.charge_node(node.name)
        else:
            self.columns.set_node(row, node)

    def _bury(self, kind: type[Object], uid: str, version: int) -> None:
        known = self._known(kind, uid)
        if version == UNSERVED:
            self._drop_unreadable(kind, uid, None)
            if known is not None:
                self._remove(kind, uid)
            return
        # A UID never comes back, so its deletion is final whatever its version says.
        self._graves[uid] = max(version, self._graves.pop(uid, -1), known.version if known is not None else -1)
        if len(self._graves) > _GRAVES:
            self._graves.popitem(last=False)
        self._drop_unreadable(kind, uid, version)
        if known is not None:
            self._remove(kind, uid)

    def _remove(self, kind: type[Object], uid: str) -> None:
        self._note(kind, uid)
        if kind is Pod:
            self.pods.remove(uid)
            return
        item = self.objects.drop(kind, uid)
        self.claims.changed(item)
        self.volumes.changed(item, None)
        self.budgets.changed(item, None)
        self.devices.changed(item, None)
        if isinstance(item, Node):
            del self._node_uids[item.name]
            self.pods.uncharge_node(item.name)
            self.columns.remove_node(item)
            self.claims.nodes_changed(item.name)
        elif isinstance(item, Namespace) and self._namespaces.get(item.name) is item:
            del self._namespaces[item.name]
            self.labelsets.namespaces_changed()

    def relist(self, event: Relisted, is_of_no_use: Callable[[Object], bool] = lambda _item: False) -> Steps[None]:
        """Take in a list, some objects at a time; no other event may be applied before its end.

        Objects that are of no use count as gone.
        """
        listed: set[str] = set()
        for item, pause in paced(chain(event.items, event.refused), _READ_AT_ONCE):
            if isinstance(item, Refusal) or not is_of_no_use(item):
                listed.add(item.uid)
            if pause:
                yield
        known = list(self.pods.by_uid if event.kind is Pod else self.objects.get(event.kind, ()))
        known += self.unreadable.get(event.kind, ())
        gone: list[str] = []
        for uid, pause in paced(known, _READ_AT_ONCE):
            if uid not in listed:
                there = self._known(event.kind, uid)
                if there is None or there.version <= event.version or uid in self.unreadable.get(event.kind, ()):
                    gone.append(uid)
            if pause:
                yield
        for uid, pause in paced(dict.fromkeys(gone), _TAKEN_AT_ONCE):
            self._bury(event.kind, uid, event.version)
            if pause:
                yield
        for item, pause in paced(event.items, _TAKEN_AT_ONCE):
            if item.uid in listed:
                self._see(item)
            if pause:
                yield
        for refusal in event.refused:
            self._note_unreadable(event.kind, refusal)
        self._listed[event.kind] = max(event.version, self._listed.get(event.kind, -1))

    def _note_unreadable(self, kind: type[Object], refusal: Refusal) -> None:
        if not refusal.uid:
            return
        # Where even the version could not be read, it must be taken for news.
        if refusal.version and self._is_old(kind, refusal.uid, refusal.version, self._known(kind, refusal.uid)):
            return
        self._drop_unreadable(kind, refusal.uid, refusal.version)
        self.unreadable.setdefault(kind, {})[refusal.uid] = refusal
        if kind is DeviceSlice:
            self.devices.lose(self._known(kind, refusal.uid))
        if kind is PodGroup:
            # Pods that name it may have been told that there is none.
            self._note(PodGroup, refusal.uid)
        self._reflag(refusal.name if kind is Node else refusal.node)

    def _drop_unreadable(self, kind: type[Object], uid: str, version: int | None) -> None:
        refusal = self.unreadable.get(kind, {}).get(uid)
        if refusal is not None and (version is None or refusal.version <= version):
            del self.unreadable[kind][uid]
            if kind is PodGroup:
                self._note(PodGroup, uid)
            self._reflag(refusal.name if kind is Node else refusal.node)

    def _reflag(self, node: str) -> None:
        """Nothing more goes to a node that, or a pod on which, cannot be read: what is in use there is unknown."""
        row = self.columns.rows.get(node)
        if row is None:
            return
        refused = [refusal.name for refusal in self.unreadable.get(Node, {}).values()]
        refused += [
            refusal.node for uid, refusal in self.unreadable.get(Pod, {}).items() if not self._charged(uid, node)
        ]
        self.reopened += bool(self.columns.flags[row] & UNREADABLE) and node not in refused
        self.columns.set_flag(row, UNREADABLE, node in refused)

    def _charged(self, uid: str, node: str) -> bool:
        entry = self.pods.by_uid.get(uid)
        return entry is not None and entry.charged and entry.at == node

    def _members(self) -> Iterable[PodEntry]:
        return self.pods.by_uid.values()

    def _namespace_labels(self, name: str) -> LabelMap:
        namespace = self._namespaces.get(name)
        return dict(namespace.labels) if namespace else _NO_LABELS


def _same_for_scheduling(old: Node, new: Node) -> bool:
    """Whether only what does not matter here has changed: a kubelet writes its Node every few seconds."""
    return (
        old.name == new.name
        and old.labels == new.labels
        and old.taints == new.taints
        and old.unschedulable == new.unschedulable
        and old.allocatable == new.allocatable
        and bool(old.held_by.strip()) == bool(new.held_by.strip())
        and old.planned == new.planned
        and old.declared == new.declared
    )
