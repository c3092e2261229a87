# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long Torque's MoM waits for our prologue and epilogue, and how much later a job starts, beside scripts of no use.

The real nodeshare runs on hosts without pods and without Kubernetes. Torque is the real one where it is built
(/opt/torque, or TORQUE_EXEC) and the run is root's, otherwise its double. Both sets of scripts take turns in one run.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
import typing as t
from pathlib import Path

from bench import _figures
from torque_double import double, real
from torque_double.cluster import HOSTS, until
from torque_double.site import Site

# The collection by its name, as tests have it.
sys.path.insert(0, os.environ["ANSIBLE_COLLECTIONS_PATH"].split(":")[0])

from torque.shipped import NAMES, Shipped

NO_OP, OURS = "no-op", "ours"
WAYS = (NO_OP, OURS)
ONE_HOST, TWO_HOSTS = "job's start, one host", "job's start, two hosts"
# What ours may add to a script that does nothing. On two hosts a job waits for one script after the other.
BOUNDS = {**dict.fromkeys((*NAMES, ONE_HOST), 0.150), TWO_HOSTS: 0.300}
# bash tells the time, and that of the processor for all that it has waited for, without starting a program.
TIMED = """\
#!/bin/bash
read -r way < {top}/way
began=$EPOCHREALTIME
{top}/"$way"/{host}/{name} "$@"
code=$?
ended=$EPOCHREALTIME
times > {top}/{host}.{name}.times
{{ read -r _; read -r user system; }} < {top}/{host}.{name}.times
echo "$1 {name} $began $ended $user $system" >> {log}
exit "$code"
"""
# The job's first process.
STARTED = """/bin/bash -c 'echo "$PBS_JOBID started $EPOCHREALTIME $EPOCHREALTIME 0m0.000s 0m0.000s" >> {log}'"""


class Span(t.NamedTuple):
    """What one run of a script took, or a start of a job: seconds by the clock, and of the processor."""

    clock: float
    processor: float = 0.0


Times = dict[str, dict[str, list[Span]]]


class Timed:
    """Both sets of scripts on all hosts, each run of which is written down with its begin and its end."""

    def __init__(self, site: Site, top: Path) -> None:
        """Install ours as the role does, and put what takes the time in their place."""
        self.site, self.way, self.log = site, top / "way", top / "times"
        self.log.touch()
        self.log.chmod(0o666)
        Shipped(site, top, real=True)
        for host in HOSTS:
            for way in WAYS:
                (top / way / host).mkdir(parents=True)
            for name in NAMES:
                self._on(host, f"mv $PBS_HOME/mom_priv/{name} {top / OURS / host / name}")
                _program(top / NO_OP / host / name, _figures.NO_OP)
                timed = top / f"{host}.{name}"
                _program(timed, TIMED.format(top=top, host=host, name=name, log=self.log))
                self._on(host, f"install -m 0755 {timed} $PBS_HOME/mom_priv/{name}")

    def run(self, way: str, hosts: int) -> dict[str, Span]:
        """Run one job; return what each script took, and what `qsub` to the job's first process took."""
        self.way.write_text(f"{way}\n", encoding="ascii")
        asked = time.time()
        job = self.site.submit(STARTED.format(log=self.log), "-l", f"nodes={hosts}:ppn=1")

        def found() -> dict[str, list[str]]:
            """Return two scripts for each host, and the job itself; nothing before all have ended."""
            rows = [line.split() for line in self.log.read_text(encoding="ascii").splitlines()]
            mine = {row[1]: row[2:] for row in rows if row[0] == job}
            return mine if len(mine) == 2 * hosts + 1 else {}

        rows = until(found)
        self.site.until_state(job, "C")
        started = float(rows.pop("started")[0])
        start = ONE_HOST if hosts == 1 else TWO_HOSTS
        return {start: Span(started - asked), **{name: span(words) for name, words in rows.items()}}

    def _on(self, host: str, script: str) -> None:
        done = self.site.on(host, script)
        assert done.rc == 0, done


def span(words: t.Sequence[str]) -> Span:
    """Read begin and end of a script, and the times of the processor as bash writes them: `0m0.060s`."""
    began, ended, *processor = words
    parts = [word.rstrip("s").split("m") for word in processor]
    return Span(float(ended) - float(began), sum(60 * int(minutes) + float(seconds) for minutes, seconds in parts))


def measure(timed: t.Callable[[str, int], t.Mapping[str, Span]], rounds: int) -> Times:
    """Return spans by what was measured and by way; the ways take turns, so that both have the same machine."""
    times: Times = {what: {way: [] for way in WAYS} for what in BOUNDS}
    for _round in range(rounds):
        for hosts in (1, 2):
            for way in WAYS:
                for what, taken in timed(way, hosts).items():
                    times[what][way].append(taken)
    return times


def summary(times: Times) -> tuple[str, list[str]]:
    """Return the table, and what adds more than its mark."""
    rows, late = [], []
    for what, by_way in times.items():
        clocks = {way: [one.clock for one in spans] for way, spans in by_way.items()}
        medians = {way: statistics.median(clock) for way, clock in clocks.items()}
        cells = [cell for way in WAYS for cell in (_ms(medians[way]), _figures.milliseconds(clocks[way]))]
        added = medians[OURS] - medians[NO_OP]
        processor = statistics.median(one.processor for one in by_way[OURS])
        rows.append([what, *cells, _ms(added), _ms(processor) if processor else "", _ms(BOUNDS[what])])
        if added > BOUNDS[what]:
            late.append(what)
    head = ["what", *(cell for way in WAYS for cell in (way, "range")), "added", "of the processor", "asked"]
    return _figures.table(head, rows), late


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms"


def _program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def main() -> None:
    """Print the table; exit with 1 when a mark is missed."""
    parser = _figures.parser_of(__doc__, "--rounds 20   # on the real Torque with TORQUE_EXEC=/opt/torque before it")
    parser.add_argument("--rounds", type=_figures.count, default=10, help="of four jobs each (default: %(default)s)")
    options = parser.parse_args()
    root = real.installation()
    print(f"on {'the double of Torque' if root is None else 'the real Torque'}; {_figures.load_average()}", flush=True)
    with tempfile.TemporaryDirectory(prefix="torque-bench-") as name:
        top = Path(name)
        top.chmod(0o755)
        folder = top / "torque"
        folder.mkdir()
        with double.started(folder) if root is None else real.started(root, folder) as cluster:
            site = Site(cluster)
            site.clear()
            times = measure(Timed(site, top).run, options.rounds)
    table, late = summary(times)
    print(table)
    print(_figures.load_average())
    sys.exit(f"missed: {', '.join(late)}" if late else 0)


if __name__ == "__main__":
    main()
