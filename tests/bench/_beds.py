# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bed of a benchmark, which never outlives it."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from testbed.api import RunningBed, bring_up, find, take_down
from testbed.errors import BedError
from testbed.state import bed_names


@contextmanager
def own_bed(name: str, *options: str, given: str | None = None) -> Iterator[RunningBed]:
    """A bed made by `testbed up` with these options; one that is `given` is up and stays up."""
    with ending("" if given else name):
        yield find(given) if given else bring_up(name, *options)


@contextmanager
def ending(name: str) -> Iterator[None]:
    """However a benchmark ends, no bed of this name is left; what went wrong in a step is said in a line."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except (AssertionError, BedError) as error:  # steps are those of the tests
        sys.exit(str(error))
    finally:
        if name in bed_names():
            _take_down_whatever_comes(name)


def _take_down_whatever_comes(name: str) -> None:
    """A second signal does not keep the bed."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        take_down(name)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
