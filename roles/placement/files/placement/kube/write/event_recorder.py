# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events for people: they may lag behind under load, and never hold up a decision or a binding.

While bindings wait for their connections Events are held to a trickle, because each costs the API server as much as a
binding. They catch up afterwards. They also catch up when half of the room for them is taken, or when the first has
waited for a minute in which the API took Events at once. After an outage that minute begins again. Warnings go first.

When all the room is taken the oldest Normal Event is shed, `Scheduled` above all; a Warning only where nothing but
Warnings waits. What is shed is counted. So memory is bounded: one Event that waits takes about half a kilobyte, and
never five.
"""

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from placement.kube.transport.status import namespace_ends, not_found
from placement.kube.write import requests
from placement.kube.write.executor import Telling
from placement.kube.write.requests import MAX_NOTE, Note, shortened
from placement.kube.write.retrying_client import RetryingClient

MOST_WAITING: Final = 200_000
# Seconds after which a trickle is too little, because bindings that never pause would hold Events up for ever.
_LATE: Final = 60.0
# Seconds after which an answer comes from a server that was away or overloaded.
_SLOW: Final = 5.0
# 409: a repeated POST had landed already.
_DONE: Final = frozenset({200, 201, 409})


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
        """Take the next place and return the seconds to wait for it."""
        with self._lock:
            now, rate = self._clock(), self._rate()
            self._tokens = min(self._burst, self._tokens + (now - self._then) * rate)
            self._then = now
            self._tokens -= 1
            return 0.0 if self._tokens >= 0 else -self._tokens / rate


@dataclass(frozen=True, slots=True)
class _Waiting:
    telling: Telling
    number: int
    # Seconds since the epoch, and on the monotonic clock.
    time: float
    since: float


class EventRecorder:
    """The queue of what is to be told, and the body of the threads that tell it.

    `lost` hears of an Event that the API did not take, with the status, and `shed` of one that had no room. `clock`
    gives the times that Events have, and `monotonic` says how long they wait.
    """

    def __init__(
        self,
        limiter: Limiter,
        *,
        stop: threading.Event,
        controller: str,
        instance: str,
        lost: Callable[[Telling, int], None],
        shed: Callable[[Telling], None],
        most: int = MOST_WAITING,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limiter = limiter
        self._stop = stop
        self._controller = controller
        self._instance = instance
        self._lost = lost
        self._shed = shed
        self._most = most
        self._clock = clock
        self._monotonic = monotonic
        # When the API last took long to answer.
        self._slow_until = float("-inf")
        self._changed = threading.Condition()
        self._warnings: deque[_Waiting] = deque()
        self._normals: deque[_Waiting] = deque()
        self._finishing = False
        # Names must not clash with those of an earlier run of this instance.
        self._base = time.time_ns()
        self._serial = itertools.count()
        self.told = 0

    def __len__(self) -> int:
        return len(self._warnings) + len(self._normals)

    @property
    def behind(self) -> bool:
        """Return whether a trickle is too little: half of the room is taken, or the first Event has waited for long.

        Time before the last slow answer of the API does not count: a server that comes back is not to be flooded.
        """
        with self._changed:
            first = next(iter(self._normals or self._warnings), None)
        late = first is not None and self._monotonic() - max(first.since, self._slow_until) > _LATE
        return late or len(self) * 2 >= self._most

    def tell(self, telling: Telling) -> None:
        """Note what is to be told, with the time of now; never waits."""
        telling = replace(telling, text=shortened(telling.text, MAX_NOTE))
        waiting = _Waiting(telling, next(self._serial), self._clock(), self._monotonic())
        queue = self._warnings if telling.warning else self._normals
        oldest: _Waiting | None = None
        with self._changed:
            queue.append(waiting)
            if len(self) > self._most:
                oldest = (self._normals or self._warnings).popleft()
            self._changed.notify()
        if oldest is not None:
            self._shed(oldest.telling)

    def finish(self) -> None:
        """End all threads once what waits has been told."""
        with self._changed:
            self._finishing = True
            self._changed.notify_all()

    def _next(self) -> _Waiting | None:
        with self._changed:
            self._changed.wait_for(lambda: self._finishing or len(self))
            return (self._warnings or self._normals).popleft() if len(self) else None

    def run(self, sender: RetryingClient) -> None:
        """Tell, until `finish`, or until everything stops."""
        while not self._stop.is_set() and (waiting := self._next()) is not None:
            delay = self._limiter.delay()
            if delay > 0:
                self._stop.wait(delay)
            telling = waiting.telling
            note = Note(
                subject=telling.subject,
                reason=telling.reason,
                text=telling.text,
                action=telling.action,
                warning=telling.warning,
                serial=f"{self._base + waiting.number:x}",
                time=datetime.fromtimestamp(waiting.time, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            )
            begun = self._monotonic()
            answer = sender.send("event", requests.event(note, controller=self._controller, instance=self._instance))
            ended = self._monotonic()
            if ended - begun > _SLOW:
                self._slow_until = ended
            # Where its namespace is gone or about to end, an Event has no reader any more. Any other refusal is a
            # loss, as for a right that is missing or a quota that is full.
            if answer is not None and (answer.status in _DONE or not_found(answer) or namespace_ends(answer)):
                self.told += 1
            else:
                self._lost(telling, answer.status if answer else 0)
