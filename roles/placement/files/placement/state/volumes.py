# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about volumes: which nodes a pod's claims allow.

A claim that is bound ties the pod to the nodes that reach its volume. One that waits for its first consumer is tied by
the topology of its class, and its volume is made once a node is chosen. What cannot be judged is refused, in words.
"""

from collections.abc import Collection
from typing import Final

import numpy as np

from placement.model.pod import Pod
from placement.model.selector import NodeSelector, NodeSelectorTerm, Operator, Requirement
from placement.model.volume import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
)
from placement.state.columns import NodeColumns
from placement.state.masks import Bools, MaskTable
from placement.state.objects import ObjectTable
from placement.state.pods import PodTable

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


class VolumeRules:
    """Answers over one cluster."""

    def __init__(self, columns: NodeColumns, masks: MaskTable, objects: ObjectTable, pods: PodTable) -> None:
        self._columns = columns
        self._masks = masks
        self._objects = objects
        self._pods = pods

    def waiting(self, pod: Pod) -> list[PersistentVolumeClaim]:
        """Claims of the pod whose volumes are made when a node is chosen, and are not there yet, as far as is known."""
        claims = (self._claim(pod, name) for name in pod.volume_claims)
        return [
            claim
            for claim in claims
            if claim is not None and self._objects.find(PersistentVolume, claim.volume) is None
        ]

    def allowed(self, pod: Pod) -> Bools | None:
        """Rows that every claim allows; None means all."""
        answers = self.answers(pod)
        if not answers:
            return None
        together: Bools = np.logical_and.reduce([allowed for _unused, allowed in answers])
        return together

    def answers(self, pod: Pod) -> list[tuple[str, Bools]]:
        """Each rule with the rows it allows."""
        found: list[tuple[str, Bools]] = []
        for name in pod.volume_claims:
            claim = self._claim(pod, name)
            if claim is None:
                found.append((f"its claim {name}, which does not exist", self._nowhere()))
                continue
            if claim.once_per_pod and self._in_use(pod, claim):
                found.append((f"its claim {name}, which another pod uses (ReadWriteOncePod)", self._nowhere()))
            found += self._bound(claim) if claim.volume else self._unbound(claim)
        if found:
            found += self._attachable(pod)
        return found

    def _claim(self, pod: Pod, name: str) -> PersistentVolumeClaim | None:
        return self._objects.find(PersistentVolumeClaim, name, pod.namespace)

    def _bound(self, claim: PersistentVolumeClaim) -> list[tuple[str, Bools]]:
        volume = self._objects.find(PersistentVolume, claim.volume)
        if volume is None:
            return [(f"volume {claim.volume} of its claim {claim.name}, which does not exist", self._nowhere())]
        return self._reached("node affinity of volume " + volume.name, volume.node_terms)

    def _unbound(self, claim: PersistentVolumeClaim) -> list[tuple[str, Bools]]:
        found = self._objects.find(StorageClass, claim.storage_class)
        if found is None or not found.waits:
            return [(f"its claim {claim.name}, which is not bound", self._nowhere())]
        if found.provisioner in ("", NO_PROVISIONER):
            why = f"its claim {claim.name}: volumes made by hand are not chosen among; bind it beforehand"
            return [(why, self._nowhere())]
        begun = [self._being_made(claim)] if claim.selected_node else []
        topology = self._reached("topology of storage class " + found.name, found.topology)
        return [*begun, *topology, *self._room(claim, found)]

    def _being_made(self, claim: PersistentVolumeClaim) -> tuple[str, Bools]:
        """The one node for which a volume has been asked: its provisioner may be at it."""
        allowed = self._nowhere()
        row = self._columns.rows.get(claim.selected_node)
        if row is not None:
            allowed[row] = True
        return f"its claim {claim.name}, whose volume is being made for node {claim.selected_node}", allowed

    def _room(self, claim: PersistentVolumeClaim, made_by: StorageClass) -> list[tuple[str, Bools]]:
        """Nodes near which the class's driver has room for the volume, where it says how much it has."""
        driver = self._objects.find(CSIDriver, made_by.provisioner)
        if driver is None or not driver.tells_capacity or not claim.size:
            return []
        allowed = self._nowhere()
        values: dict[str, set[str]] = {}
        for item in self._objects.every(StorageCapacity):
            if item.storage_class != made_by.name or item.largest < claim.size:
                continue
            if item.topology is None:
                return []
            for term in item.topology:
                match term.expressions:
                    case [Requirement(key=key, operator=Operator.IN, values=wanted)] if not term.fields:
                        # A driver of local volumes says so for each node: too many for a mask of each.
                        values.setdefault(key, set()).update(wanted)
                    case _:
                        allowed |= self._masks.selector(NodeSelector((), (term,))).allows
        for key, there in values.items():
            allowed |= self._columns.label_column(key).among(there)
        return [(f"the room that driver {driver.name} has for its claim {claim.name}", allowed)]

    def _reached(self, what: str, terms: tuple[NodeSelectorTerm, ...] | None) -> list[tuple[str, Bools]]:
        if terms is None:
            return [(what, np.ones(self._columns.capacity, np.bool_))]
        return [(what, self._masks.selector(NodeSelector((), terms)).allows)]

    def _nowhere(self) -> Bools:
        return np.zeros(self._columns.capacity, np.bool_)

    def _in_use(self, pod: Pod, claim: PersistentVolumeClaim) -> bool:
        users = self._pods.claim_users.get((claim.namespace, claim.name), {})
        return any(uid != pod.uid for uid in users)

    def _attachable(self, pod: Pod) -> list[tuple[str, Bools]]:
        """Nodes that can attach the volumes: a driver has a limit, and a volume counts once however many use it."""
        wanted: dict[str, set[str]] = {}
        for name in pod.volume_claims:
            claim = self._claim(pod, name)
            attached = self._attachment(claim) if claim else None
            if attached is not None:
                wanted.setdefault(attached[0], set()).add(attached[1])
        limits = [item for item in self._objects.every(CSINode) if item.limits] if wanted else []
        if not limits:
            return []
        present = self._attached(wanted.keys())
        allowed = np.ones(self._columns.capacity, np.bool_)
        for item in limits:
            row = self._columns.rows.get(item.name)
            for driver, limit in item.limits:
                if row is not None and driver in wanted:
                    there = present.get((row, driver), set())
                    allowed[row] &= len(there | wanted[driver]) <= limit
        return [("the number of volumes that a node can attach", allowed)]

    def _attached(self, drivers: Collection[str]) -> dict[tuple[int, str], set[str]]:
        found: dict[tuple[int, str], set[str]] = {}
        for (namespace, name), users in self._pods.claim_users.items():
            claim = self._objects.find(PersistentVolumeClaim, name, namespace)
            attached = self._attachment(claim) if claim else None
            if attached is not None and attached[0] in drivers:
                for row in users.values():
                    found.setdefault((row, attached[0]), set()).add(attached[1])
        return found

    def _attachment(self, claim: PersistentVolumeClaim) -> tuple[str, str] | None:
        """Driver and volume that count for a node; None where no driver attaches anything.

        A volume that is yet to be made counts as well, for the driver that will make it.
        """
        volume = self._objects.find(PersistentVolume, claim.volume) if claim.volume else None
        if volume is not None:
            return (volume.driver, volume.name) if volume.driver else None
        made_by = self._objects.find(StorageClass, claim.storage_class)
        return (made_by.provisioner, f"{claim.namespace}/{claim.name}") if made_by and made_by.provisioner else None
