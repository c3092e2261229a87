# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What benchmarks share: options, scripts of Slurm that can be swapped between two jobs, tables with ranges."""

import argparse
import math
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.api import RunningBed
from testbed.kube_api import Api

FOLDER = "/opt/bench"
OURS = "/etc/converged/slurm"
SCRIPTS = ("prolog", "epilog", "prolog-slurmctld", "epilog-slurmctld")
NO_OP = "#!/bin/sh\nexit 0\n"
# bash tells the time without starting a program.
TIMED = """\
#!/bin/bash
began=$EPOCHREALTIME
{folder}/ours/{name} "$@"
code=$?
echo "{name} $began $EPOCHREALTIME" >> {folder}/{name}.times
exit "$code"
"""
TAINT = "converged.hpc/batch"


def parser_of(about: str | None, *arguments: str) -> argparse.ArgumentParser:
    """A benchmark's, with an example for each of these words behind its name."""
    command = f"  sh tests/bootstrap/enter.sh exec python tests/bench/{Path(sys.argv[0]).name}"
    examples = ["examples:", command, *(f"{command} {words}" for words in arguments)]
    return argparse.ArgumentParser(
        description=about, epilog="\n".join(examples), formatter_class=argparse.RawDescriptionHelpFormatter
    )


def count(text: str) -> int:
    """An option's number of things, of which there must be one."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number from 1 up")
    return int(text)


def part(text: str) -> float:
    """An option's share of a whole."""
    if not 0 < _number(text) <= 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number above 0 and up to 1")
    return float(text)


def pause(text: str) -> float:
    """An option's seconds, or none."""
    if not 0 <= _number(text) < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of seconds")
    return float(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def tainted(api: Api) -> int:
    """How many nodes are closed to pods."""
    taints = [node["spec"].get("taints", ()) for node in api.items("/api/v1/nodes")]
    return sum(any(taint["key"] == TAINT for taint in each) for each in taints)


def put(bed: RunningBed, host: str, path: str, content: str) -> None:
    words = 'mkdir -p "$(dirname "$1")" && cat > "$1" && chmod 755 "$1"'
    bed.exec(host, ["sh", "-c", words, "put", path], input=content)


def use(bed: RunningBed, host: str, way: str) -> None:
    """From now on Slurm runs this set of scripts on the host."""
    bed.exec(host, ["ln", "-sfn", f"{FOLDER}/{way}", f"{FOLDER}/now"])


def last_times(bed: RunningBed, host: str, name: str) -> list[str]:
    """The name of a timed script, and when it last began and ended, in seconds of the clock."""
    return bed.exec(host, ["tail", "-n1", f"{FOLDER}/{name}.times"]).out.split()


def swap_scripts(bed: RunningBed, hosts: Sequence[str]) -> None:
    """On a converted cluster: four script files that are always the same for Slurm; `use` says what is in them."""
    for host in hosts:
        found = bed.exec(host, ["ls", OURS]).out.split()
        for name in set(SCRIPTS).intersection(found):
            put(bed, host, f"{FOLDER}/no-op/{name}", NO_OP)
            text = bed.exec(host, ["cat", f"{OURS}/{name}"]).out
            put(bed, host, f"{FOLDER}/ours/{name}", text)
            put(bed, host, f"{FOLDER}/inert/{name}", text.replace("=/etc/converged/enabled", "=/nonexistent"))
            put(bed, host, f"{FOLDER}/timed/{name}", TIMED.format(folder=FOLDER, name=name))
            # slurmctld runs its scripts as a user of its own.
            bed.exec(host, ["sh", "-c", 'umask 0; : >"$0"', f"{FOLDER}/{name}.times"])
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
