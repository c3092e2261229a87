# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop: events in, decisions out, a few milliseconds at a time, all in one thread.

Only this thread touches the scheduler, so there are no locks around it; a thread that wants to know something puts a
question between the events. The inbox is bounded: a thread that brings events faster than they are taken in has to
wait.

While something is under way that has to be one piece, it is brought to its end, slice by slice. Until then events and
questions stay where they are, in the inbox.
"""

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Protocol, TypeVar

from placement.app.loop.inbox import Inbox
from placement.app.telemetry.metrics import Metrics
from placement.core.scheduler import Scheduler
from placement.model.messages.action import Action, Bind, Evict, PodCondition
from placement.model.messages.event import Event
from placement.model.slicing import Steps

Answer = TypeVar("Answer")

_BATCHES: Final = 256
_IDLE_SECONDS: Final = 0.5
# With many bindings under way there is no hurry to decide more, and what is decided late is decided better.
_CROWDED_SECONDS: Final = 0.002
_PER_BINDER: Final = 8
_ASK_SECONDS: Final = 10.0
# The wall clock is read so often: it may be set, or the machine may have slept.
_WALL_SECONDS: Final = 30.0
_HELD_UP_SECONDS: Final = 0.1
_ENDED: Final = "the daemon is about to end; try again"


class Carrying(Protocol):
    """What the loop needs of the carrier."""

    @property
    def binding(self) -> int:
        """Bindings that have not been answered."""

    def carry(self, actions: tuple[Action, ...]) -> None:
        """Begins to carry them out."""


class Unanswered(Exception):
    """The loop did not answer in time."""


class _Question:
    """Something asked, its answer to be waited for."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask
        self.done = threading.Event()
        self.error: Exception | None = None

    def __call__(self) -> None:
        try:
            self._ask()
        except Exception as error:  # noqa: BLE001 -- whoever asked gets it
            self.error = error
        self.done.set()

    def fail(self, error: Exception) -> None:
        """Fail the question: the loop will not answer it."""
        self.error = error
        self.done.set()


