# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts of the bridge for Prometheus, in its text format.

Labels are names of methods and of status codes alone, so their number is bounded. Only the event loop touches them.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, Iterator, Mapping

PREFIX: Final = "cri_bridge_"
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 240.0)


class Metrics:
    """What is counted, by method."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], int] = {}
        self._hits: dict[str, int] = {}
        self._times: dict[str, tuple[list[int], list[float]]] = {}

    def called(self, method: str, code: str, seconds: float) -> None:
        """Count a call that ended with this status code after so long."""
        self._calls[method, code] = self._calls.get((method, code), 0) + 1
        counts, total = self._times.setdefault(method, ([0] * (len(SECONDS) + 1), [0.0]))
        counts[bisect_left(SECONDS, seconds)] += 1
        total[0] += seconds

    def hit(self, method: str) -> None:
        """Count an answer that was given again."""
        self._hits[method] = self._hits.get(method, 0) + 1

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Return all of it, with gauges by name: what each means, and its value."""
        return "\n".join([*self._lines(gauges), ""])

    def _lines(self, gauges: Mapping[str, tuple[str, float]]) -> Iterator[str]:
        yield from _head(
            "calls_total", "counter", "Calls that the bridge got, by the status code that it answered with."
        )
        for (method, code), count in sorted(self._calls.items()):
            yield f'{PREFIX}calls_total{{method="{method}",code="{code}"}} {count}'
        yield from _head("cache_hits_total", "counter", "Calls that were answered without asking the runtime.")
        for method, count in sorted(self._hits.items()):
            yield f'{PREFIX}cache_hits_total{{method="{method}"}} {count}'
        yield from _head("call_seconds", "histogram", "How long calls took, the runtime included.")
        for method, (counts, total) in sorted(self._times.items()):
            so_far = 0
            for bound, count in zip((*(f"{each:g}" for each in SECONDS), "+Inf"), counts):
                so_far += count
                yield f'{PREFIX}call_seconds_bucket{{method="{method}",le="{bound}"}} {so_far}'
            yield f'{PREFIX}call_seconds_sum{{method="{method}"}} {total[0]!r}'
            yield f'{PREFIX}call_seconds_count{{method="{method}"}} {so_far}'
        for name, (meaning, value) in gauges.items():
            yield from _head(name, "gauge", meaning)
            yield f"{PREFIX}{name} {value:g}"


def _head(name: str, kind: str, meaning: str) -> Iterator[str]:
    yield f"# HELP {PREFIX}{name} {meaning}"
    yield f"# TYPE {PREFIX}{name} {kind}"
