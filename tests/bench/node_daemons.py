# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the programs of a shared node take beside a job: memory and processor time of those that run now, from /proc.

Run it on a node, or on a machine with a test bed, whose programs of all hosts it sees. It starts nothing, and waits for
the time in which it counts.
"""

import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from bench import _figures

NAMES = ("kubelet", "containerd", "containerd-shim", "nodeshare-controller", "slurmd")
TICKS = os.sysconf("SC_CLK_TCK")


def running(proc: Path) -> Iterator[tuple[Path, str]]:
    """Each process of these programs."""
    for folder in proc.iterdir():
        if folder.name.isdecimal():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:  # it has ended
                continue
            called = [os.path.basename(word.decode(errors="replace")) for word in words[:3]]
            for name in NAMES:
                if any(word == name or (name == "containerd-shim" and word.startswith(f"{name}-")) for word in called):
                    yield folder, name


def kib(folder: Path) -> int:
    """A process's resident memory in KiB, with all that it has in common: a node has one of each program."""
    lines = (folder / "smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))


def seconds(folder: Path) -> float:
    """The processor time that a process has taken."""
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measured(proc: Path, wait: float) -> dict[str, list[tuple[float, float]]]:
    """MiB and thousandths of a core of each process that was there all the time."""
    begun = {}
    for folder, name in running(proc):
        try:
            begun[folder] = name, seconds(folder), time.monotonic()
        except OSError:
            continue
    time.sleep(wait)
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for folder, (name, before, at) in begun.items():
        try:
            taken = kib(folder) / 1024, 1000 * (seconds(folder) - before) / (time.monotonic() - at)
        except OSError:  # it has ended
            continue
        found[name].append(taken)
    return found


def main() -> int:
    parser = _figures.parser_of(__doc__, "--seconds 300")
    parser.add_argument("--seconds", type=_figures.count, default=60, help="to count for (default: %(default)s)")
    options = parser.parse_args()
    rows = []
    for name, taken in sorted(measured(Path("/proc"), options.seconds).items()):
        memory, cores = zip(*taken, strict=True)
        rows.append(
            [
                name,
                str(len(taken)),
                f"{statistics.median(memory):.0f} MiB ({max(memory):.0f})",
                f"{statistics.median(cores):.0f} m ({max(cores):.0f})",
            ]
        )
    print(f"{options.seconds} s, {_figures.load_average()}; medians, and the highest")
    print(_figures.table(["program", "processes", "memory (Rss)", "of a core"], rows))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
