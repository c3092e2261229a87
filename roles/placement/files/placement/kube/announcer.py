# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events for people: they may lag behind under load, and none is lost.

While bindings wait for their connections Events are held to a trickle, because each costs the API server as much as a
binding; afterwards they catch up. When too many are waiting, whoever has more to tell is held back, so that memory
stays bounded.
"""

import itertools
import queue
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from placement.kube import requests
from placement.kube.performer import Telling
from placement.kube.requests import Note
from placement.kube.sender import Sender, namespace_ends

MOST_WAITING: Final = 200_000
# 409: a repeated POST had landed already; 404: the namespace is gone, and nobody is left to tell.
_DONE: Final = frozenset({200, 201, 409, 404})


class Limiter:
    """Lets so many through a second, evenly; thread-safe. The rate is asked for each time."""

    def __init__(
        self, rate: Callable[[], float], *, clock: Callable[[], float] = time.monotonic, burst: int = 50
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._burst = burst
        self._lock = threading.Lock()
        self._tokens = float(burst)
        self._then = clock()

    def delay(self) -> float:
        """Takes the next place and says how long to wait for it."""
        with self._lock:
            now, rate = self._clock(), self._rate()
            self._tokens = min(self._burst, self._tokens + (now - self._then) * rate)
            self._then = now
            self._tokens -= 1
            return 0.0 if self._tokens >= 0 else -self._tokens / rate


class Announcer:
    """The queue of what is to be told, and the body of the threads that tell it."""

    def __init__(
        self,
        limiter: Limiter,
        *,
        stop: threading.Event,
        controller: str,
        instance: str,
        lost: Callable[[Telling, int], None],
        most: int = MOST_WAITING,
    ) -> None:
        self._limiter = limiter
        self._stop = stop
        self._controller = controller
        self._instance = instance
        self._lost = lost
        self._most = most
        self._waiting: queue.SimpleQueue[tuple[Telling, str, str] | None] = queue.SimpleQueue()
        # Names must not clash with those of an earlier run of this instance.
        self._base = time.time_ns()
        self._serial = itertools.count()
        self.told = 0

    def __len__(self) -> int:
        return self._waiting.qsize()

    @property
    def full(self) -> bool:
        """Whether those who have more to tell are held back."""
        return self._waiting.qsize() >= self._most

    def tell(self, telling: Telling) -> None:
        """Notes what is to be told, with the time of now."""
        while self._waiting.qsize() >= self._most and not self._stop.wait(0.05):
            pass
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self._waiting.put((telling, f"{self._base + next(self._serial):x}", now))

    def finish(self) -> None:
        """Ends one thread once all that waits has been told."""
        self._waiting.put(None)

    def run(self, sender: Sender) -> None:
        """Tells, until `finish`."""
        while (item := self._waiting.get()) is not None:
            telling, serial, now = item
            delay = self._limiter.delay()
            if delay > 0:
                self._stop.wait(delay)
            note = Note(
                subject=telling.subject,
                reason=telling.reason,
                text=telling.text,
                action=telling.action,
                warning=telling.warning,
                serial=serial,
                time=now,
            )
            answer = sender.send("event", requests.event(note, controller=self._controller, instance=self._instance))
            # Forbidden is lost, for a right that is missing or a quota that is full, unless the namespace is to end.
            if answer is not None and (answer.status in _DONE or namespace_ends(answer)):
                self.told += 1
            else:
                self._lost(telling, answer.status if answer else 0)
