# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a pod waits for its node where pods of several kinds come and go at a steady rate.

From just before the pod is created to the answer to its Binding, by the machine's clock. Each pod is deleted some
seconds after it was created. For the daemon the longest slice and the longest pause of its garbage collection are read
from its metrics, and how many Events it has not told when the last pod has been created, and shed so far. The memory is
that after each tenth of the time. With `--latency` each request of the daemon reaches the API server so much later;
that is for the daemon alone. Exits with 1 when a mark is missed.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from threading import local
from typing import Final

from bench._figures import count, load_average, parser_of, pause, table
from bench._placement_cases import CASES, MIXED
from bench._placement_cluster import PODS, Cluster, field, keep, options
from bench._placement_contestants import Contestant, Running
from testbed.kube_api import Api

CREATORS: Final = 16
LIVES_SECONDS: Final = 10.0
LATE_SECONDS: Final = 60.0
MARK_SECONDS: Final = 0.5
MARK_PAUSE_SECONDS: Final = 0.05
# Runs of this length have marks for what is left over at their end, and for memory.
LONG_SECONDS: Final = 600
MARK_MEMORY: Final = 1.05
TENTHS: Final = 10
HEAD: Final = (
    "contestant",
    "offered",
    "not bound",
    "median",
    "99 %",
    "longest",
    "longest slice",
    "longest GC pause",
    "99 % of the last tenth",
    "Events not told; shed",
    "memory after each tenth",
)


@dataclass(frozen=True, slots=True)
class Result:
    """One run; pauses are upper bounds, infinite where they are not known."""

    contestant: str
    offered: int
    waits: list[float]
    slice_below: float
    pause_below: float
    # Waits of the pods that were created in the last tenth of the time.
    last_waits: list[float]
    # Events of the daemon when the last pod has been created.
    untold: int
    shed: int
    # MiB after each tenth of the time.
    resident: list[float]

    @property
    def late(self) -> float:
        """What 99 of 100 pods do not exceed."""
        return late(self.waits)


