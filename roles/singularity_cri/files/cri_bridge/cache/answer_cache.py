# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers that are given again without asking the runtime: the kubelet polls every second, and each query forks.

Singularity-CRI runs one program for each object that a list names, so 20 pods at rest would cost 1.2 cores. An answer
is kept for about a second. It is kept longer while it is settled: every live sandbox and container in it has a watched
process that still runs. Then only a call through the bridge can change anything, and such a call makes kept answers
void. The clock is injected, and nothing here waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Final

from cri_bridge.wire.methods import Changes, Kept, Method

# How long a settled answer is kept: a bound for what the bridge cannot see, such as calls past its socket.
SETTLED_SECONDS: Final = 60.0
# A bound for memory: requests and answers together. The kubelet asks a few lists, and the status of each object.
MOST_BYTES: Final = 4 * 1024 * 1024
_OF_IMAGES: Final = frozenset({"ListImages", "ImageFsInfo"})


@dataclass(frozen=True)
class _Entry:
    answer: bytes
    until: float
    size: int


@dataclass(frozen=True)
class Asked:
    """A query under way: what had been made void when it began."""

    method: Method
    request: bytes
    generation: tuple[int, int]


class AnswerCache:
    """Answers by method and request."""

    def __init__(self, *, seconds: float, clock: Callable[[], float], settled_seconds: float = SETTLED_SECONDS) -> None:
        self._seconds, self._settled_seconds, self._clock = seconds, settled_seconds, clock
        self._entries: dict[tuple[str, bytes], _Entry] = {}
        self._generation = {Changes.STATE: 0, Changes.IMAGES: 0}
        self._changing = 0
        self._doubtful_until = 0.0

    def __len__(self) -> int:
        return len(self._entries)

    def given(self, method: Method, request: bytes) -> bytes | None:
        """Return a kept answer that is still good, or None."""
        entry = self._entries.get((method.name, request))
        return entry.answer if entry is not None and self._clock() < entry.until else None

    def asked(self, method: Method, request: bytes) -> Asked:
        """Note that the runtime is asked from now on."""
        return Asked(method, request, self._now())

    def keep(self, asked: Asked, answer: bytes, *, settled: bool) -> None:
        """Keep an answer, unless a call has changed something since the runtime was asked."""
        if self._seconds <= 0 or asked.generation != self._now():
            return
        now = self._clock()
        lasting = asked.method.kept is Kept.SETTLED and settled and not self._changing and now >= self._doubtful_until
        self._entries = {key: entry for key, entry in self._entries.items() if now < entry.until}
        size = len(asked.request) + len(answer)
        if size + sum(entry.size for entry in self._entries.values()) <= MOST_BYTES:
            seconds = max(self._settled_seconds, self._seconds) if lasting else self._seconds
            self._entries[asked.method.name, asked.request] = _Entry(answer, now + seconds, size)

    def begin(self, changes: Changes) -> None:
        """Note that a call which changes something is sent."""
        self.forget(changes)
        if changes is Changes.STATE:
            self._changing += 1

    def end(self, changes: Changes, *, well: bool) -> None:
        """Note how such a call ended; after a failure the runtime may be at work, so nothing counts as settled."""
        self.forget(changes)
        if changes is Changes.STATE:
            self._changing -= 1
            if not well:
                self._doubtful_until = self._clock() + self._settled_seconds

    def forget(self, changes: Changes) -> None:
        """Make void what such a change touches."""
        if changes is Changes.NOTHING:
            return
        self._generation[changes] += 1
        of_images = changes is Changes.IMAGES
        self._entries = {key: entry for key, entry in self._entries.items() if (key[0] in _OF_IMAGES) != of_images}

    def clear(self) -> None:
        """Make everything void: the runtime went away."""
        for changes in self._generation:
            self._generation[changes] += 1
        self._entries.clear()

    def _now(self) -> tuple[int, int]:
        return self._generation[Changes.STATE], self._generation[Changes.IMAGES]
