# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many pods a second get their node through a real API server: the bare loop, our daemon and kube-scheduler.

Every contestant finds the same pods waiting on the same nodes. The clock is the API server's audit log: from the first
Binding received to the last one answered; the last Event is reported beside it. Runs are interleaved, so that what
disturbs the machine disturbs all; figures are medians with their spread, and ratios of medians.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from bench._figures import count, load_average, parser_of, part
from bench._placement_cases import CASES, Case
from bench._placement_cluster import PODS, Cluster, Follower, field, keep, options
from bench._placement_contestants import Contestant

BOUND_SECONDS: Final = 900.0
QUIET_SECONDS: Final = 30.0
# Of a quick look: so many pods are bound by kube-scheduler in the time there is, and Events are not waited for so long.
QUICK_SHARE: Final = 0.2
QUICK_QUIET_SECONDS: Final = 5.0
# What the daemon is to reach of the bare loop, and times kube-scheduler, by the case's name up to its first dash.
MARKS_OF_BARE: Final = {"plain": 0.8}
MARK_OF_BARE: Final = 0.7
MARKS_OF_KUBE: Final = {"plain": 3.0, "gangs": 4.0}


@dataclass(frozen=True, slots=True)
class Result:
    """One run."""

    case: str
    contestant: str
    pods: int
    rate: float
    # Seconds from the last Binding to the last Event, and Events that came.
    event_lag: float
    events: int
    cpu_seconds: float
    peak_mib: float


def run(cluster: Cluster, name: str, case: Case, contestant: Contestant, *, quiet: float) -> Result:
    """One run: the pods wait, the contestant comes, binds, and goes."""
    pods = [case.pod(index, contestant.scheduler_name) for index in range(case.pods)]
    cluster.create_all(pods, [*case.groups()])
    follower = cluster.follow()
    with contestant.running(**case.settings()) as running:
        follow(follower, case.pods, running.ended, quiet=quiet)
        usage = running.usage()
    if case.racks and contestant.name == "placement":
        scattered = case.scattered(cluster.api.items(PODS), cluster.racks())
        if scattered:
            raise SystemExit(f"{name}: {len(scattered)} gangs are not in one rack, such as {scattered[0]}")
    cluster.clear()
    binds, events = follower.binds, follower.events
    first, last = min(bind.received for bind in binds), max(bind.answered for bind in binds)
    lag = (max(event.answered for event in events) - last).total_seconds() if events else float("nan")
    rate = len(binds) / (last - first).total_seconds()
    return Result(name, contestant.name, case.pods, rate, lag, len(events), usage.cpu_seconds, usage.peak_mib)


def follow(follower: Follower, pods: int, ended: Callable[[], bool], *, quiet: float) -> None:
    """Until every pod is bound and has its Event, or nothing more comes."""
    begun = heard = time.monotonic()
    while len(follower.binds) < pods or len(follower.events) < pods:
        time.sleep(0.5)
        now = time.monotonic()
        if follower.read():
            heard = now
        if now - heard <= quiet:
            continue
        if len(follower.binds) >= pods:
            return
        if now - heard > QUIET_SECONDS and (now - begun > BOUND_SECONDS or ended()):
            raise SystemExit(f"{len(follower.binds)} of {pods} pods bound after {now - begun:.0f} s")


def medians_of(results: Sequence[Result]) -> dict[str, float]:
    """Median rates of one case by contestant."""
    return {
        name: statistics.median(result.rate for result in results if result.contestant == name)
        for name in dict.fromkeys(result.contestant for result in results)
    }


def missed(results: Sequence[Result]) -> list[str]:
    """The marks that the daemon does not reach, one sentence each."""
    found = []
    for case in dict.fromkeys(result.case for result in results):
        medians, kind = medians_of([result for result in results if result.case == case]), case.partition("-")[0]
        marks = {"bare": MARKS_OF_BARE.get(kind, MARK_OF_BARE), "kube-scheduler": MARKS_OF_KUBE.get(kind, 0.0)}
        for other, mark in marks.items():
            if {"placement", other} <= medians.keys() and medians["placement"] < mark * medians[other]:
                found.append(f"{case}: {medians['placement'] / medians[other]:.2f} of {other}, asked {mark:g}")
    return found


def table(results: Sequence[Result]) -> str:
    """Medians, spreads and ratios, one line for each case and contestant."""
    head = ("case", "contestant", "pods", "pods/s (spread)", "of bare", "x kube-scheduler", "Events", "CPU s", "MiB")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for case in dict.fromkeys(result.case for result in results):
        of_case = [result for result in results if result.case == case]
        medians = medians_of(of_case)
        for name, median in medians.items():
            own = [result for result in of_case if result.contestant == name]
            rates = [result.rate for result in own]
            bare = f"{median / medians['bare']:.0%}" if "bare" in medians else "-"
            kube = f"{median / medians['kube-scheduler']:.1f}" if "kube-scheduler" in medians else "-"
            lag, cpu, peak = (
                statistics.median(getattr(result, key) for result in own)
                for key in ("event_lag", "cpu_seconds", "peak_mib")
            )
            reached = f"{median:.0f} ({min(rates):.0f}-{max(rates):.0f})"
            cells = (case, name, str(own[0].pods), reached, bare, kube, f"+{lag:.1f} s", f"{cpu:.1f}", f"{peak:.0f}")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """All runs, then the table."""
    parser = parser_of(
        __doc__,
        "--quick   # all cases once with fewer pods: minutes, and rough figures",
        "--case plain --repeats 3 --json /tmp/plain.json",
        "--case racks-750-of-4 --case racks-3-of-1000   # each gang in one of 50 racks",
        "--bed mine --share 0.2 --repeats 1",
    )
    options(parser)
    parser.add_argument("--case", action="append", choices=list(CASES), help="may be repeated (default: all)")
    parser.add_argument("--repeats", type=count, metavar="N", help="runs of each (default: 5; quick: 1)")
    parser.add_argument("--share", type=part, metavar="X", help="share of each case's pods (default: 1; quick: 0.2)")
    parser.add_argument("--quick", action="store_true", help="once each, with fewer pods")
    given = parser.parse_args()
    share = given.share or (QUICK_SHARE if given.quick else 1.0)
    repeats = given.repeats or (1 if given.quick else 5)
    quiet = QUICK_QUIET_SECONDS if given.quick else QUIET_SECONDS
    results: list[Result] = []
    begun = time.monotonic()
    with field(given) as ground:
        try:
            for name in given.case or CASES:
                case = CASES[name](share)
                for _unused in range(repeats):
                    for contestant in ground.contestants:
                        if case.racks and contestant.name == "kube-scheduler":
                            continue
                        results.append(run(ground.cluster, name, case, contestant, quiet=quiet))
                        done = f"  {name}: {contestant.name}: {results[-1].rate:.0f} pods/s"
                        print(done, file=sys.stderr, flush=True)
        finally:  # also what was measured before an end by force
            keep(given, [asdict(result) for result in results])
            took = f"{time.monotonic() - begun:.0f} s, {load_average()}"
            print(f"{len(ground.nodes)} nodes, {repeats} runs of each in {took}\n\n{table(results)}", flush=True)
    late = missed(results)
    if late:
        print(f"missed: {'; '.join(late)}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
