# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Churn of pods and gangs under random faults, with two replicas of the daemon, on nodes that kwok plays.

The API server restarts, leaders are killed and frozen, nodes are not ready, cordoned or deleted, evictions are refused.
All of it is drawn by the seed. What the API server lists is checked at every look: no node is given twice, no gang
stays bound in part, no pod that has a place waits, no process grows. Exits with 1 when one of these does not hold.
"""

import argparse
import os
import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench._beds import own_bed
from bench._figures import count, load_average

from placement_churn import checks
from placement_churn.churn import JUDGED, Churn, Result, judged
from placement_churn.plan import CALM_ROUNDS, Round, plan
from placement_churn.site import Site

BED: Final = "churn"
# A look at thousands of nodes and pods costs the API server a second.
_LOOK_SECONDS: Final = 5.0


def main() -> int:
    """Run as the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m placement_churn", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=count, default=3600, help="length of the run (default: %(default)s)")
    parser.add_argument("--nodes", type=count, default=5000, help="nodes if there are none yet (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=8.0, help="jobs a second (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="draws jobs and faults (default: the variable SEED, or a new one)")
    parser.add_argument("--bed", help="a bed that is up; it keeps its nodes for load (default: one of our own)")
    given = parser.parse_args()
    seed = chosen_seed(given.seed)
    try:
        rounds = plan(seed, given.seconds)
    except ValueError as error:
        parser.error(f"argument --seconds: {error}")
    print(f"seed {seed}; SEED={seed} draws the same again", flush=True)
    with (
        own_bed(f"{BED}-{os.getpid()}", "--nodes", "1", "--wlm", "none", given=given.bed) as bed,
        TemporaryDirectory() as folder,
    ):
        site = Site(bed, Path(folder), given.nodes)
        site.clear()
        result = Churn(site, seed, given.rate, _LOOK_SECONDS).run(rounds)
        print(
            f"\n{len(site.names)} nodes, {given.seconds} s, seed {seed}, {load_average()}\n{told(result)}", flush=True
        )
        site.clear()
    return verdict(result, rounds)


def chosen_seed(given: int | None) -> int:
    """Return the seed of the command line, of the environment, or a new one."""
    if given is not None:
        return given
    return int(os.environ.get("SEED") or random.randrange(1 << 32))


def told(result: Result) -> str:
    """Return what was done and found, a line for each."""
    lines = [f"{name}: {number}" for name, number in sorted(result.counts.items())]
    lines += [f"{name}: {number} times" for name, number in sorted(result.faults.items())]
    lines.append(f"daemons ended by themselves or killed: {len(result.ended)}, statuses {sorted(set(result.ended))}")
    for term, samples in result.memory.items():
        medians = checks.growth(judged(samples))
        shown = f"medians {medians[0]:.0f} and {medians[1]:.0f} MiB" if medians else "too short to judge"
        lines.append(f"{term}: {samples[-1][0] - samples[0][0]:.0f} s, {shown}")
    lines.append(f"violations: {len(result.violations)}")
    return "\n".join(lines)


def verdict(result: Result, rounds: list[Round]) -> int:
    """Return the status of the run; one in which little happened proves nothing, and fails as well."""
    drawn = {fault.kind.value for one in rounds for lane in one.lanes for fault in lane}
    missed = drawn - result.faults.keys()
    if missed:
        print(f"faults that were drawn and never came: {', '.join(sorted(missed))}", file=sys.stderr)
    idle = [name for name in ("created", "bound", "gone", "looks") if not result.counts[name]]
    if idle:
        print(f"nothing was: {', '.join(idle)}", file=sys.stderr)
    unjudged = len(rounds) >= CALM_ROUNDS and not result.counts[JUDGED]
    if unjudged:
        print("no term was long enough to judge memory by", file=sys.stderr)
    return int(bool(result.violations or missed or idle or unjudged))
