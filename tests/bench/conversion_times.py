# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long converged.hpc.site takes: the first run, a run that changes nothing, and the way back.

Every size is a bed of its own with real Slurm and Kubernetes, and the inventory and settings of the tests.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import _figures
from bench._beds import own_bed
from e2e.playing import Said
from e2e.site_of import ConvertedSite

ASKED = {2: 180.0, 8: 300.0}  # seconds of the first run, by nodes
NO_CHANGE_SECONDS = 2.0  # for each node, at 8 nodes
NO_CHANGE_RESULTS = 10
MOST_SECONDS = 1800.0  # on a machine that is busy with other things


def results(said: Said, nodes: list[str]) -> int:
    """Of the node that had most; a skipped task is one, too. What is asked once for all is counted for the first."""
    return max(sum(said.recap()[node][what] for what in ("ok", "skipped")) for node in nodes[1:] or nodes)


def timed(site: ConvertedSite, playbook: str) -> tuple[float, Said]:
    begin = time.monotonic()
    given: dict[str, Any] = {"converged_after_canary": "go_on"} if playbook == "site" else {}
    said = site.run(f"converged.hpc.{playbook}", timeout=MOST_SECONDS, **given)
    return time.monotonic() - begin, said


def measure(count: int, rounds: int) -> tuple[list[list[str]], list[str]]:
    """Rows of the table for one size, and what missed its mark."""
    name = f"convert-{os.getpid()}"
    first, again, back, most = [], [], [], 0
    for _round in range(rounds):
        with own_bed(name, "--nodes", str(count)) as bed, tempfile.TemporaryDirectory() as folder:
            site = ConvertedSite(bed, Path(folder))
            first.append(timed(site, "site")[0])
            for _again in range(3):
                seconds, said = timed(site, "site")
                if any(said.changed().values()):
                    raise SystemExit(f"a run without changes changed something: {said.changed()}")
                again.append(seconds)
                most = max(most, results(said, site.nodes))
            back.append(timed(site, "restore")[0])
    each = [seconds / count for seconds in again]
    marks = [
        (f"{count} nodes: convert", first, ASKED.get(count)),
        (f"{count} nodes: nothing to change", again, None),
        (f"{count} nodes: nothing to change, for each node", each, NO_CHANGE_SECONDS if count == 8 else None),
        (f"{count} nodes: the way back", back, None),
    ]
    late = [what for what, seconds, asked in marks if asked and statistics.median(seconds) > asked]
    rows = [
        [what, f"{statistics.median(s):.1f} s", f"{min(s):.1f} to {max(s):.1f}", f"{asked:.0f} s" if asked else ""]
        for what, s, asked in marks
    ]
    rows.append([f"{count} nodes: results of a node when nothing changes", str(most), "", str(NO_CHANGE_RESULTS)])
    return rows, late + [rows[-1][0]] * (most > NO_CHANGE_RESULTS)


def main() -> int:
    parser = _figures.parser_of(__doc__, "--nodes 2 --rounds 1")
    parser.add_argument(
        "--nodes", type=_figures.count, action="append", help="a size (default: 2 and 8); may be repeated"
    )
    parser.add_argument("--rounds", type=_figures.count, default=1, help="beds of each size (default: %(default)s)")
    options = parser.parse_args()
    rows, late = [], []
    for count in options.nodes or sorted(ASKED):
        more, missed = measure(count, options.rounds)
        rows += more
        late += missed
        print(f"{count} nodes done", file=sys.stderr, flush=True)
    print(f"{_figures.load_average()}\n\n{_figures.table(['what', 'median', 'range', 'asked'], rows)}")
    for what in late:
        print(f"missed: {what}", file=sys.stderr)
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
