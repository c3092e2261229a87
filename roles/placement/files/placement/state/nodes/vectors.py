# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Amounts by name as vectors over the resource axis.

Only what some node offers gets a place on the axis. A pod may ask for a resource of any name, and a column for each of
those would be a way to fill the memory.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.model.amounts.quantity import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Amounts, is_extended

MEMORY_INDEX: Final = 1
PODS_INDEX: Final = 2
# A sum of 2^13 amounts of at most MAX_AMOUNT is the most that 64 bits hold: beyond this count a node is full.
MAX_PODS: Final = 2**13 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """A request over the whole axis."""

    dense: NDArray[np.int64]
    # The same twice, one after the other: charged room and open room change together.
    twice: NDArray[np.int64]
    # As a column, up to the last resource asked for.
    asked: NDArray[np.int64]
    # The same to compare with: what is not asked for is less than anything, so it blocks nowhere.
    least: NDArray[np.int64]
    # Resources asked for that no node offers.
    unknown: tuple[str, ...]
    # Extended resources asked for that some node offers.
    extended: frozenset[str]


class ResourceAxis:
    """The order of resources; it only ever grows."""

    def __init__(self) -> None:
        # What most pods ask for comes first, so that the rest need not be looked at.
        self.names = [CPU, MEMORY, PODS, EPHEMERAL_STORAGE]
        self._index = {name: index for index, name in enumerate(self.names)}
        self._requests: dict[Amounts, Vector] = {}

    def __len__(self) -> int:
        return len(self.names)

    def unknown_names(self, amounts: Amounts) -> list[str]:
        """Names that have no place yet."""
        return [name for name, _unused in amounts if name not in self._index]

    def add(self, name: str) -> None:
        """Give a resource its place; vectors of earlier requests are forgotten."""
        self._index[name] = len(self.names)
        self.names.append(name)
        self._requests.clear()

    def offer(self, amounts: Amounts) -> NDArray[np.int64]:
        """Return the vector of what a node has."""
        dense = np.zeros(len(self.names), np.int64)
        for name, amount in amounts:
            dense[self._index[name]] = amount
        dense[PODS_INDEX] = min(int(dense[PODS_INDEX]), MAX_PODS)
        return dense

    def request(self, amounts: Amounts) -> Vector:
        """Return the vector of what a pod takes: its amounts, and one of the node's pods."""
        vector = self._requests.get(amounts)
        if vector is None:
            dense = np.zeros(len(self.names), np.int64)
            for name, amount in amounts:
                if name in self._index:
                    dense[self._index[name]] = amount
            dense[PODS_INDEX] = 1
            last = int(np.flatnonzero(dense)[-1])
            asked = dense[: last + 1, None]
            least = np.where(asked > 0, asked, np.iinfo(np.int64).min)
            twice = np.concatenate((dense, dense))
            extended = frozenset(name for name, _unused in amounts if name in self._index and is_extended(name))
            vector = Vector(dense, twice, asked, least, tuple(self.unknown_names(amounts)), extended)
            if len(self._requests) >= 1 << 16:
                self._requests.clear()
            self._requests[amounts] = vector
        return vector
