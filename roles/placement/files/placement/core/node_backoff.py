# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that turned a pod away, and how long they are left alone for it.

A kubelet that rejects what was bound to it (`OutOfcpu`) knows something that the API does not say. What a controller
makes in place of the rejected pod would go to the same node at once, and be rejected again, for ever. Where the
reason lies in what such pods ask for, as with whole cores of one socket, the node rests for these alone.
"""

from dataclasses import dataclass
from typing import Final

from placement.state.cluster import Shape

_FIRST: Final = 5.0
_LONGEST: Final = 300.0
# A node, and the pods that it rests for; None are all.
RestKey = tuple[str, Shape | None]


@dataclass(frozen=True, slots=True)
class _Rest:
    until: float
    length: float


class NodeBackoff:
    """Rests by node, or by node and shape of pods; one that has been good for as long as it rested starts afresh."""

    def __init__(self) -> None:
        self._rests: dict[RestKey, _Rest] = {}
        self._now: set[RestKey] = set()

    def turned_away(self, node: RestKey, now: float) -> None:
        """Note that the node rejected a pod. Pods that were under way before it rested count with the first."""
        if node in self._now:
            return
        last = self._rests.get(node)
        length = min(2 * last.length, _LONGEST) if last and now < last.until + last.length else _FIRST
        self._rests[node] = _Rest(now + length, length)
        self._now.add(node)

    def rested(self, now: float) -> list[RestKey]:
        """Return what may be tried again from now on."""
        found = [node for node in self._now if self._rests[node].until <= now]
        self._now.difference_update(found)
        for node in [node for node, rest in self._rests.items() if rest.until + rest.length <= now]:
            if node not in self._now:
                del self._rests[node]
        return found
