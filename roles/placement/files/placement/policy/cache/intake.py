# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""News that may have to wait: what is known must be true before anything is decided, what is new can have its turn.

Thousands of pods or groups that come at once would hold everything else up if they were all taken in first.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

# What is taken in at once, at the beginning of a slice.
_AT_ONCE: Final = 128


class Intake:
    """Objects of one kind by UID."""

    def __init__(self, *, is_new: Callable[[str], bool], take_in: Callable[[str], None]) -> None:
        self._is_new = is_new
        self._take_in = take_in
        self._waiting: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def notice(self, uids: Iterable[str]) -> Iterator[None]:
        """These have changed: takes in what is known; between two answers others may have a turn."""
        for count, uid in enumerate(uids):
            if self._is_new(uid):
                self._waiting[uid] = None
            else:
                self._waiting.pop(uid, None)
                self._take_in(uid)
            if count % _AT_ONCE == _AT_ONCE - 1:
                yield

    def take_some_in(self) -> None:
        """Takes in some of what is new, in the order in which it came."""
        for uid in list(islice(self._waiting, _AT_ONCE)):
            del self._waiting[uid]
            self._take_in(uid)
        if not self._waiting:
            # An empty dict keeps the memory of its fullest hour until it is cleared.
            self._waiting.clear()
