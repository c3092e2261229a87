# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tries that failed: an equal job is not tried again before there may be new room.

Thousands of gangs that wait for the same resources are mostly equal, and each of them would get the same answer.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import Task, kind_of
from placement.state.nodes.diagnosis import Reasons

_MOST: Final = 1 << 10


@dataclass(frozen=True, slots=True)
class Failure:
    """How many tasks got a node, why the next one did not, and why it never can; empty if it can."""

    placed: int
    nodes: Reasons
    never: str
    # What the racks or other domains lack, where the graph was asked.
    why: str = ""


class Vain(NamedTuple):
    """A try of a job's tasks that was in vain: the tasks up to the one that fits nowhere, and the reason."""

    tried: Sequence[Task]
    failure: Failure


@dataclass(slots=True)
class Passed:
    """Kinds of members of a job that fit nowhere, since its members were last tried from the first on."""

    # `Versions.room` when the first of them was tried.
    since: int
    kinds: set[Hashable] = field(default_factory=set)
    # All members that were tried since the job was parked: each may have taken the nodes of those that fit nowhere.
    tasks: dict[Task, None] = field(default_factory=dict)
    # Why the first of them fits nowhere of which it is not known that it can never run.
    hopeful: Failure | None = None

    def add(self, best: Vain, tries: Iterable[Vain]) -> None:
        """Add the kind that failed in the best of these tries, and all members that were tried."""
        self.kinds.add(kind_of(best.tried[-1]))
        self.tasks.update((task, None) for item in tries for task in item.tried)
        if not best.failure.never:
            self.hopeful = self.hopeful or best.failure


class FailureCache:
    """Find failures by what was tried; all are of one version of the room."""

    def __init__(self) -> None:
        # By the jobs that have members of more kinds than are tried in one go.
        self.passed: dict[GroupKey, Passed] = {}
        self._generation = -1
        self._known: dict[Hashable, Failure] = {}

    def find(self, generation: int, tried: Hashable) -> Failure | None:
        """Return how the same try failed in this generation; None if that is not known."""
        return self._known.get(tried) if self._generation == generation else None

    def note(self, generation: int, tried: Hashable, failure: Failure) -> None:
        """Keep how a try failed in this generation, and drop what is of an older one."""
        if self._generation != generation or len(self._known) >= _MOST:
            self._generation = generation
            self._known.clear()
        self._known[tried] = failure


class FutileSearches:
    """Remember the kinds of jobs for which no victims were found, as long as nothing happens."""

    def __init__(self) -> None:
        self._at: Hashable = None
        self._vain: set[Hashable] = set()

    def known(self, at: Hashable, kind: Hashable) -> bool:
        """Return whether a job of this kind found no victims at this moment."""
        return self._at == at and kind in self._vain

    def note(self, before: Hashable, after: Hashable, kind: Hashable | None) -> None:
        """Note that a search found no victims; it changed nothing, but moment `before` is called `after` now."""
        if self._at != before or len(self._vain) >= _MOST:
            self._vain.clear()
        self._at = after
        if kind is not None:
            self._vain.add(kind)
