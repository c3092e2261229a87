# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes that exist before a claim, and which of them a claim may have on which node.

A claim that waits for its first consumer gets the smallest that will do, once a node is chosen: that of its disk,
mostly. A volume that was made for this very claim goes before all others, or none does. Both as kube-scheduler chooses.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeVar

import numpy as np

from placement.model.objects.node import Node
from placement.model.objects.volume import PersistentVolume, PersistentVolumeClaim
from placement.model.rules.selector import LabelMap, NodeSelector, NodeSelectorTerm
from placement.state.nodes.node_columns import LabelColumn, NodeColumns
from placement.state.nodes.node_filters import Bools, MaskTable
from placement.state.object_store import ObjectTable
from placement.state.volumes.volume_claims import ClaimKey, ClaimTable, Int32s

# Kinds of claims whose volumes are remembered.
_STOCKS: Final = 64
K = TypeVar("K", str, ClaimKey)


class _ByLabel:
    """Volumes that one label ties to their nodes: by its values, and how many of each are free."""

    __slots__ = ("_column", "_free", "volumes")

    def __init__(self) -> None:
        # By value and UID.
        self.volumes: dict[str, dict[str, PersistentVolume]] = {}
        self._column: LabelColumn | None = None
        self._free: Int32s = np.zeros(0, np.int32)

    def count(self, column: LabelColumn, is_free: Callable[[PersistentVolume], bool]) -> Int32s:
        """How many are free by row; only what has changed since is looked at again."""
        if self._column is not column or len(self._free) != len(column.ids) + 1:
            self._column = column
            self._free = np.zeros(len(column.ids) + 1, np.int32)
            for value in self.volumes:
                self.look_again(value, is_free)
        # -1 (no label) indexes the last element.
        found: Int32s = self._free[column.of_row]
        return found

    def look_again(self, value: str, is_free: Callable[[PersistentVolume], bool]) -> None:
        """Look again after a volume of this value has come, gone, or been given to a claim."""
        if self._column is not None and self._column.ids.get(value, len(self._free)) < len(self._free) - 1:
            self._free[self._column.ids[value]] = sum(map(is_free, self.volumes.get(value, {}).values()))


class _Candidates:
    """Volumes that would do for claims of one kind."""

    def __init__(self, claim: PersistentVolumeClaim) -> None:
        self.claim = claim
        self.ties: dict[str, _ByLabel] = {}
        self.others: dict[str, PersistentVolume] = {}

    def __bool__(self) -> bool:
        return bool(self.ties or self.others)

    def put(self, volume: PersistentVolume) -> None:
        """One more."""
        key, values = _tie(volume)
        if not key:
            self.others[volume.uid] = volume
            return
        tie = self.ties.setdefault(key, _ByLabel())
        for value in values:
            tie.volumes.setdefault(value, {})[volume.uid] = volume

    def drop(self, volume: PersistentVolume) -> None:
        """One less, if it was there."""
        key, values = _tie(volume)
        self.others.pop(volume.uid, None)
        for value in values:
            there = self.ties[key].volumes if key in self.ties else {}
            there.get(value, {}).pop(volume.uid, None)

    def look_again(self, volume: PersistentVolume, is_free: Callable[[PersistentVolume], bool]) -> None:
        """Look again after the volume has come, gone, or been given to a claim."""
        key, values = _tie(volume)
        for value in values if key in self.ties else ():
            self.ties[key].look_again(value, is_free)

    def near(self, labels: LabelMap) -> Iterator[PersistentVolume]:
        """Those that a node with these labels may reach, in no order."""
        yield from self.others.values()
        for key, tie in self.ties.items():
            yield from tie.volumes.get(labels.get(key, ""), {}).values() if key in labels else ()


