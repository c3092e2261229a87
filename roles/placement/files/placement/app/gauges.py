# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is so now, for `/metrics`: read from the daemon's parts when somebody asks."""

import os
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from placement.app.assembly import Assembly
from placement.app.loop import Unanswered
from placement.app.metrics import Labels

# Who scrapes gets the other numbers, however busy the loop is.
_ASK_SECONDS: Final = 1.0


def add_gauges(parts: Assembly) -> None:
    """Adds all of them to the daemon's numbers."""
    simple: dict[str, tuple[str, Callable[[], float]]] = {
        "leader": ("Whether we may write", parts.leadership.may_write),
        "inbox_batches": ("Batches of events not taken in", parts.loop.waiting),
        "bindings_under_way": ("Bindings not answered", lambda: parts.carrier.binding),
        "writes_under_way": ("Other writes not answered", lambda: parts.carrier.writing),
        "events_to_tell": ("Events not told yet", lambda: len(parts.announcer)),
        "resident_bytes": ("Memory", _resident),
    }
    for name, (text, read) in simple.items():
        parts.metrics.gauge(name, text, partial(_single, read))
    parts.metrics.gauge("queue_pending_pods", "Pods that wait for a node, by queue", partial(_pending, parts))
    parts.metrics.gauge(
        "watch_silence_seconds",
        "How long ago each source was last heard of",
        lambda: {
            (("source", item.source.name),): time.monotonic() - item.health.heard
            for item in parts.reflectors
            if not item.health.absent
        },
    )
    parts.metrics.gauge(
        "watch_relists",
        "Whole lists since the start",
        lambda: {(("source", item.source.name),): float(item.health.relists) for item in parts.reflectors},
    )


def _single(read: Callable[[], float]) -> dict[Labels, float]:
    return {(): float(read())}


def _pending(parts: Assembly) -> dict[Labels, float]:
    book = parts.loop.scheduler.book

    def count() -> Counter[str]:
        found = Counter(dict.fromkeys(book.tree.by_name, 0))
        for job in book.jobs.values():
            found[job.queue] += job.pending
        return found

    try:
        return {(("queue", name),): float(number) for name, number in parts.loop.ask(count, _ASK_SECONDS).items()}
    except Unanswered:
        return {}


def _resident() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
