# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers for Prometheus, in its text format: kube-batch's meanings under our prefix, and what our own parts need.

Histograms and counters are written by many threads, so each has its lock; reading takes a copy.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import datetime
from typing import Final

PREFIX: Final = "placement_"
Labels = tuple[tuple[str, str], ...]
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
MILLISECONDS: Final = (1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0)
MICROSECONDS: Final = (5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0, 50000.0, 250000.0)
# Of pods since their creation, which the API stamps in whole seconds.
_AGES: Final = tuple(seconds * 1e6 for seconds in (0.5, 1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 6 * 3600, 24 * 3600))
# Why pods are asked to leave for others.
_FOR_OTHERS: Final = frozenset({"Preempted", "Reclaimed"})


class Counter:
    """Counts, by labels."""

    kind: Final = "counter"

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = PREFIX + name, text
        self._lock = threading.Lock()
        self._values: dict[Labels, float] = {}

    def add(self, number: float = 1, **labels: str) -> None:
        """Counts up."""
        key = tuple(labels.items())
        with self._lock:
            self._values[key] = self._values.get(key, 0) + number

    def lines(self) -> Iterator[str]:
        """In Prometheus' words."""
        with self._lock:
            values = dict(self._values)
        for labels, value in values.items():
            yield f"{self.name}{_labels(labels)} {_number(value)}"


class Histogram:
    """How often something took how long, by labels."""

    kind: Final = "histogram"

    def __init__(self, name: str, text: str, bounds: Sequence[float]) -> None:
        self.name, self.text = PREFIX + name, text
        self._bounds = tuple(bounds)
        self._lock = threading.Lock()
        self._values: dict[Labels, tuple[list[int], list[float]]] = {}

    def observe(self, value: float, **labels: str) -> None:
        """Notes one."""
        key = tuple(labels.items())
        place = bisect_left(self._bounds, value)
        with self._lock:
            entry = self._values.get(key)
            if entry is None:
                entry = self._values[key] = ([0] * (len(self._bounds) + 1), [0.0])
            entry[0][place] += 1
            entry[1][0] += value

    def lines(self) -> Iterator[str]:
        """In Prometheus' words: buckets add up."""
        with self._lock:
            values = {labels: (list(counts), sums[0]) for labels, (counts, sums) in self._values.items()}
        for labels, (counts, total) in values.items():
            so_far = 0
            for bound, count in zip((*(f"{bound:g}" for bound in self._bounds), "+Inf"), counts, strict=True):
                so_far += count
                yield f"{self.name}_bucket{_labels((*labels, ('le', bound)))} {so_far}"
            yield f"{self.name}_sum{_labels(labels)} {_number(total)}"
            yield f"{self.name}_count{_labels(labels)} {so_far}"


class Gauge:
    """What is so now; asked for when it is read."""

    kind = "gauge"

    def __init__(self, name: str, text: str, read: Callable[[], dict[Labels, float]]) -> None:
        self.name, self.text = PREFIX + name, text
        self._read = read

    def lines(self) -> Iterator[str]:
        """In Prometheus' words."""
        for labels, value in self._read().items():
            yield f"{self.name}{_labels(labels)} {_number(value)}"


class Count(Gauge):
    """What somebody else counts; asked for when it is read."""

    kind = "counter"


class Metrics:
    """All of the daemon's numbers."""

    def __init__(self) -> None:
        # kube-batch's.
        self.e2e = Histogram(
            "e2e_scheduling_latency_milliseconds", "A cycle, from its first slice to the end of its last", MILLISECONDS
        )
        self.action = Histogram(
            "action_scheduling_latency_microseconds",
            "An action in a cycle, from its beginning to its end",
            MICROSECONDS,
        )
        self.task = Histogram(
            "task_scheduling_latency_microseconds", "From the creation of a pod to the choice of its node", _AGES
        )
        self.attempts = Counter("schedule_attempts_total", "Decisions about pods by result")
        self.victims = 0
        victims = Gauge("pod_preemption_victims", "Pods asked to leave for others when last any were", self._victims)
        self.preemptions = Counter("total_preemption_attempts", "Pods that room was made for")
        # Ours.
        self.evictions = Counter("evictions_total", "Pods asked to leave, by reason")
        self.cycle = Histogram("cycle_seconds", "How long a slice took", SECONDS)
        self.lag = Histogram("watch_lag_seconds", "From the arrival of news to its being taken in", SECONDS)
        self.applied = Counter("events_total", "Events taken in")
        self.api = Histogram("api_latency_seconds", "Answers of the API by kind of request and status", SECONDS)
        self.refused = Counter("api_refusals_total", "Writes that the API refused, by kind and status")
        self.collections = Histogram("gc_pause_seconds", "Pauses of Python's garbage collection", SECONDS)
        self.reloads = Counter("settings_reloads_total", "Reloads of the settings by result")
        self.journal_lost = Counter("journal_lost_lines_total", "Decisions that the journal could not take")
        self.events_shed = Counter(
            "shed_events_total", "Events that were never told for want of room, by type and reason"
        )
        self._all: list[Counter | Histogram | Gauge] = [
            *(self.e2e, self.action, self.task, self.attempts, victims, self.preemptions, self.evictions),
            *(self.cycle, self.lag, self.applied, self.api, self.refused, self.collections, self.reloads),
            *(self.journal_lost, self.events_shed),
        ]

    def timed(self, action: str, steps: Iterator[None]) -> Generator[None, None, None]:
        """The steps of an action, or of a whole cycle where none is named; their time is noted when all are done."""
        begun = time.monotonic()
        yield from steps
        spent = time.monotonic() - begun
        if action:
            self.action.observe(spent * 1e6, action=action)
        else:
            self.e2e.observe(spent * 1e3)

    def bound(self, created: Sequence[str]) -> None:
        """Pods, created then, have got nodes."""
        self.attempts.add(len(created), result="scheduled")
        now = time.time()
        for stamp in filter(None, created):
            # Its clock is the API server's.
            self.task.observe(max(0.0, now - datetime.fromisoformat(stamp).timestamp()) * 1e6)

    def evicted(self, reasons: Sequence[str]) -> None:
        """Pods were asked to leave."""
        for reason in reasons:
            self.evictions.add(reason=reason)
        self.victims = sum(reason in _FOR_OTHERS for reason in reasons) or self.victims

    def _victims(self) -> dict[Labels, float]:
        return {(): float(self.victims)}

    def gauge(self, name: str, text: str, read: Callable[[], dict[Labels, float]]) -> None:
        """Adds one that is asked for."""
        self._all.append(Gauge(name, text, read))

    def count(self, name: str, text: str, read: Callable[[], dict[Labels, float]]) -> None:
        """Adds one that only grows, and is asked for."""
        self._all.append(Count(name, text, read))

    def text(self) -> str:
        """Everything, for Prometheus."""
        lines: list[str] = []
        for metric in self._all:
            lines += (f"# HELP {metric.name} {metric.text}", f"# TYPE {metric.name} {metric.kind}", *metric.lines())
        return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _number(value: float) -> str:
    # As many digits as a float has: counts beyond a million still grow by one.
    return f"{value:.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
