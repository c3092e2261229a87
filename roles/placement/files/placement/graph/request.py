# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a gang asks of the graph, and what it is given."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement.model.amounts.quantity import Amounts

# More pods than this in one request are a mistake: no cluster has so many.
MOST_PODS: Final = 1 << 20
MOST_PARTS: Final = 64


class RequestError(ValueError):
    """A request that contradicts itself; the message names the part and the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Equal pods of a gang, such as its workers.

    Without any wish they are packed: each node gets as many as fit before the next node is used.
    """

    count: int
    # What one pod asks for.
    request: Amounts
    name: str = ""
    # At most so many on one node, as where a pod takes a host port; 0 for as many as fit.
    most: int = 0
    # Exactly so many on each node, only the last one may have fewer; 0 for no such wish.
    per_node: int = 0
    # Spread over exactly so many nodes, with numbers that differ by at most one; 0 for no such wish.
    nodes: int = 0
    # Spread over all usable nodes of the domain, so that the fullest has as few as possible.
    even: bool = False
    # All of the part within one domain of one of these levels, the best first.
    within: tuple[str, ...] = ()
    # Whether the part must be within a domain of one of its levels, or had only better be.
    required: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        name = self.name or "the gang"
        if not 1 <= self.count <= MOST_PODS:
            raise RequestError(f"{name}: {self.count} pods, expected 1 to {MOST_PODS}")
        if min(self.most, self.per_node, self.nodes) < 0:
            raise RequestError(f"{name}: a negative number of pods or nodes")
        if self.nodes > self.count:
            raise RequestError(f"{name}: {self.nodes} nodes for {self.count} pods")
        if bool(self.per_node) + bool(self.nodes) + self.even > 1:
            raise RequestError(f"{name}: more than one of pods per node, number of nodes, and even spread")
        if self.most and self.per_node > self.most:
            raise RequestError(f"{name}: {self.per_node} pods per node, but a node can have only {self.most}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A gang: its parts, and where they are to be together."""

    parts: tuple[Part, ...]
    # All parts within one domain of one of these levels, the best first.
    within: tuple[str, ...] = ()
    # Whether no placement is better than one that is within no such domain.
    required: bool = False
    # Only nodes without any pod.
    exclusive: bool = False
    # The name of a match policy.
    policy: str = "first"
    # Room that is promised to ranks up to this one is open to the gang.
    ignored: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not 1 <= len(self.parts) <= MOST_PARTS:
            raise RequestError(f"{len(self.parts)} parts, expected 1 to {MOST_PARTS}")


class PartNodes(NamedTuple):
    """The nodes of one part: rows, and how many pods each gets."""

    rows: NDArray[np.intp]
    numbers: NDArray[np.int64]

    def each(self) -> list[int]:
        """Return one row for each pod."""
        return np.repeat(self.rows, self.numbers).tolist()


class Selection(NamedTuple):
    """Where a gang goes."""

    parts: tuple[PartNodes, ...]
    # The level and the domain that all of it is within.
    level: str
    domain: str
    # Whether its nodes must get no other pods.
    exclusive: bool
    # When it can start, in seconds; None for now.
    at: float | None = None

    @property
    def rows(self) -> list[int]:
        """Return the rows that are used, each once, in ascending order."""
        return sorted({row for part in self.parts for row in part.rows.tolist()})


class NoMatch(NamedTuple):
    """Why a gang goes nowhere: for each level that was tried, what is missing."""

    reasons: Sequence[str]

    def __str__(self) -> str:
        return "; ".join(self.reasons)