class Offering:
    """Creates pods at a rate, and deletes each when it has lived."""

    def __init__(self, cluster: Cluster, scheduler: str) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._cases = [CASES[name](1.0) for name in MIXED]
        self._mine = local()
        self.begun: dict[str, datetime] = {}

    def run(self, rate: int, seconds: int, each_second: Callable[[int], None]) -> None:
        """Keeps to the rate whatever the API takes, as long as there are connections."""
        number, lives = rate * seconds, int(rate * LIVES_SECONDS)
        start = time.monotonic()
        with ThreadPoolExecutor(CREATORS) as pool:
            for index in range(number):
                time.sleep(max(0.0, start + index / rate - time.monotonic()))
                work = [pool.submit(self._create, index)]
                if index >= lives:
                    work.append(pool.submit(self._delete, index - lives))
                if index % rate == 0:
                    each_second(index // rate)
        for done in work:
            done.result()

    def _api(self) -> Api:
        if not hasattr(self._mine, "api"):
            self._mine.api = self._cluster.connect()
        found: Api = self._mine.api
        return found

    def _create(self, index: int) -> None:
        pod = self._cases[index % len(self._cases)].pod(index, self._scheduler)
        self.begun[pod["metadata"]["name"]] = datetime.now(UTC)
        self._cluster.create(self._api(), pod)

    def _delete(self, index: int) -> None:
        self._api().send("DELETE", f"{PODS}/pod-{index}", b'{"gracePeriodSeconds": 0}')


def run(cluster: Cluster, contestant: Contestant, *, rate: int, seconds: int) -> Result:
    """One run: the contestant has bound a first pod, then the others come."""
    follower = cluster.follow()
    with contestant.running() as running:
        cluster.create(cluster.api, {**CASES["plain"](1.0).pod(rate * seconds, contestant.scheduler_name)})
        deadline = time.monotonic() + LATE_SECONDS
        while not follower.binds and time.monotonic() < deadline:
            time.sleep(0.2)
            follower.read()
        offering, memory = Offering(cluster, contestant.scheduler_name), list[float]()

        def each_second(second: int) -> None:
            # The log of a long run is more than one would read at once, and the API server turns it over.
            follower.read()
            if second and second % (seconds / TENTHS) < 1:
                memory.append(running.usage().resident_mib)

        offering.run(rate, seconds, each_second)
        memory.append(running.usage().resident_mib)
        untold, shed = int(total(running, "events_to_tell")), int(total(running, "shed_events_total"))
        deadline = time.monotonic() + LATE_SECONDS
        while len(follower.binds) <= rate * seconds and time.monotonic() < deadline and not running.ended():
            time.sleep(0.2)
            follower.read()
        slices, pauses = longest(running, "cycle_seconds"), longest(running, "gc_pause_seconds")
    cluster.clear()
    bound = {event.name: event.answered for event in follower.binds}
    waits = {name: (bound[name] - begun).total_seconds() for name, begun in offering.begun.items() if name in bound}
    ended = max(offering.begun.values()) - timedelta(seconds=seconds / 10)
    last = [wait for name, wait in waits.items() if offering.begun[name] >= ended]
    figures = (slices, pauses, last, untold, shed, memory)
    return Result(contestant.name, rate * seconds, list(waits.values()), *figures)


def late(waits: Sequence[float]) -> float:
    """What 99 of 100 do not exceed."""
    return statistics.quantiles(waits, n=100)[98] if len(waits) > 1 else float("inf")


def total(running: Running, name: str) -> float:
    """The sum of a metric of the daemon over its labels; 0 for a contestant without metrics."""
    lines = [line for line in running.metrics().splitlines() if line.startswith(f"placement_{name}")]
    return sum(float(line.split()[-1]) for line in lines)


def longest(running: Running, name: str) -> float:
    """The bound of the last bucket that anything fell into; also what happened while everything was listed."""
    buckets = [line for line in running.metrics().splitlines() if line.startswith(f"placement_{name}_bucket")]
    counts = [(line.split('le="')[1].split('"')[0], float(line.split()[-1])) for line in buckets]
    return next((float(bound) for bound, count in counts if count == counts[-1][1]), float("inf"))


def row(result: Result) -> Sequence[str]:
    """As a line of the table."""
    figures = (statistics.median(result.waits), result.late, max(result.waits))
    below = (
        f"< {1000 * bound:g} ms" if bound != float("inf") else "" for bound in (result.slice_below, result.pause_below)
    )
    missing = result.offered - len(result.waits)
    times = (f"{1000 * one:.0f} ms" for one in figures)
    more = (
        f"{1000 * late(result.last_waits):.0f} ms",
        f"{result.untold}; {result.shed}",
        f"{'; '.join(f'{one:.0f}' for one in result.resident)} MiB",
    )
    return (result.contestant, str(result.offered), str(missing), *times, *below, *more)


def missed(result: Result, rate: int, seconds: int) -> bool:
    """Whether the daemon, which has marks, does not meet one."""
    pauses = max(result.slice_below, result.pause_below)
    worse = result.late > MARK_SECONDS or pauses > MARK_PAUSE_SECONDS or len(result.waits) < result.offered
    if seconds >= LONG_SECONDS:
        left_over = late(result.last_waits) > MARK_SECONDS or result.untold > rate
        # What it keeps of deleted pods and of its own heap has its size by half time.
        half = result.resident[len(result.resident) // 2 - 1]
        worse = worse or left_over or result.resident[-1] > MARK_MEMORY * half
    return result.contestant == "placement" and worse


def main() -> int:
    """The command line."""
    parser = parser_of(
        __doc__, "--rate 200 --seconds 120 --contestant placement", "--rate 150 --seconds 3600 --latency 50"
    )
    options(parser)
    parser.add_argument("--rate", type=count, default=100, help="pods a second (default: 100)")
    parser.add_argument("--seconds", type=count, default=60, help="for so long (default: 60)")
    parser.add_argument(
        "--latency", type=pause, default=0.0, metavar="MS", help="milliseconds by which requests are late (default: 0)"
    )
    given = parser.parse_args()
    if given.latency:
        given.contestant = ["placement"]
    with field(given, latency=given.latency / 1000) as ground:
        results = [run(ground.cluster, one, rate=given.rate, seconds=given.seconds) for one in ground.contestants]
        nodes = len(ground.nodes)
    keep(given, [asdict(result) for result in results])
    later = f", requests {given.latency:g} ms late" if given.latency else ""
    print(f"{nodes} nodes, {given.rate} pods/s for {given.seconds} s{later}, {load_average()}\n")
    print(table(HEAD, [row(result) for result in results]))
    return int(any(missed(result, given.rate, given.seconds) for result in results))


if __name__ == "__main__":
    sys.exit(main())
