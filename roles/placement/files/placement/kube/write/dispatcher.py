# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries actions to the API over many connections at once, and brings what comes of them back as events.

Bindings go to whichever connection is free: one at a time takes the API server's whole latency, dozens at once use it.
Everything else about one object goes through one connection, in order, so that an older status never overwrites a
newer. A binding of a pod whose condition is still on its way waits behind it.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from placement.kube.write.executor import Executor
from placement.model.messages.action import Action, Bind
from placement.model.messages.event import Event

BINDERS: Final = 48
WRITERS: Final = 8

Work = queue.SimpleQueue[Action | None]


class Dispatcher:
    """Queues and threads."""

    def __init__(
        self,
        make_performer: Callable[[], Executor],
        put: Callable[[list[Event]], None],
        *,
        binders: int = BINDERS,
        writers: int = WRITERS,
        crashed: Callable[[BaseException], None],
    ) -> None:
        self._make_performer = make_performer
        self._put = put
        self._crashed = crashed
        self._binds: Work = queue.SimpleQueue()
        self._writes: tuple[Work, ...] = tuple(queue.SimpleQueue() for _unused in range(writers))
        self._lock = threading.Lock()
        # Ordered writes on their way, by UID.
        self._open: dict[str, int] = {}
        self._binding = 0
        self._threads = [
            *(threading.Thread(target=self._bind_all, name=f"bind-{index}", daemon=True) for index in range(binders)),
            *(
                threading.Thread(target=self._write_all, args=(work,), name=f"write-{index}", daemon=True)
                for index, work in enumerate(self._writes)
            ),
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    @property
    def binding(self) -> int:
        """Bindings that have not been answered."""
        return self._binding

    @property
    def writing(self) -> int:
        """Other writes that have not been answered."""
        return sum(self._open.values())

    def carry(self, actions: Iterable[Action]) -> None:
        """Begins to carry them out."""
        for action in actions:
            with self._lock:
                is_bind = isinstance(action, Bind)
                self._binding += is_bind
                if is_bind and action.uid not in self._open:
                    work = self._binds
                else:
                    self._open[action.uid] = self._open.get(action.uid, 0) + 1
                    work = self._writes[hash(action.uid) % len(self._writes)]
            work.put(action)

    def finish(self, until: float) -> None:
        """End the threads after what is queued, and wait for them until then, in monotonic seconds.

        The right to write is asked for as always.
        """
        for _unused in range(sum(thread.name.startswith("bind") for thread in self._threads)):
            self._binds.put(None)
        for work in self._writes:
            work.put(None)
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _bind_all(self) -> None:
        self._guarded(self._binds, ordered=False)

    def _write_all(self, work: Work) -> None:
        self._guarded(work, ordered=True)

    def _guarded(self, work: Work, *, ordered: bool) -> None:
        """Run the body of a thread. An unexpected error ends the daemon, rather than one connection after another."""
        try:
            performer = self._make_performer()
            while (action := work.get()) is not None:
                events = performer.perform(action)
                if events:
                    self._put(events)
                with self._lock:
                    self._binding -= isinstance(action, Bind)
                    if ordered:
                        left = self._open[action.uid] - 1
                        if left:
                            self._open[action.uid] = left
                        else:
                            del self._open[action.uid]
        except Exception as error:  # noqa: BLE001 -- passed on whole
            self._crashed(error)
