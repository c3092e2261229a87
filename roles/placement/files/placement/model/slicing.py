# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cooperative slicing: how long work gives the loop back. `SlicedWork` explains it."""

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain, cycle, repeat
from typing import Final, Generic, TypeVar

Answer = TypeVar("Answer")
Item = TypeVar("Item")

# Work in steps, as a function that yields between two of them; it returns the answer.
Steps = Generator[None, None, Answer]
# Sets of pods and pods in them that are looked at in about a millisecond.
_ENOUGH: Final = 256


class SlicedWork(Generic[Answer]):
    """Work that several slices bring to its end.

    Why: one thread alone touches the scheduler, so there are no locks. Events and questions wait while it decides, and
    a cycle over 100,000 pods takes seconds. So the loop gives a cycle one slice of time, takes in what has come, and
    then gives it the next slice.

    How long: the setting `slice_milliseconds` (8 ms). A slice ends at the first step after that time, so no step may
    take more than about a millisecond.

    How work gives the loop back: a function that works in steps returns `Steps`, yields between two steps, and calls
    others like it by `yield from`. Loops yield where `paced` or `pauses` say so. Searches, which may be many and short,
    count their work in the one `SliceBudget` of the session.

    What may change at a yield: nothing while the job cache is in a transaction, otherwise everything. It is in one
    within a statement, within a search of one node, and while changes are taken in. A job, task, queue or node that is
    held over a yield may be gone. Look it up again, or compare `session.slice`, which grows whenever changes are taken
    in.

    How work ends early: `close` raises GeneratorExit at the yield, because another daemon decides from then on, or
    other rules hold. Work that has taken something out of a queue, or has begun a statement, puts it back there. What
    must be done as a whole once it has begun, such as the end of a statement, goes `to_the_end`.
    """

    def __init__(self, steps: Steps[Answer]) -> None:
        self._steps = steps

    def advance(self, expired: Callable[[], bool]) -> bool:
        """Do steps until the work is done or the slice has expired; return whether the work is done."""
        # A `for` costs each step less than `next` in a loop.
        for _unused in self._steps:
            if expired():
                break
        else:
            return True
        return False

    def close(self) -> None:
        """Give the work up where it stands."""
        self._steps.close()


class SliceBudget:
    """Count the work that all searches of a session have done since the loop last had control, in pods looked at.

    Each search alone may end before it would look at the clock, and many such searches would add up to a slice without
    an end.
    """

    def __init__(self) -> None:
        self._spent = 0

    def spend(self, amount: int) -> None:
        """Count work that is done or about to be done."""
        self._spent += amount

    def is_due(self) -> bool:
        """Return whether the caller has to yield now; true starts the count again."""
        if self._spent < _ENOUGH:
            return False
        self._spent = 0
        return True


def pauses(at_once: int) -> Iterator[bool]:
    """Return endless answers to whether a step ends here: each time the last of `at_once` is true."""
    return cycle(chain(repeat(False, at_once - 1), (True,)))


def paced(items: Iterable[Item], at_once: int) -> Iterator[tuple[Item, bool]]:
    """Return each item with whether a step of `at_once` items ends with it."""
    return zip(items, pauses(at_once), strict=False)


def to_the_end(steps: Steps[None]) -> Steps[None]:
    """Do steps that must not end in the middle: if the work is closed between two of them, do the rest at once."""
    try:
        for _unused in steps:
            yield
    finally:
        finish(steps)


def finish(steps: Steps[Answer]) -> Answer:
    """Do all steps at once; return the answer."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            answer: Answer = ended.value
            return answer
