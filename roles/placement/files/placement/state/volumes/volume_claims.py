# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims in use: by which pods, what they attach to which node, and which volumes we mean to give to them.

A driver attaches so many volumes to a node. How many there are is counted when a pod comes or goes and when a claim, a
volume or a class changes, in time proportional to that. With ten thousand claims in use no call walks through them.
A volume that is still attached counts, too, after the last pod that used it there has gone.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.model.messages.event import Object
from placement.model.objects.pod import Pod
from placement.model.objects.volume import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from placement.state.nodes.node_columns import NodeColumns
from placement.state.object_store import ObjectTable

# Namespace and name of a claim.
ClaimKey = tuple[str, str]
# A CSI driver, and what the volume is to it.
Attachment = tuple[str, str]
# UIDs of claims and the names of the volumes that are to be theirs; nothing where one is to be made.
Volumes = tuple[tuple[str, str], ...]
Int32s = NDArray[np.int32]
# Claims are attached by what these say, by kind and name.
_Source = tuple[type[Object], str]

_NO_LIMIT: Final = np.iinfo(np.int32).max


class _Use:
    """A claim in use: rows by the UIDs of its pods, what it attaches, and whose news can change that."""

    __slots__ = ("attachment", "rows", "sources")

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.attachment: Attachment | None = None
        self.sources: tuple[_Source, ...] = ()


