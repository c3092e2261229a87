# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m gates test|check|soak|bench|only|durations`: choose the gates, make the log folder, run, sum up."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from gates import timings
from gates.asked import HIGHEST_SEED, UsageError, is_fresh, seed_of
from gates.catalogue import CHECKOUT, DRAWING, gates, left_out
from gates.checkout import strays
from gates.file_sets import load
from gates.gate import Context, Gate
from gates.pool import SUPPLIES, WORKERS, Outcome, run_gates
from gates.stamps import Stamps

LOG_FOLDERS_KEPT = 20
STROKE_SECONDS = 2.0
# Of each gate that failed, the end of a run shows so many lines about tests, and so many characters of each.
SHOWN_TESTS = 10
SHOWN_OF_LINE = 300
# Python's own order of sets and the like is the same in every run.
HASH_SEED = "0"
# What a shell may have set for single tests: fewer of them, fewer draws, another bed. A gate sets its own.
LEFT_OUT = (
    "BED_CLUSTER",
    "BED_CLUSTER_FROM_HERE",
    "BED_CONTROLLERS",
    "BED_WLM",
    "CONVERGED_SEED",
    "MAY_DIFFER",
    "NODESHARE_HISTORIES",
    "PYTEST_ADDOPTS",
    "PYTEST_PLUGINS",
)
EXAMPLES = """\
examples:
  make check                                        the tier that takes less than two minutes
  make test                                         every gate; those that passed on the same files are not run again
  make test FRESH=1                                 every gate, whatever has passed before
  make test GATE='lint e2e-handover molecule'       these gates, or groups of gates, of whatever tier
  make soak GATE='soak-unit'                        one part of the long tests, with a new seed
  sh tests/bootstrap/enter.sh exec python -m gates durations    keep the durations of the newest runs as data"""


def main(arguments: Sequence[str]) -> int:
    """Run the gates of a tier; return 0 when all passed."""
    parser = argparse.ArgumentParser(
        prog="gates",
        description="Runs everything that must hold.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tier", choices=["test", "check", "soak", "bench", "only", "durations"])
    parser.add_argument("names", nargs="*", help="with 'only', 'soak' and 'bench': the gates, parts or groups to run")
    options = parser.parse_args(arguments)
    heed_interrupts()
    every = gates()
    if options.tier == "durations":
        return refresh_durations([gate.name for gate in every if "test" in gate.tiers])
    try:
        wanted = chosen(every, options.tier, options.names)
        given = seed_of(os.environ)
        fresh = is_fresh(os.environ)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    drawn = drawn_seed(wanted) if given is None else given
    return run(wanted, tier=options.tier, given=given, drawn=drawn, fresh=fresh)


def run(wanted: Sequence[Gate], *, tier: str, given: int | None, drawn: int | None, fresh: bool) -> int:
    """Run these gates, and print how they went; `given` is the seed of all, `drawn` that of the parts of soak."""
    cache, own = Path(os.environ["CONVERGED_CACHE"]), Path(os.environ["CONVERGED_OWN_CACHE"])
    logs = log_folder(cache / "logs")
    counted = "1 gate" if len(wanted) == 1 else f"{len(wanted)} gates"
    seeds = "random tests take the seeds of the repository" if drawn is None else f"CONVERGED_SEED={drawn}"
    print("\n".join(filter(None, [f"{counted}; {seeds}; logs in {logs}", left_out()])), flush=True)
    began, ticks = time.monotonic(), timings.processor_ticks()
    scratch = own / "scratch" / logs.name
    scratch.mkdir(parents=True)
    before = strays(CHECKOUT)
    stamps = Stamps(cache / "passed", load(), CHECKOUT, os.environ, fresh=fresh)
    stamps.remove_old()
    try:
        outcomes = run_gates(
            wanted,
            lambda gate: context(gate, logs=logs, seed=seed_of_gate(gate, given, drawn), quick=tier == "check"),
            stamps=stamps,
            durations=timings.kept_durations(),
            workers=1 if tier == "bench" else WORKERS,
        )
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    left = sorted(strays(CHECKOUT) - before)
    if tier == "test":  # a gate of `make check` does less, and one that runs alone is faster
        timings.write_run(outcomes, logs)
    for line in timings.slowest(outcomes, logs):
        print(line)
    print(timings.busy_since(ticks))
    return summary(outcomes, logs=logs, seconds=time.monotonic() - began, left=left)


def refresh_durations(names: Sequence[str]) -> int:
    """Write the durations of the newest runs of each gate into the repository."""
    logs = Path(os.environ["CONVERGED_CACHE"]) / "logs"
    found, missing = timings.refreshed(timings.kept_durations(), logs, names)
    timings.KEPT.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{timings.KEPT}: {len(found)} gates")
    for name in missing:
        print(f"  no run of {name} in {logs}: it starts with the long ones")
    return 0


def heed_interrupts() -> None:
    """Have SIGINT and SIGTERM interrupt the run.

    One stroke can come several times, from the terminal, from make and from `timeout`. Taken for a second one it would
    kill what is just cleaning up, or break a lock that the first one is leaving.
    """
    last = -STROKE_SECONDS

    def heed(_number: int, _frame: object) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= STROKE_SECONDS:
            last = now
            raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, heed)


