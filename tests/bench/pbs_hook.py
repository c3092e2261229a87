# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long PBS's MoM waits for our hook, with the real nodeshare on a host without pods and without Kubernetes.

On OpenPBS where it is installed (/opt/pbs, or PBS_EXEC) and the run is root's, otherwise on its double. The times are
the hook's own, as it writes them to the MoM's log.
"""

import functools
import re
import statistics
import sys
import tempfile
from pathlib import Path

from bench import _figures
from pbs.converged_on_pbs import PROGRAM, Shared
from pbs_double import double, real
from pbs_double.cluster import until
from pbs_double.installed import Installed

BOUND = 0.150
LINE = re.compile(r"converged: event=(\w+) .*exit=0 outcome=accept seconds=([0-9.]+)")


def measure(hook: Installed, jobs: int) -> dict[str, list[float]]:
    """Seconds by event; one job after the other, so that nothing waits."""

    def logged(least: int) -> list[tuple[str, str]]:
        found = LINE.findall(hook.pbs.on("pbs-n1", "cat $PBS_HOME/mom_logs/*").out)
        return found if len(found) >= least else []

    for number in range(1, jobs + 1):
        hook.submit("-l", "select=1:ncpus=1:mem=100mb:host=pbs-n1", "--", "/bin/true")
        until(functools.partial(logged, 2 * number))
    times: dict[str, list[float]] = {}
    for event, seconds in logged(2 * jobs):
        times.setdefault(event, []).append(float(seconds))
    return times


def main() -> None:
    """Prints the table; exit status 1 when the bound is missed."""
    parser = _figures.parser_of(__doc__, "--jobs 50   # on OpenPBS with PBS_EXEC=/opt/pbs before it")
    parser.add_argument("--jobs", type=_figures.count, default=20, help="one after the other (default: %(default)s)")
    options = parser.parse_args()
    root = real.installation()
    print(f"on {'the double of PBS' if root is None else 'OpenPBS'}; {_figures.load_average()}")
    with tempfile.TemporaryDirectory() as name:
        pbs, own = Path(name, "pbs"), Path(name, "hook")
        pbs.mkdir()
        own.mkdir()
        with double.started(pbs) if root is None else real.started(root, pbs) as cluster:
            hook = Shared(cluster, own, PROGRAM)
            hook.start()
            times = measure(hook, options.jobs)
    rows = [
        [event, f"{1000 * statistics.median(seconds):.0f} ms", _figures.milliseconds(seconds), f"{1000 * BOUND:.0f} ms"]
        for event, seconds in times.items()
    ]
    print(_figures.table(["execjob_", "median", "range", "asked"], rows))
    sys.exit(any(statistics.median(seconds) > BOUND for seconds in times.values()))


if __name__ == "__main__":
    main()
