# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Spark's run time alone, with one hand-over, and with one every minute; with decommissioning and without it.

Executors spread over three nodes. Jobs take two of them, one after the other; the third has the driver. The machine's
load moves every time, so each run is compared with the run alone of its own round.
"""

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import _figures
from bench._beds import own_bed
from e2e import spark_site
from e2e.handover.sharing import Sharing
from e2e.playing import until
from e2e.spark_record import Tasks, read_tasks
from e2e.spark_site import Application
from testbed.errors import BedError

DRIVERS, TAKEN = "n3", ("n1", "n2")
JOB_SECONDS = 20
MINUTE = 60.0
FACTOR = 1.3
"""Times the undisturbed run, plus the time that nodes were away: what is asked of a run with decommissioning."""
# Spark refuses dynamic allocation where nothing keeps shuffle files: neither decommissioning nor this.
TRACKING = {"spark.dynamicAllocation.shuffleTracking.enabled": "true"}
WITHOUT = {**dict.fromkeys(spark_site.DECOMMISSIONING, "false"), **TRACKING}
ALONE, ONE, MINUTELY = "alone", "one hand-over", "one every minute"
WAYS = (ALONE, ONE, MINUTELY)
# What `--decommissioning` may say, and which runs that means.
CHOICES = {"both": (True, False), "on": (True,), "off": (False,)}


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the application. `away` is how long nodes were with jobs, all takes added up, in seconds."""

    way: str
    decommissioning: bool
    seconds: float
    takes: int
    away: float
    tasks: Tasks

    @property
    def again(self) -> float:
        """Tasks that were computed again, for each hundred that the application has."""
        return 100 * self.tasks.repeated / (self.tasks.finished - self.tasks.repeated)

    def bound(self, alone: float) -> float:
        """Return the seconds that this run may take at most."""
        return FACTOR * alone + self.away


class Taker(threading.Thread):
    """Takes nodes by batch jobs while an application runs."""

    def __init__(self, site: Sharing, way: str, expected: float) -> None:
        super().__init__(daemon=True)
        self.site, self.way, self.expected = site, way, expected
        self.takes, self.away = 0, 0.0
        self.failed: Exception | None = None
        self.over = threading.Event()

    def run(self) -> None:
        try:
            begun, every = time.monotonic(), MINUTE if self.way == MINUTELY else self.expected / 2
            while not self.over.wait(max(0.0, begun + every * (self.takes + 1) - time.monotonic())):
                self.take(TAKEN[self.takes % len(TAKEN)])
                if self.way == ONE:
                    return
        except (AssertionError, BedError) as error:
            self.failed = error

    def take(self, node: str) -> None:
        """Run one job on a node, and wait until the node is open to pods again."""
        begun = time.monotonic()
        self.site.srun("-N1", "-w", node, "sleep", str(JOB_SECONDS), timeout=300)
        self.site.free()
        self.takes, self.away = self.takes + 1, self.away + time.monotonic() - begun


def play(site: Sharing, way: str, *, decommissioning: bool, tasks: int, seconds: float) -> Run:
    """Run the application once, and the jobs beside it. Raises AssertionError where its result is not right."""
    application = Application(site.bed, tasks=tasks, seconds=seconds, settings={} if decommissioning else WITHOUT)
    application.start()
    try:
        until(lambda: len(application.executors()) == 3, "all executors work")
        taker = Taker(site, way, 2 * tasks * seconds / 3)
        if way != ALONE:
            taker.start()
        log = application.log_at_its_end(limit=1200)
        taker.over.set()
        if way != ALONE:
            taker.join(300)
    finally:
        application.remove()
    assert taker.failed is None, taker.failed
    return Run(way, decommissioning, spark_site.uptime(log), taker.takes, taker.away, read_tasks(log))


def report(rounds: Sequence[Sequence[Run]]) -> tuple[str, bool]:
    """Return the table of medians and ranges, and whether every run with decommissioning took what is asked at most.

    A round has one run of each kind, in the same order. Ratios are to the run alone of the same round.
    """
    rows, kept = [], True
    for same in zip(*rounds, strict=True):
        first = same[0]
        alone = [
            next(run.seconds for run in runs if run.way == ALONE and run.decommissioning == first.decommissioning)
            for runs in rounds
        ]
        ratios = [run.seconds / base for run, base in zip(same, alone, strict=True)]
        asked = ""
        if first.decommissioning and first.way != ALONE:
            shares = [run.seconds / run.bound(base) for run, base in zip(same, alone, strict=True)]
            kept = kept and max(shares) <= 1
            asked = f"{max(shares):.2f}"
        rows.append(
            [
                f"{first.way}, {'with' if first.decommissioning else 'without'}",
                spread([run.seconds for run in same], ".0f", " s"),
                spread(ratios, ".2f"),
                spread([run.takes for run in same], ".0f"),
                spread([run.away for run in same], ".0f", " s"),
                spread([run.tasks.lost for run in same], ".0f"),
                spread([run.again for run in same], ".0f", " %"),
                asked,
            ]
        )
    head = [
        "run, with or without decommissioning",
        "time",
        "ratio",
        "takes",
        "away",
        "tasks lost",
        "computed again",
        "of what is asked, at most",
    ]
    return _figures.table(head, rows), kept


def spread(values: Sequence[float], form: str, unit: str = "") -> str:
    """Return the median with the range behind it, or one value where all look the same."""
    median, least, most = (f"{value:{form}}" for value in (statistics.median(values), min(values), max(values)))
    return f"{median}{unit}" if least == most else f"{median}{unit} ({least} to {most}{unit})"


def main() -> int:
    parser = _figures.parser_of(__doc__, "--rounds 3", "--decommissioning on --tasks 60 --seconds 2", "--bed spark")
    parser.add_argument("--bed", metavar="BED", help="a bed that is up and has been prepared by an earlier run")
    parser.add_argument("--rounds", type=_figures.count, default=1, help="of all runs (default: %(default)s)")
    parser.add_argument("--decommissioning", choices=CHOICES, default="both", help="which runs (default: %(default)s)")
    parser.add_argument(
        "--tasks", type=_figures.count, default=150, help="of each of two stages (default: %(default)s)"
    )
    parser.add_argument("--seconds", type=_figures.pause, default=2.0, help="that a task takes (default: %(default)s)")
    options = parser.parse_args()
    with (
        own_bed("bench-spark", "--nodes", "3", given=options.bed) as bed,
        tempfile.TemporaryDirectory(prefix="bench-spark-") as temporary,
    ):
        folder = Path(temporary)
        site = Sharing(bed, folder)
        if not options.bed:
            spark_site.Scheduler(bed, folder / "scheduler").install()
            site.play("site")
            spark_site.prepare(bed, drivers=DRIVERS)
        rounds: list[list[Run]] = []
        kept = False
        for number in range(options.rounds):
            rounds.append([])
            for decommissioning in CHOICES[options.decommissioning]:
                for way in WAYS:
                    load = _figures.load_average()
                    run = play(site, way, decommissioning=decommissioning, tasks=options.tasks, seconds=options.seconds)
                    with_it = "with" if decommissioning else "without"
                    print(f"  round {number + 1}: {way}, {with_it}: {run.seconds:.0f} s; before it {load}", flush=True)
                    rounds[-1].append(run)
            table, kept = report(rounds)
            about = (
                f"{options.tasks} tasks of {options.seconds:g} s and {options.tasks} of a quarter of it, 3 executors"
            )
            print(f"\n{about}, rounds: {number + 1}; {_figures.load_average()}\n\n{table}\n", flush=True)
        return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