class ClaimTable:
    """What is in use on the rows of `columns`, by what `objects` say of claims and volumes."""

    def __init__(self, columns: NodeColumns, objects: ObjectTable) -> None:
        self._columns = columns
        self._objects = objects
        self._uses: dict[ClaimKey, _Use] = {}
        self._concerned: dict[_Source, set[ClaimKey]] = {}
        # How many pods use a volume, by row, and how many volumes there are by driver and row.
        self._users: dict[Attachment, dict[int, int]] = {}
        self._counts: dict[str, Int32s] = {}
        # What volumes that are attached count for, by the attachment's name, and their names by node and by volume.
        self._attached: dict[str, tuple[Attachment, int]] = {}
        self._attached_to: dict[str, dict[str, None]] = {}
        self._attaching: dict[str, dict[str, None]] = {}
        self._known: dict[str, VolumeAttachment] = {}
        # Limits by driver and row, and what they were read from.
        self._limits: dict[str, Int32s] = {}
        self._limits_of = (-1, -1)
        # By the claim's UID, the node for which it is to get a volume and the one that is to be it, with the number of
        # its pods that go by that. Where they do not agree the last holds: what came before has gone to another.
        self._spoken: dict[str, dict[tuple[str, str], int]] = {}
        self._owners: dict[str, str] = {}
        # Volumes that have been spoken for, or are free again.
        self._news: dict[str, None] = {}

    def use(self, pod: Pod, row: int, number: int) -> None:
        """Note that a pod has come to this row (1), or leaves it (-1)."""
        for name in pod.volume_claims:
            key = (pod.namespace, name)
            use = self._uses.get(key)
            if use is None:
                use = self._uses[key] = _Use()
                self._look_up(key, use)
            if number > 0:
                use.rows[pod.uid] = row
            else:
                del use.rows[pod.uid]
            self._count(use.attachment, row, number)
            if not use.rows:
                self._depend(key, use, ())
                del self._uses[key]

    def speak_for(self, claim: str, volume: str, node: str, number: int) -> None:
        """Note that a pod is to have this volume for its claim on this node (1), or no longer (-1)."""
        plan, plans = (node, volume), self._spoken.setdefault(claim, {})
        plans[plan] = plans.get(plan, 0) + number
        if not plans[plan]:
            del plans[plan]
        if not plans:
            del self._spoken[claim]
        if not volume:
            return
        self._news[volume] = None
        if any(volume == other for _unused, other in plans):
            self._owners[volume] = claim
        elif self._owners.get(volume) == claim:
            del self._owners[volume]

    def volume_for(self, claim: str) -> str:
        """Return the volume that the claim of this UID is to have."""
        return self._plan(claim)[1]

    def node_for(self, claim: PersistentVolumeClaim) -> str:
        """Return the node for which the claim's volume is made or will be; empty if it exists or if none is named."""
        node, volume = self._plan(claim.uid)
        return claim.selected_node or ("" if volume else node)

    def _plan(self, claim: str) -> tuple[str, str]:
        plans = self._spoken.get(claim)
        return next(reversed(plans)) if plans else ("", "")

    def owner_of(self, volume: str) -> str:
        """Return the UID of the claim that is to have this volume."""
        return self._owners.get(volume, "")

    def take_news(self) -> Iterable[str]:
        """Names of volumes that have got or lost an owner since this was last asked."""
        news, self._news = self._news, {}
        return news

    def in_use(self, claim: PersistentVolumeClaim, but: str) -> bool:
        """Whether a pod with another UID than this uses the claim."""
        use = self._uses.get(claim.key)
        return use is not None and any(uid != but for uid in use.rows)

    def changed(self, item: Object) -> None:
        """Note that an object is new, other, or gone."""
        if isinstance(item, PersistentVolumeClaim):
            self._look_up_again(item.key)
        elif isinstance(item, PersistentVolume | StorageClass):
            for key in tuple(self._concerned.get((type(item), item.name), ())):
                self._look_up_again(key)
            if isinstance(item, PersistentVolume):
                self._count_attached(self._attaching.get(item.name, {}))
        elif isinstance(item, VolumeAttachment):
            self._attachment_changed(item.name)

    def nodes_changed(self, name: str) -> None:
        """Note that the node of this name has a row now, or has none any more."""
        self._count_attached(self._attached_to.get(name, {}))

    def _attachment_changed(self, name: str) -> None:
        known, item = self._known.pop(name, None), self._objects.find(VolumeAttachment, name)
        for found, place in ((self._attached_to, known.node), (self._attaching, known.volume)) if known else ():
            del found[place][name]
            if not found[place]:
                del found[place]
        if item is not None:
            self._known[name] = item
            self._attached_to.setdefault(item.node, {})[name] = None
            self._attaching.setdefault(item.volume, {})[name] = None
        self._count_attached((name,))

    def _count_attached(self, names: Iterable[str]) -> None:
        """Count these attachments as their node and their volume are now."""
        for name in names:
            before = self._attached.pop(name, None)
            if before is not None:
                self._count(*before, -1)
            item = self._known.get(name)
            volume = self._objects.find(PersistentVolume, item.volume) if item is not None else None
            row = self._columns.rows.get(item.node) if item is not None else None
            if row is not None and volume is not None and volume.driver and volume.handle:
                self._attached[name] = (volume.driver, volume.handle), row
                self._count(*self._attached[name], 1)

    def attachment(self, claim: PersistentVolumeClaim) -> Attachment | None:
        """Return what a claim attaches: its volume, or the one that is yet to be made; None without a driver."""
        volume = self._objects.find(PersistentVolume, claim.volume) if claim.volume else None
        if volume is not None:
            return (volume.driver, volume.handle) if volume.driver and volume.handle else None
        made_by = self._objects.find(StorageClass, claim.storage_class)
        # No handle of a volume has such a name: the blank keeps them apart.
        return (made_by.provisioner, f"{claim.namespace} {claim.name}") if made_by and made_by.provisioner else None

    def attachable(self, wanted: Iterable[Attachment]) -> NDArray[np.bool_] | None:
        """Rows that can attach these as well; None where no driver has a limit."""
        found: NDArray[np.bool_] | None = None
        volumes: dict[str, set[Attachment]] = {}
        for attachment in wanted:
            volumes.setdefault(attachment[0], set()).add(attachment)
        limits = self._limits_by_driver() if volumes else {}
        for driver in volumes.keys() & limits.keys():
            more = np.full(self._columns.capacity, len(volumes[driver]), np.int32)
            for attachment in volumes[driver]:
                more[list(self._users.get(attachment, ()))] -= 1
            fits = (more == 0) | (self.count(driver) + more <= limits[driver])
            found = fits if found is None else found & fits
        return found

    def count(self, driver: str) -> Int32s:
        """How many volumes of a driver are in use, by row."""
        counts = self._counts.get(driver)
        if counts is None or len(counts) < self._columns.capacity:
            known = np.zeros(0, np.int32) if counts is None else counts
            counts = self._counts[driver] = np.pad(known, (0, self._columns.capacity - len(known)))
        return counts

    def _limits_by_driver(self) -> dict[str, Int32s]:
        read_from = (self._columns.generation, self._objects.changes(CSINode))
        if self._limits_of != read_from:
            found: dict[str, Int32s] = {}
            for item in self._objects.every(CSINode):
                row = self._columns.rows.get(item.name)
                for driver, limit in item.limits if row is not None else ():
                    if driver not in found:
                        found[driver] = np.full(self._columns.capacity, _NO_LIMIT, np.int32)
                    found[driver][row] = min(limit, _NO_LIMIT)
            self._limits, self._limits_of = found, read_from
        return self._limits

    def _look_up_again(self, key: ClaimKey) -> None:
        use = self._uses.get(key)
        if use is None:
            return
        before = use.attachment
        self._look_up(key, use)
        if use.attachment != before:
            for row in use.rows.values():
                self._count(before, row, -1)
                self._count(use.attachment, row, 1)

    def _look_up(self, key: ClaimKey, use: _Use) -> None:
        claim = self._objects.find(PersistentVolumeClaim, key[1], key[0])
        use.attachment = self.attachment(claim) if claim else None
        sources = ((PersistentVolume, claim.volume), (StorageClass, claim.storage_class)) if claim else ()
        self._depend(key, use, sources)

    def _depend(self, key: ClaimKey, use: _Use, sources: tuple[_Source, ...]) -> None:
        if sources == use.sources:
            return
        for source in use.sources:
            self._concerned[source].discard(key)
            if not self._concerned[source]:
                del self._concerned[source]
        for source in sources:
            self._concerned.setdefault(source, set()).add(key)
        use.sources = sources

    def _count(self, attachment: Attachment | None, row: int, number: int) -> None:
        if attachment is None:
            return
        users = self._users.setdefault(attachment, {})
        before = users.get(row, 0)
        if before + number:
            users[row] = before + number
        else:
            del users[row]
            if not users:
                del self._users[attachment]
        if not before or not before + number:
            self.count(attachment[0])[row] += number
