# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was tried in vain since there may last have come room: what is equal need not be tried again.

Thousands of gangs that wait for the same thing are mostly equal, and each would be told the same.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from placement.state.diagnosis import Reasons

_MOST: Final = 1 << 10


@dataclass(frozen=True, slots=True)
class Failure:
    """How many of the tasks got a node, why the next one did not, and why that will never be otherwise, if it is so."""

    placed: int
    nodes: Reasons
    never: str


class FailureCache:
    """Failures by what was tried, all of one generation of the state."""

    def __init__(self) -> None:
        self._generation = -1
        self._known: dict[Hashable, Failure] = {}

    def find(self, generation: int, tried: Hashable) -> Failure | None:
        """What came of the same in this generation."""
        return self._known.get(tried) if self._generation == generation else None

    def note(self, generation: int, tried: Hashable, failure: Failure) -> None:
        """This came of it."""
        if self._generation != generation or len(self._known) >= _MOST:
            self._generation = generation
            self._known.clear()
        self._known[tried] = failure


class FutileSearches:
    """Kinds of claimants for whom nobody could be asked to leave, as long as nothing at all happens."""

    def __init__(self) -> None:
        self._at: Hashable = None
        self._vain: set[Hashable] = set()

    def known(self, at: Hashable, kind: Hashable) -> bool:
        """Whether one of this kind has found nothing at this moment."""
        return self._at == at and kind in self._vain

    def note(self, before: Hashable, after: Hashable, kind: Hashable | None) -> None:
        """One that began at a moment has found nothing and left everything as it was; the moment has another name."""
        if self._at != before or len(self._vain) >= _MOST:
            self._vain.clear()
        self._at = after
        if kind is not None:
            self._vain.add(kind)
