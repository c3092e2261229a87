# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop's inbox: bounded, and closed once the loop does not empty it any more.

A thread that brings something waits while it is full. A queue of the standard library would let the thread wait for
ever when the loop has ended, and with it all that join that thread.
"""

import threading
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """Items in the order in which they have come."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: deque[Item] = deque()
        self._closed = False
        lock = threading.Lock()
        self._filled = threading.Condition(lock)
        self._emptied = threading.Condition(lock)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def closed(self) -> bool:
        """Whether nothing is taken any more."""
        return self._closed

    def put(self, item: Item, timeout: float | None = None) -> bool:
        """Add an item; return whether it was taken: not if there was no room for `timeout` seconds, or once it is
        closed.
        """
        with self._emptied:
            self._emptied.wait_for(lambda: self._closed or len(self._items) < self._most, timeout)
            if self._closed or len(self._items) >= self._most:
                return False
            self._items.append(item)
            self._filled.notify()
            return True

    def get(self, timeout: float = 0.0) -> Item | None:
        """Return the first item; None if none comes within `timeout` seconds."""
        with self._filled:
            if timeout and not self._items:
                self._filled.wait_for(lambda: self._items, timeout)
            if not self._items:
                return None
            self._emptied.notify()
            return self._items.popleft()

    def close(self) -> list[Item]:
        """Release threads that wait to bring something, and return the items that will not be taken."""
        with self._emptied:
            self._closed = True
            left = [*self._items]
            self._items.clear()
            self._emptied.notify_all()
            return left
