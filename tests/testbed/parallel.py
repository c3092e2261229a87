# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several things at a time, but not all: a bed has many containers and the machine may have two cores."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from testbed.run import kill_running

AT_ONCE = 4
ASK_SECONDS = 0.1


def in_parallel(work: Sequence[Callable[[], None]]) -> None:
    """Run everything, a few at a time; the first failure is raised when all that began has ended."""
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        pending = [pool.submit(one) for one in work]
        try:
            for one in pending:
                one.result()
        finally:
            pool.shutdown(cancel_futures=True)


def side_by_side(work: Sequence[Callable[[], None]]) -> None:
    """Run long work all at once; with a failure, or an interrupt, the programs of all of it are ended."""
    name = f"side-by-side-{id(work)}"
    with ThreadPoolExecutor(max_workers=max(len(work), 1), thread_name_prefix=name) as pool:
        try:
            for one in wait([pool.submit(one) for one in work], return_when=FIRST_EXCEPTION).done:
                one.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # An interrupt may come before all work is known here: so its threads are asked.
            while any(thread.name.startswith(f"{name}_") for thread in threading.enumerate()):
                kill_running()
                time.sleep(ASK_SECONDS)
            raise
