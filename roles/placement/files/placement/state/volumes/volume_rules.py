# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about volumes: which nodes a pod's claims allow.

A claim that is bound ties the pod to the nodes that reach its volume. One that waits for its first consumer gets a
volume that is there once a node is chosen. Otherwise the topology of its class ties it, and its volume is made then.
What cannot be judged is refused, in words.
"""

from collections.abc import Hashable, Iterator
from typing import Final

import numpy as np

from placement.model.messages.event import Object
from placement.model.objects.pod import Pod
from placement.model.objects.volume import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
)
from placement.model.rules.selector import NodeSelector, NodeSelectorTerm
from placement.state.nodes.node_columns import NodeColumns, label_value
from placement.state.nodes.node_filters import Bools, MaskTable
from placement.state.object_store import ObjectTable
from placement.state.volumes.static_volumes import StaticVolumes
from placement.state.volumes.volume_claims import ClaimTable, Volumes

_NO_PROVISIONER: Final = ("", "kubernetes.io/no-provisioner")
# Labels of a volume that say where it is, and the label of a node that goes for each where the node has not that one.
_ZONES: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
# How reasons end that other pods can end by leaving: what a pod lacks, they or their claims have.
ATTACHED: Final = "the number of volumes that a node can attach"
IN_USE: Final = "which another pod uses (ReadWriteOncePod)"
TOO_FEW: Final = "for which there are not enough volumes"
NONE_NOW: Final = "for which there is no volume now"
# How the reason begins that a driver has too little room, which volumes of others may take.
CAPACITY: Final = "the room that driver "
# Between the zones of a volume that is in several.
_ZONE_DELIMITER: Final = "__"

# A rule in words, and the rows that it allows.
AllowedRows = tuple[str, Bools]


class VolumeRules:
    """Say on which nodes a pod can have its volumes."""

    def __init__(self, columns: NodeColumns, masks: MaskTable, objects: ObjectTable, claims: ClaimTable) -> None:
        self._columns = columns
        self._masks = masks
        self._objects = objects
        self._claims = claims
        self._static = StaticVolumes(columns, masks, objects, claims)

    def changed(self, old: Object | None, new: Object | None) -> None:
        """Note that an object is new, other, or gone."""
        volumes = [item if isinstance(item, PersistentVolume) else None for item in (old, new)]
        if any(volumes):
            self._static.changed(*volumes)

    def waiting(self, pod: Pod) -> list[PersistentVolumeClaim]:
        """Claims of the pod that get their volumes when a node is chosen, and have none yet, as far as is known."""
        return [
            claim
            for claim in self._known(pod)
            if claim.binding or self._objects.find(PersistentVolume, claim.volume) is None
        ]

    def choose(self, pod: Pod, node: str) -> Volumes:
        """Choose what the pod's waiting claims get on this node: the name of a volume, or one to be made."""
        row = self._columns.rows.get(node, -1)
        return self._chosen([claim for claim in self._known(pod) if not claim.volume], row) if row >= 0 else ()

    def allowed(self, pod: Pod) -> Bools | None:
        """Rows that every claim allows; None means all."""
        answers = self.answers(pod)
        if not answers:
            return None
        together: Bools = np.logical_and.reduce([allowed for _unused, allowed in answers])
        return together

    def answers(self, pod: Pod) -> list[AllowedRows]:
        """Each rule with the rows it allows."""
        found: list[AllowedRows] = []
        for name in pod.volume_claims:
            claim = self._objects.find(PersistentVolumeClaim, name, pod.namespace)
            why = "which does not exist" if claim is None else self._unusable(pod, claim)
            if claim is None or why:
                found.append((f"its claim {name}, {why}", self._nowhere()))
            elif claim.volume:
                found += self._bound(claim, zoned=name not in pod.ephemeral_claims)
            else:
                found += self._unbound(claim)
        if found:
            found += self._together(pod, found)
            found += self._attachable(pod)
        return found

    def _known(self, pod: Pod) -> Iterator[PersistentVolumeClaim]:
        for name in pod.volume_claims:
            claim = self._objects.find(PersistentVolumeClaim, name, pod.namespace)
            if claim is not None:
                yield claim

    def _unusable(self, pod: Pod, claim: PersistentVolumeClaim) -> str:
        """Why the claim serves this pod on no node, if it does not."""
        if claim.lost:
            return f"which has lost its volume {claim.volume}"
        if claim.terminating:
            return "which is being deleted"
        if claim.name in pod.ephemeral_claims and claim.owner != pod.uid:
            return "which was not made for this pod"
        if claim.once_per_pod and self._claims.in_use(claim, but=pod.uid):
            return IN_USE
        made_by = self._made_by(claim)
        unbound = not claim.volume and (made_by is None or not made_by.waits)
        return "which is not bound" if unbound or claim.binding else ""

    def _bound(self, claim: PersistentVolumeClaim, *, zoned: bool) -> list[AllowedRows]:
        volume = self._objects.find(PersistentVolume, claim.volume)
        if volume is None:
            return [(f"volume {claim.volume} of its claim {claim.name}, which does not exist", self._nowhere())]
        zones = self._zones(volume) if zoned else []
        return [*self._reached("node affinity of volume " + volume.name, volume.node_terms), *zones]

    def _zones(self, volume: PersistentVolume) -> list[AllowedRows]:
        """Nodes where a volume is by its labels; nodes that do not say where they are count as anywhere."""
        there = np.ones(self._columns.capacity, np.bool_)
        asked = False
        for key, stands_in in _ZONES.items():
            values = {value.strip() for value in (label_value(volume.labels, key) or "").split(_ZONE_DELIMITER)}
            if "" in values:
                continue
            asked, column = True, self._columns.label_column(key)
            there &= np.where(
                column.of_row < 0, self._columns.label_column(stands_in).among(values), column.among(values)
            )
        if not asked:
            return []
        anywhere = np.logical_and.reduce([self._columns.label_column(key).of_row < 0 for key in _ZONES])
        return [("zone of volume " + volume.name, there | anywhere)]

    def _unbound(self, claim: PersistentVolumeClaim) -> list[AllowedRows]:
        making = self._making(claim)
        node = self._claims.node_for(claim)
        if node:
            return [self._being_made(claim, node), *making]
        static = self._static.reached(claim)
        if not static.any():
            return making
        allowed: Bools = static | np.logical_and.reduce([allowed for _unused, allowed in making])
        return [(f"its claim {claim.name}, {NONE_NOW}", allowed)]

    def _making(self, claim: PersistentVolumeClaim) -> list[AllowedRows]:
        """Where a volume can be made."""
        made_by = self._made_by(claim)
        if made_by is None or made_by.provisioner in _NO_PROVISIONER:
            why = NONE_NOW if self._static.any_of(claim.storage_class) else "for which there is no volume"
            return [(f"its claim {claim.name}, {why}", self._nowhere())]
        topology = self._reached("topology of storage class " + made_by.name, made_by.topology)
        return [*topology, *self._room(claim, made_by)]

    def _made_by(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        return self._objects.find(StorageClass, claim.storage_class)

    def _being_made(self, claim: PersistentVolumeClaim, node: str) -> AllowedRows:
        """Return the one node for which a volume has been asked: its provisioner may be at it."""
        allowed = self._nowhere()
        row = self._columns.rows.get(node)
        if row is not None:
            allowed[row] = True
        return f"its claim {claim.name}, whose volume is being made for node {node}", allowed

    def _together(self, pod: Pod, apart: list[AllowedRows]) -> list[AllowedRows]:
        """Nodes with volumes for all of the claims that would like to have the same, and have been asked `apart`."""
        rivals: dict[Hashable, list[PersistentVolumeClaim]] = {}
        for claim in self._known(pod):
            if not (claim.volume or self._claims.node_for(claim)) and self._static.competes(claim):
                rivals.setdefault((claim.storage_class, claim.attributes_class, claim.block), []).append(claim)
        open_to_each = np.logical_and.reduce([self._masks.present(), *(allowed for _unused, allowed in apart)])
        return [self._enough_for_all(claims, open_to_each) for claims in rivals.values() if len(claims) > 1]

    def _enough_for_all(self, claims: list[PersistentVolumeClaim], rows: Bools) -> AllowedRows:
        """Return which of these rows have volumes for all of these claims, by counts of volumes where these decide."""
        counts = [self._static.count(claim) for claim in sorted(claims, key=_claim_size)]
        alike = len({(claim.modes, claim.selector) for claim in claims}) == 1
        # The smallest claim takes first, and the smallest that will do. Where a volume for a claim would do for all
        # smaller ones, it is enough that none finds fewer than it and the larger ones need; otherwise it is surely
        # enough that each finds one more than those before it can have taken.
        needed = range(len(counts), 0, -1) if alike else range(1, len(counts) + 1)
        enough = np.logical_and.reduce([count >= number for count, number in zip(counts, needed, strict=True)])
        makeable = {
            claim.uid: np.logical_and.reduce([allowed for _unused, allowed in self._making(claim)]) for claim in claims
        }
        allowed: Bools = rows & (enough | np.logical_and.reduce([*makeable.values()]))
        unsure = rows & ~allowed
        if alike:
            unsure &= np.logical_or.reduce([*makeable.values()])
        for row in np.flatnonzero(unsure).tolist():
            allowed[row] = all(volume or makeable[claim][row] for claim, volume in self._chosen(claims, row))
        names = " and ".join(claim.name for claim in claims)
        return f"its claims {names}, {TOO_FEW}", allowed

    def _chosen(self, claims: list[PersistentVolumeClaim], row: int) -> Volumes:
        """Volumes for these claims on one node, the smallest claim first."""
        node = self._columns.nodes[row]
        found: dict[str, str] = {}
        for claim in sorted(claims, key=_claim_size):
            volume = None
            if node is not None and not self._claims.node_for(claim):
                volume = self._static.best(claim, node, found.values())
            found[claim.uid] = volume.name if volume is not None else ""
        return tuple(found.items())

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
                tie = term.label_values()
                if tie is not None:
                    # A driver of local volumes says so for each node: too many for a mask of each.
                    values.setdefault(tie[0], set()).update(tie[1])
                else:
                    allowed |= self._masks.selector(NodeSelector((), (term,))).allows
        for key, there in values.items():
            allowed |= self._columns.label_column(key).among(there)
        return [(f"{CAPACITY}{driver.name} has for its claim {claim.name}", allowed)]

    def _reached(self, what: str, terms: tuple[NodeSelectorTerm, ...] | None) -> list[tuple[str, Bools]]:
        if terms is None:
            return [(what, np.ones(self._columns.capacity, np.bool_))]
        return [(what, self._masks.selector(NodeSelector((), terms)).allows)]

    def _nowhere(self) -> Bools:
        return np.zeros(self._columns.capacity, np.bool_)

    def _attachable(self, pod: Pod) -> list[AllowedRows]:
        """Nodes that can attach the volumes: a driver has a limit, and a volume counts once however many use it."""
        attachments = (self._claims.attachment(claim) for claim in self._known(pod))
        allowed = self._claims.attachable(item for item in attachments if item is not None)
        return [] if allowed is None else [(ATTACHED, allowed)]


def _claim_size(claim: PersistentVolumeClaim) -> int:
    return claim.size
