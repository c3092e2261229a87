# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What benchmarks share: scripts of Slurm that can be swapped between two jobs, and tables with medians and ranges."""

import os
import statistics
from collections.abc import Mapping, Sequence

from testbed.api import RunningBed

FOLDER = "/opt/bench"
OURS = "/etc/converged/slurm"
SCRIPTS = ("prolog", "epilog", "prolog-slurmctld", "epilog-slurmctld")
NO_OP = "#!/bin/sh\nexit 0\n"


def put(bed: RunningBed, host: str, path: str, content: str) -> None:
    words = 'mkdir -p "$(dirname "$1")" && cat > "$1" && chmod 755 "$1"'
    bed.exec(host, ["sh", "-c", words, "put", path], input=content)


def use(bed: RunningBed, host: str, way: str) -> None:
    """From now on Slurm runs this set of scripts on the host."""
    bed.exec(host, ["ln", "-sfn", f"{FOLDER}/{way}", f"{FOLDER}/now"])


def swap_scripts(bed: RunningBed, hosts: Sequence[str]) -> None:
    """On a converted cluster: four script files that are always the same for Slurm; `use` says what is in them."""
    for host in hosts:
        found = bed.exec(host, ["ls", OURS]).out.split()
        for name in set(SCRIPTS).intersection(found):
            put(bed, host, f"{FOLDER}/no-op/{name}", NO_OP)
            text = bed.exec(host, ["cat", f"{OURS}/{name}"]).out
            put(bed, host, f"{FOLDER}/ours/{name}", text)
            put(bed, host, f"{FOLDER}/inert/{name}", text.replace("=/etc/converged/enabled", "=/nonexistent"))
        bed.exec(host, ["sed", "-i", f"s,={OURS}/,={FOLDER}/now/,", "/etc/slurm/slurm.conf"])
        use(bed, host, "no-op")
    follow = "systemctl restart slurmctld; until scontrol ping | grep -q UP; do sleep 0.2; done; scontrol reconfigure"
    bed.exec("ctl", ["sh", "-c", follow])


def milliseconds(seconds: Sequence[float]) -> str:
    return f"{1000 * min(seconds):.0f} to {1000 * max(seconds):.0f} ms"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def added(times: Mapping[str, Sequence[float]], base: str, bounds: Mapping[str, float]) -> tuple[str, list[str]]:
    """Each way beside `base`: median, what it adds, ratio, range; and the ways that add too much."""
    rows, late = [], []
    reference = statistics.median(times[base])
    for way, seconds in times.items():
        median = statistics.median(seconds)
        bound = bounds.get(way)
        asked = f"{1000 * bound:.0f} ms" if bound else ""
        more = f"{1000 * (median - reference):.0f} ms"
        rows.append([way, f"{1000 * median:.0f} ms", more, f"{median / reference:.2f}", milliseconds(seconds), asked])
        if bound and median - reference > bound:
            late.append(way)
    return table(["scripts", "median", "added", "ratio", "range", "asked"], rows), late


def load_average() -> str:
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
