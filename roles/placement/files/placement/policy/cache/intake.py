# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes that may have to wait: known objects are taken in at once, new ones some in each slice.

What is known must be true before anything is decided. Thousands of new pods or groups would delay everything else if
all of them were taken in first.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from placement.model.slicing import Steps, paced

# Objects that are taken in in one step, and new ones in one slice.
_AT_ONCE: Final = 128


class Intake:
    """Take in changed objects of one kind, by UID."""

    def __init__(self, *, is_new: Callable[[str], bool], take_in: Callable[[str], None]) -> None:
        self._is_new = is_new
        self._take_in = take_in
        self._waiting: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def notice(self, uids: Iterable[str]) -> Steps[None]:
        """Take in the changed objects that are known, in steps; note the new ones."""
        for uid, pause in paced(uids, _AT_ONCE):
            if self._is_new(uid):
                self._waiting[uid] = None
            else:
                self._waiting.pop(uid, None)
                self._take_in(uid)
            if pause:
                yield

    def take_some_in(self) -> None:
        """Take in some of the new objects, in the order in which they came."""
        for uid in list(islice(self._waiting, _AT_ONCE)):
            del self._waiting[uid]
            self._take_in(uid)
        if not self._waiting:
            # A dict keeps the memory of its greatest size until it is cleared.
            self._waiting.clear()