def chosen(every: Sequence[Gate], tier: str, names: Sequence[str]) -> list[Gate]:
    """Return the gates of a tier, or those named, with the gate that fills the caches where one of them needs a bed."""
    if not names:
        if tier == "only":
            raise UsageError(f"no gate named; there are: {listed(every)}")
        return [gate for gate in every if tier in gate.tiers]
    if tier not in ("only", "soak", "bench"):
        raise UsageError(f"'{tier}' takes no names; to run single gates: make {tier} GATE='{' '.join(names)}'")
    offered = [gate for gate in every if tier == "only" or tier in gate.tiers]
    unknown = [name for name in names if not any(name in words(gate) for gate in offered)]
    if unknown:
        raise UsageError(f"unknown gate '{' '.join(unknown)}'{meant(unknown, offered)}; there are: {listed(offered)}")
    found = [gate for gate in offered if words(gate) & {*names}]
    supplies = [gate for gate in every if gate.name == SUPPLIES and gate not in found]
    return [*supplies, *found] if any(gate.on_bed for gate in found) else found


def meant(unknown: Sequence[str], offered: Sequence[Gate]) -> str:
    """Return a question for the names that are most like the unknown ones; "" where none is."""
    known = sorted({word for gate in offered for word in words(gate)})
    near = [close for name in unknown for close in difflib.get_close_matches(name, known, n=2)]
    return f" (did you mean {' or '.join(dict.fromkeys(near))}?)" if near else ""


def words(gate: Gate) -> set[str]:
    """Return the words that ask for a gate."""
    return {gate.name, gate.group, gate.also} - {""}


def listed(offered: Sequence[Gate]) -> str:
    """Return the names of gates, groups in front of their members."""
    groups = dict.fromkeys(gate.group for gate in offered)
    parts = []
    for group in groups:
        members = [gate.name for gate in offered if gate.group == group]
        parts.append(f"{group} ({', '.join(members)})" if group else ", ".join(members))
    others = sorted({gate.also for gate in offered if gate.also})
    parts += [f"{also} ({', '.join(gate.name for gate in offered if gate.also == also)})" for also in others]
    return "; ".join(parts)


def drawn_seed(wanted: Sequence[Gate]) -> int | None:
    """Return a new seed for the parts of soak; None where no part of it is wanted."""
    return random.randrange(HIGHEST_SEED + 1) if any(is_soak(gate) for gate in wanted) else None


def is_soak(gate: Gate) -> bool:
    """Return whether the gate is a part of soak, which draws anew in every run."""
    return gate.group == "soak"


def log_folder(logs: Path) -> Path:
    """Make a new folder for this run; remove old ones, so that the cache does not grow for ever."""
    folder = logs / time.strftime(f"%Y%m%d-%H%M%S-{os.getpid()}")
    folder.mkdir(parents=True)
    for old in sorted(logs.glob("[0-9]*-[0-9]*-[0-9]*"))[:-LOG_FOLDERS_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def seed_of_gate(gate: Gate, given: int | None, drawn: int | None) -> int | None:
    """Return the seed that the gate sees: a part of soak always has one, and a gate without random tests has none."""
    if is_soak(gate):
        return drawn
    return given if gate.name in DRAWING else None


def context(gate: Gate, *, logs: Path, seed: int | None, quick: bool) -> Context:
    """Return what the gate sees. Test beds put their logs into a folder beside the gate's own log (CONVERGED_LOGS)."""
    kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    environ = {**kept, "CONVERGED_LOGS": str(logs / gate.name), "PYTHONHASHSEED": HASH_SEED}
    if seed is not None:
        environ["CONVERGED_SEED"] = str(seed)
    return Context(
        checkout=CHECKOUT,
        cache=Path(environ["CONVERGED_CACHE"]),
        own=Path(environ["CONVERGED_OWN_CACHE"]),
        scratch=Path(environ["CONVERGED_OWN_CACHE"]) / "scratch" / logs.name,
        logs=logs,
        seed=seed,
        quick=quick,
        environ=environ,
        log=logs / f"{gate.name}.log",
        deadline=time.monotonic() + gate.limit,
    )


def failed_tests(log: Path) -> list[str]:
    """Return pytest's lines about tests that failed, from a gate's log."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return [line[:SHOWN_OF_LINE] for line in lines if line.startswith(("FAILED tests/", "ERROR tests/"))][:SHOWN_TESTS]


def summary(outcomes: Sequence[Outcome], *, logs: Path, seconds: float, left: Sequence[str] = ()) -> int:
    """Print the last lines of a run, and return its exit status."""
    failed = [outcome for outcome in outcomes if outcome.failure]
    for outcome in failed:
        print(f"FAILED {outcome.gate.name}: {outcome.failure}; see {outcome.log}")
        for line in failed_tests(outcome.log):
            print(f"  {line}")
    if failed:
        print(f"all logs of this run are in {logs}")
    for name in left:
        print(f"FAILED: the run has left {name} in the checkout")
    print(f"{seconds:.0f} s")
    earlier = sum(1 for outcome in outcomes if outcome.cached)
    of_them = f" ({earlier} of them earlier)" if earlier else ""
    print(f"{len(outcomes) - len(failed)} passed{of_them}, {len(failed)} failed")
    return 1 if failed or left else 0