class StaticVolumes:
    """Answers over one cluster."""

    def __init__(self, columns: NodeColumns, masks: MaskTable, objects: ObjectTable, claims: ClaimTable) -> None:
        self._columns = columns
        self._masks = masks
        self._objects = objects
        self._claims = claims
        # By UID, those that nobody has claimed by class, the others by the claim they name; how many each class has.
        self._unclaimed: dict[str, dict[str, PersistentVolume]] = {}
        self._claimed: dict[ClaimKey, dict[str, PersistentVolume]] = {}
        self._number: Counter[str] = Counter()
        self._stocks: dict[object, _Candidates] = {}

    def changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        """Note that a volume is new, other, or gone."""
        if old is not None:
            if old.claim is not None:
                _take(self._claimed, old.claim, old)
            _take(self._unclaimed, old.storage_class, old)
            self._number[old.storage_class] -= 1
        if new is not None:
            self._number[new.storage_class] += 1
        if new is not None and new.claim is not None:
            self._claimed.setdefault(new.claim, {})[new.uid] = new
        elif new is not None and new.available and not new.terminating:
            self._unclaimed.setdefault(new.storage_class, {})[new.uid] = new
        for stock in self._stocks.values():
            if old is not None:
                stock.drop(old)
            open_to_all = self._unclaimed.get(stock.claim.storage_class, {})
            if new is not None and new.uid in open_to_all and _would_do(new, stock.claim):
                stock.put(new)
            for volume in filter(None, (old, new)):
                stock.look_again(volume, self._is_free)

    def any_of(self, storage_class: str) -> bool:
        """Return whether the class has volumes, be they claimed or not."""
        return self._number[storage_class] > 0

    def reached(self, claim: PersistentVolumeClaim) -> Bools:
        """Rows on which the claim can have one of them."""
        own = self._own(claim)
        if own is not None:
            return self._reaches(own.node_terms)
        reached: Bools = self.count(claim) > 0
        return reached

    def count(self, claim: PersistentVolumeClaim) -> Int32s:
        """How many would do for the claim, if none is its own, and are free, by row."""
        stock, found = self._stock(claim), np.zeros(self._columns.capacity, np.int32)
        for key, tie in stock.ties.items():
            found += tie.count(self._columns.label_column(key), self._is_free)
        others = Counter(volume.node_terms for volume in stock.others.values() if self._is_free(volume))
        for terms, number in others.items():
            found += np.where(self._reaches(terms), np.int32(number), np.int32(0))
        return found

    def best(self, claim: PersistentVolumeClaim, node: Node, without: Collection[str] = ()) -> PersistentVolume | None:
        """Return the volume that the claim gets on this node, if any, except those `without` names."""
        own, labels = self._own(claim), dict(node.labels)
        volumes = self._stock(claim).near(labels) if own is None else (own,)
        return min(
            (
                volume
                for volume in volumes
                if volume.name not in without
                and (volume is own or self._is_free(volume))
                and (volume.node_terms is None or any(term.matches(node.name, labels) for term in volume.node_terms))
            ),
            key=_size,
            default=None,
        )

    def competes(self, claim: PersistentVolumeClaim) -> bool:
        """Whether what the claim gets may be what another would have got."""
        return bool(self._stock(claim)) and self._own(claim) is None

    def _reaches(self, terms: tuple[NodeSelectorTerm, ...] | None) -> Bools:
        return self._masks.selector(NodeSelector((), terms)).allows

    def _is_free(self, volume: PersistentVolume) -> bool:
        return not self._claims.owner_of(volume.name)

    def _own(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """Return the volume that is meant for this claim, by the daemon or by the volume's creator."""
        chosen = self._objects.find(PersistentVolume, self._claims.volume_for(claim.uid))
        if chosen is not None and _is_open_to(chosen, claim) and _holds(chosen, claim):
            return chosen
        return next((volume for volume in self._claimed.get(claim.key, {}).values() if _is_for(volume, claim)), None)

    def _stock(self, claim: PersistentVolumeClaim) -> _Candidates:
        for name in self._claims.take_news():
            volume = self._objects.find(PersistentVolume, name)
            if volume is not None:
                for stock in self._stocks.values():
                    stock.look_again(volume, self._is_free)
        kind = (claim.storage_class, claim.attributes_class, claim.block, claim.modes, claim.size, claim.selector)
        found = self._stocks.get(kind)
        if found is None:
            if len(self._stocks) >= _STOCKS:
                self._stocks.clear()
            found = self._stocks[kind] = _Candidates(claim)
            for volume in self._unclaimed.get(claim.storage_class, {}).values():
                if _would_do(volume, claim):
                    found.put(volume)
        return found


def _take(table: dict[K, dict[str, PersistentVolume]], key: K, volume: PersistentVolume) -> None:
    there = table.get(key, {})
    there.pop(volume.uid, None)
    if not there:
        table.pop(key, None)


def _tie(volume: PersistentVolume) -> tuple[str, tuple[str, ...]]:
    """Key and values of the label that ties it to its nodes; nothing where more than that does, or nothing."""
    terms = volume.node_terms or ()
    return (terms[0].label_values() if len(terms) == 1 else None) or ("", ())


def _size(volume: PersistentVolume) -> tuple[int, str]:
    return volume.size, volume.name


def _is_open_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether no other claim has the volume by now."""
    return volume.claim is None or (volume.claim == claim.key and volume.claim_uid in ("", claim.uid))


def _is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume that names a claim can be this claim's."""
    return (
        volume.claim == claim.key
        and volume.claim_uid in ("", claim.uid)
        and volume.storage_class == claim.storage_class
        and not volume.terminating
        and _holds(volume, claim)
    )


def _would_do(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether an unclaimed volume is what the claim asks for."""
    return (
        _holds(volume, claim)
        and set(claim.modes) <= set(volume.modes)
        and (claim.selector is None or claim.selector.matches(dict(volume.labels)))
    )


def _holds(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    kind = (volume.block, volume.attributes_class)
    return volume.size >= claim.size and kind == (claim.block, claim.attributes_class)