class Loop:
    """The inbox and the thread that empties it."""

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        carrier: Carrying,
        metrics: Metrics,
        may_decide: Callable[[], bool],
        decided: Callable[[tuple[Action, ...]], None],
        binders: int,
        slice_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.scheduler = scheduler
        self.slice_seconds = slice_seconds
        self._carrier = carrier
        self._metrics = metrics
        self._may_decide = may_decide
        self._decided = decided
        self._crowd = binders * _PER_BINDER
        self._clock = clock
        self._wall = wall
        self._wall_read_at = float("-inf")
        self._inbox: Inbox[tuple[float, list[Event]] | Callable[[], None] | _Question] = Inbox(_BATCHES)
        # What is left of the batch that is being taken in, and when it came.
        self._left: Iterator[Event] | None = None
        self._came = 0.0
        # How many items have been taken out of the inbox, and how many there were before deciding may begin.
        self._taken = 0
        self._begins_after: int | None = None
        self._more = False
        self._decided_at = float("-inf")
        self.beat = clock()

    def put(self, events: list[Event]) -> None:
        """Put events in their order; wait while the inbox is full. They are dropped once the loop has ended."""
        self._inbox.put((self._clock(), events))

    def put_call(self, call: Callable[[], None], timeout: float | None = None) -> bool:
        """Has something done between two events; says whether it will be: the loop may have ended, or have no room."""
        return self._inbox.put(call, timeout)

    def waiting(self) -> int:
        """Batches that have not been taken in, or not whole."""
        return len(self._inbox) + (self._left is not None)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to take in, to decide or to bind."""
        return not (self._more or self.waiting() or self._carrier.binding)

    def ask(self, question: Callable[[], Answer], timeout: float = _ASK_SECONDS) -> Answer:
        """Asks between two events, from another thread; what the question raises is raised here."""
        answers: list[Answer] = []
        asked = _Question(lambda: answers.append(question()))
        if not self._inbox.put(asked, timeout):
            raise Unanswered(_ENDED if self._inbox.closed else "the daemon is too busy to answer; try again")
        if not asked.done.wait(timeout):
            raise Unanswered("the daemon did not answer in time; try again")
        if asked.error is not None:
            raise asked.error
        return answers[0]

    def ask_in_steps(self, steps: Steps[Answer], timeout: float = _ASK_SECONDS) -> Answer:
        """Asks something long, step by step, so that events have their turns in between."""
        while True:
            try:
                self.ask(partial(next, steps), timeout)
            except StopIteration as ended:
                answer: Answer = ended.value
                return answer

    def run(self, stop: threading.Event) -> None:
        """Run until everything stops; then no thread waits for it any more."""
        try:
            self._turn(stop)
        finally:
            for item in self._inbox.close():
                if isinstance(item, _Question):
                    item.fail(Unanswered(_ENDED))

    def _turn(self, stop: threading.Event) -> None:
        self._begins_after = None
        while not stop.is_set():
            self.beat = self._clock()
            crowded = self._carrier.binding > self._crowd
            under_way = self.scheduler.under_way
            if not under_way:
                self._read_wall_clock()
            took = not under_way and self._take_in(self._pause(crowded))
            if not self._has_begun():
                self._more = self.scheduler.follow()
                continue
            if crowded and not under_way:
                continue
            # Policies look at the clock too, so they are asked now and then without any event.
            if took or self._more or self._clock() - self._decided_at >= _IDLE_SECONDS:
                self._decide(hurry=crowded or self.waiting() > 0)

    def _read_wall_clock(self) -> None:
        """Tell the scheduler now and then how the times of the API compare with monotonic time."""
        now = self._clock()
        if now - self._wall_read_at < _WALL_SECONDS:
            return
        epoch = self._wall() - now
        # Where the thread was held up between the two clocks, their difference says nothing: they are read again.
        if self._clock() - now < _HELD_UP_SECONDS:
            self._wall_read_at = now
            self.scheduler.set_epoch(epoch)

    def _has_begun(self) -> bool:
        """Whether to decide: what had come when that was first allowed, a whole list perhaps, has been taken in.

        What comes later is not waited for: under load the inbox may never be empty.
        """
        if not self._may_decide():
            self._begins_after = None
            return False
        if self._begins_after is None:
            self._begins_after = self._taken + len(self._inbox)
        return self._taken > self._begins_after or (self._taken == self._begins_after and self._left is None)

    def _pause(self, crowded: bool) -> float:
        if self._left is not None:
            return 0.0
        if self._more:
            return _CROWDED_SECONDS if crowded else 0.0
        return _IDLE_SECONDS

    def _take_in(self, pause: float) -> bool:
        """Apply events for one slice at most, waiting up to `pause` seconds for the first; return whether any came."""
        if self._left is None and not self._next(pause):
            return False
        until = self._clock() + self.slice_seconds
        number = 0
        while True:
            for event in self._left or ():
                self.scheduler.apply(event)
                number += 1
                if self._clock() >= until:
                    break
            else:
                if self._left is not None:
                    self._metrics.lag.observe(self._clock() - self._came)
                self._left = None
            if self._clock() >= until or (self._left is None and not self._next(0.0)):
                break
        self._metrics.applied.inc(number)
        return True

    def _next(self, pause: float) -> bool:
        """Begins the next batch, or answers the next question; says whether there was one."""
        item = self._inbox.get(pause)
        if item is None:
            return False
        self._taken += 1
        if isinstance(item, tuple):
            self._came, events = item
            self._left = iter(events)
        else:
            item()
        return True

    def _decide(self, *, hurry: bool) -> None:
        begun = self._clock()
        until = begun + self.slice_seconds
        decision = self.scheduler.decide(begun, lambda: self._clock() >= until, hurry=hurry)
        spent = self._clock() - begun
        self._decided_at = begun
        self._more = decision.more
        self._metrics.cycle.observe(spent)
        if not decision.actions:
            return
        self._count(decision.actions)
        self._decided(decision.actions)
        self._carrier.carry(decision.actions)

    def _count(self, actions: tuple[Action, ...]) -> None:
        metrics, pods = self._metrics, self.scheduler.cluster.pods.by_uid
        binds = [action.uid for action in actions if isinstance(action, Bind)]
        conditions = [action for action in actions if isinstance(action, PodCondition)]
        if binds:
            metrics.bound([pods[uid].pod.created for uid in binds if uid in pods])
        if conditions:
            metrics.attempts.labels("unschedulable").inc(len(conditions))
        served = sum(bool(action.nominated_node) for action in conditions)
        if served:
            metrics.preemptions += served
        metrics.evicted([action.reason for action in actions if isinstance(action, Evict)])
