# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What it takes to know many pods: time from the start to the first decision, memory at rest and at its peak.

The pods are bound when the contestants start; one waits. Memory is that of the process some seconds after it has bound
that one, and what a pod more costs is the slope between two numbers of pods. Exits with 1 when a mark is missed.
"""

import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from bench._figures import count, load_average, parser_of, pause, table
from bench._placement_cases import CASES
from bench._placement_cluster import Cluster, field, keep, options
from bench._placement_contestants import Contestant

NAMES: Final = ("placement", "kube-scheduler")
BOUND_SECONDS: Final = 300.0
MARK_START_SECONDS: Final = 10.0
MARK_PART: Final = 0.5
MARK_SLOPE_BYTES: Final = 1024.0
HEAD: Final = ("pods known", "contestant", "start to first decision", "memory at rest", "peak", "for each pod more")


@dataclass(frozen=True, slots=True)
class Result:
    """One run."""

    known: int
    contestant: str
    start_seconds: float
    resident_mib: float
    peak_mib: float


def run(cluster: Cluster, known: int, contestant: Contestant, *, rest: float) -> Result:
    """One run: everything is there, the contestant comes, decides about one pod, and rests."""
    name = f"probe-{known}-{contestant.name}"
    pod: dict[str, Any] = CASES["plain"](1.0).pod(0, contestant.scheduler_name)
    cluster.create(cluster.api, {**pod, "metadata": {**pod["metadata"], "name": name}})
    follower = cluster.follow()
    begun = datetime.now(UTC)
    deadline = time.monotonic() + BOUND_SECONDS
    with contestant.running() as running:
        while not follower.binds:
            if time.monotonic() > deadline or running.ended():
                raise SystemExit(f"{contestant.name} does not bind its pod with {known} pods known")
            time.sleep(0.1)
            follower.read()
        time.sleep(rest)
        usage = running.usage()
    start = (follower.binds[0].received - begun).total_seconds()
    return Result(known, contestant.name, start, usage.resident_mib, usage.peak_mib)


def slope(results: list[Result], contestant: str) -> float:
    """Bytes for each pod more, between the fewest and the most."""
    own = sorted((result for result in results if result.contestant == contestant), key=lambda result: result.known)
    more = own[-1].known - own[0].known
    return (own[-1].resident_mib - own[0].resident_mib) * 2**20 / more if more else float("nan")


def missed(results: list[Result]) -> list[str]:
    """Marks that the daemon does not meet."""
    most = {result.contestant: result for result in results}
    ours, other = most.get("placement"), most.get("kube-scheduler")
    if ours is None:
        return []
    found = [f"start: {ours.start_seconds:.1f} s"] if ours.start_seconds > MARK_START_SECONDS else []
    if slope(results, "placement") > MARK_SLOPE_BYTES:
        found.append(f"{slope(results, 'placement'):.0f} bytes for each pod more")
    for figure in ("resident_mib", "peak_mib") if other is not None else ():
        if getattr(ours, figure) > MARK_PART * getattr(other, figure):
            found.append(f"{figure}: {getattr(ours, figure):.0f} against {getattr(other, figure):.0f} MiB")
    return found


def main() -> int:
    """The command line."""
    parser = parser_of(__doc__, "--known 10000 --rest 5")
    options(parser, NAMES)
    parser.add_argument("--known", type=count, nargs="+", default=[10_000, 50_000], help="pods (default: 10000 50000)")
    parser.add_argument("--rest", type=pause, default=10.0, help="seconds before memory is read (default: 10)")
    given = parser.parse_args()
    results: list[Result] = []
    with field(given, NAMES) as ground:
        there = 0
        for known in sorted(given.known):
            like = CASES["plain"](1.0)
            for first in range(there, known, 5000):
                pods = [like.pod(index, "placement") for index in range(first, min(known, first + 5000))]
                for index, pod in enumerate(pods, first):
                    pod["spec"]["nodeName"] = ground.nodes[index % len(ground.nodes)]
                ground.cluster.create_all(pods)
            there = known
            for contestant in ground.contestants:
                results.append(run(ground.cluster, known, contestant, rest=given.rest))
                print(f"  {known}: {contestant.name}: {results[-1].resident_mib:.0f} MiB", file=sys.stderr, flush=True)
        ground.cluster.clear()
        nodes = len(ground.nodes)
    keep(given, [asdict(result) for result in results])
    print(f"{nodes} nodes, {load_average()}\n")
    rows = []
    for one in results:
        memory = (
            f"{one.resident_mib:.0f} MiB",
            f"{one.peak_mib:.0f} MiB",
            f"{slope(results, one.contestant):.0f} bytes",
        )
        rows.append((str(one.known), one.contestant, f"{one.start_seconds:.1f} s", *memory))
    print(table(HEAD, rows))
    for miss in missed(results):
        print(f"missed: {miss}")
    return int(bool(missed(results)))


if __name__ == "__main__":
    sys.exit(main())
