# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a test bed takes: `make bench`, or `sh tests/bootstrap/enter.sh exec python tests/bench/bed_times.py`.

Every step runs as a person would type it, and the table has the median of some rounds and their range. Images and
Kubernetes programs come from the caches; the first `up` of all fills them and is not counted.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

from bench import _figures
from bench._beds import ending
from testbed.api import bring_up, command_line, find, take_down

NAME = f"bench-{os.getpid()}"
LARGE = 8
LOAD_NODES = 5000
BOUNDS = {
    f"up --nodes {LARGE} --no-kube": 60.0,
    "start of the control plane": 10.0,
    f"load --nodes {LOAD_NODES}": 10.0,
    f"load --nodes {LOAD_NODES} --kind kwok": 10.0,
}

Times = dict[str, list[float]]


def timed(times: Times, what: str, work: Callable[[], object]) -> None:
    """One step of one round."""
    begin = time.monotonic()
    work()
    times.setdefault(what, []).append(time.monotonic() - begin)


def small_bed(times: Times) -> None:
    """Two nodes with Slurm and Kubernetes, and what is done with them."""
    timed(times, "up (2 nodes, Slurm, Kubernetes)", lambda: bring_up(NAME))
    timed(times, "up again, nothing to do", lambda: bring_up(NAME))
    bed = find(NAME)
    timed(times, "srun -N2 hostname", lambda: bed.ssh("ctl", ["srun", "-N2", "hostname"]))
    timed(times, "join of one node", lambda: command_line("join", NAME, "n1", timeout=300))
    for kind in ([], ["--kind", "kwok"]):
        words = ["--nodes", str(LOAD_NODES), *kind]
        timed(times, f"load {' '.join(words)}", partial(command_line, "load", NAME, *words, timeout=300))
        command_line("load", NAME, "--remove", timeout=300)
    timed(times, "down (2 nodes)", lambda: take_down(NAME))


def control_plane(times: Times) -> None:
    """A bed that is nothing but a control plane and a node: what Kubernetes adds to the same bed without it."""
    options = ("--nodes", "1", "--wlm", "none")
    seconds = []
    for more in ([], ["--no-kube"]):
        begin = time.monotonic()
        bring_up(NAME, *options, *more)
        seconds.append(time.monotonic() - begin)
        take_down(NAME)
    times.setdefault("start of the control plane", []).append(seconds[0] - seconds[1])


def large_bed(times: Times) -> None:
    """Eight nodes with Slurm."""
    timed(times, f"up --nodes {LARGE} --no-kube", lambda: bring_up(NAME, "--nodes", str(LARGE), "--no-kube"))
    bed = find(NAME)
    timed(times, f"srun -N{LARGE} hostname", lambda: bed.ssh("ctl", ["srun", f"-N{LARGE}", "hostname"]))
    timed(times, f"down ({LARGE} nodes)", lambda: take_down(NAME))


def table(times: Times) -> str:
    """What goes into the documentation."""
    lines = ["| what | median | range | asked |", "|---|---|---|---|"]
    for what, seconds in times.items():
        asked = f"{BOUNDS[what]:.0f} s" if what in BOUNDS else ""
        spread = f"{min(seconds):.1f} to {max(seconds):.1f}"
        lines.append(f"| `{what}` | {statistics.median(seconds):.1f} s | {spread} | {asked} |")
    return "\n".join(lines)


def main() -> int:
    """Some rounds, a line of progress for each, a table at the end."""
    parser = _figures.parser_of(__doc__, "--rounds 1")
    parser.add_argument("--rounds", type=_figures.count, default=3, help="how often each step is timed (%(default)s)")
    rounds = parser.parse_args().rounds
    times: Times = {}
    with ending(NAME):
        bring_up(NAME)
        take_down(NAME)
        for number in range(rounds):
            for part in (small_bed, control_plane, large_bed):
                part(times)
            print(f"round {number + 1} of {rounds} done", file=sys.stderr, flush=True)
    print(f"load average {os.getloadavg()[0]:.1f}\n\n{table(times)}")
    late = [what for what, bound in BOUNDS.items() if statistics.median(times[what]) > bound]
    for what in late:
        print(f"slower than asked: {what}", file=sys.stderr)
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
