# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures for Prometheus: kube-batch's meanings under our prefix, and what our own parts need."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from placement.model.slicing import Steps

PREFIX: Final = "placement_"
Labels = tuple[tuple[str, str], ...]
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
MILLISECONDS: Final = (1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0)
MICROSECONDS: Final = (5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0, 50000.0, 250000.0)
# Of pods since their creation, which the API stamps in whole seconds.
_AGES: Final = tuple(seconds * 1e6 for seconds in (0.5, 1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 6 * 3600, 24 * 3600))
# Why pods are asked to leave for others.
_FOR_OTHERS: Final = frozenset({"Preempted", "Reclaimed"})


# Read by a scrape: each value by its labels.
Read = Callable[[], dict[Labels, float]]


class Metrics:
    """All of the daemon's numbers."""

    def __init__(self) -> None:
        # Without this each counter has a second line, with the time when it began.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._asked: list[Callable[[], Metric]] = []
        self._registry.register(self)
        # kube-batch's.
        self.e2e = self._histogram(
            "e2e_scheduling_latency_milliseconds", "A cycle, from its first slice to the end of its last", MILLISECONDS
        )
        self.action = self._histogram(
            "action_scheduling_latency_microseconds",
            "An action in a cycle, from its beginning to its end",
            MICROSECONDS,
            "action",
        )
        self.task = self._histogram(
            "task_scheduling_latency_microseconds", "From the creation of a pod to the choice of its node", _AGES
        )
        self.attempts = self._counter("schedule_attempts_total", "Decisions about pods by result", "result")
        self.victims = Gauge(
            f"{PREFIX}pod_preemption_victims",
            "Pods asked to leave for others when last any were",
            registry=self._registry,
        )
        self.preemptions = 0
        self._asked.append(self._preemptions)
        # Ours.
        self.evictions = self._counter("evictions_total", "Pods asked to leave, by reason", "reason")
        self.cycle = self._histogram("cycle_seconds", "How long a slice took", SECONDS)
        self.lag = self._histogram("watch_lag_seconds", "From the arrival of news to its being taken in", SECONDS)
        self.applied = self._counter("events_total", "Events taken in")
        self.api = self._histogram(
            "api_latency_seconds", "Answers of the API by kind of request and status", SECONDS, "request", "status"
        )
        self.refused = self._counter(
            "api_refusals_total", "Writes that the API refused, by kind and status", "action", "status"
        )
        self.collections = self._histogram("gc_pause_seconds", "Pauses of Python's garbage collection", SECONDS)
        self.reloads = self._counter("settings_reloads_total", "Reloads of the settings by result", "result")
        self.journal_lost = self._counter("journal_lost_lines_total", "Decisions that the journal could not take")
        self.events_shed = self._counter(
            "shed_events_total", "Events that were never told for want of room, by type and reason", "type", "reason"
        )

    def timed(self, action: str, steps: Steps[None]) -> Steps[None]:
        """Run the steps of an action, or of a whole cycle where none is named, and note their time."""
        begun = time.monotonic()
        yield from steps
        spent = time.monotonic() - begun
        if action:
            self.action.labels(action).observe(spent * 1e6)
        else:
            self.e2e.observe(spent * 1e3)

    def bound(self, created: Sequence[str]) -> None:
        """Count pods that got nodes, by when each was created."""
        self.attempts.labels("scheduled").inc(len(created))
        now = time.time()
        for stamp in filter(None, created):
            # Its clock is the API server's.
            self.task.observe(max(0.0, now - datetime.fromisoformat(stamp).timestamp()) * 1e6)

    def evicted(self, reasons: Sequence[str]) -> None:
        """Count pods that were asked to leave, by reason."""
        for reason in reasons:
            self.evictions.labels(reason).inc()
        if victims := sum(reason in _FOR_OTHERS for reason in reasons):
            self.victims.set(victims)

    def gauge(self, name: str, text: str, read: Read) -> None:
        """Add a figure that each scrape asks for."""
        self._asked.append(lambda: _family(GaugeMetricFamily, name, text, read()))

    def count(self, name: str, text: str, read: Read) -> None:
        """Add a figure that each scrape asks for and that only grows."""
        self._asked.append(lambda: _family(CounterMetricFamily, name, text, read()))

    def collect(self) -> Iterator[Metric]:
        """Ask for what is not counted here; a scrape calls this."""
        return (ask() for ask in self._asked)

    def text(self) -> str:
        """Return everything in Prometheus' text format."""
        return prometheus_client.generate_latest(self._registry).decode()

    def _preemptions(self) -> Metric:
        # The client would add `_total` to a counter's name, and this one is kube-batch's.
        metric = Metric(f"{PREFIX}total_preemption_attempts", "Pods that room was made for", "unknown")
        metric.add_sample(metric.name, {}, self.preemptions)
        return metric

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(PREFIX + name, text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, bounds: Sequence[float], *labels: str) -> Histogram:
        return Histogram(PREFIX + name, text, labels, registry=self._registry, buckets=bounds)


def _family(
    kind: type[GaugeMetricFamily | CounterMetricFamily], name: str, text: str, values: dict[Labels, float]
) -> Metric:
    names = [name for name, _value in next(iter(values), ())]
    metric = kind(PREFIX + name, text, labels=names)
    for labels, value in values.items():
        metric.add_metric([value for _name, value in labels], value)
    return metric
