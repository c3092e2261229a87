# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m gates test|check|soak|bench|only NAME ...`: draws the seed, makes the log folder, runs, sums up."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from gates.catalogue import GATES
from gates.checkout import strays
from gates.gate import Context, Gate
from gates.runner import Outcome, run_gates

LOG_FOLDERS_KEPT = 20
STROKE_SECONDS = 2.0
CHECKOUT = Path(__file__).resolve().parents[2]
EXAMPLES = """\
examples:
  make check                                        the tier that takes two minutes
  make test GATE='lint types'                       these gates of whatever tier
  sh tests/bootstrap/enter.sh exec python -m gates only lint types"""


class UsageError(Exception):
    """The command line or the environment asks for something that does not exist."""


def main(arguments: Sequence[str]) -> int:
    """Runs the gates of a tier; 0 when all passed."""
    parser = argparse.ArgumentParser(
        prog="gates",
        description="Runs everything that must hold.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tier", choices=["test", "check", "soak", "bench", "only"])
    parser.add_argument("names", nargs="*", help="with 'only': the gates to run")
    options = parser.parse_args(arguments)
    heed_interrupts()
    try:
        gates = chosen(GATES, options.tier, options.names)
        seed = drawn_seed(os.environ)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    logs = log_folder(Path(os.environ["CONVERGED_CACHE"]) / "logs")
    counted = "1 gate" if len(gates) == 1 else f"{len(gates)} gates"
    print(f"{counted}; seed {seed} (CONVERGED_SEED={seed} repeats it); logs in {logs}", flush=True)
    began = time.monotonic()
    scratch = Path(os.environ["CONVERGED_OWN_CACHE"]) / "scratch" / logs.name
    scratch.mkdir(parents=True)
    before = strays(CHECKOUT)
    try:
        outcomes = run_gates(gates, lambda gate: context(gate, logs=logs, seed=seed, quick=options.tier == "check"))
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    left = sorted(strays(CHECKOUT) - before)
    return summary(outcomes, logs=logs, seconds=time.monotonic() - began, left=left)


def heed_interrupts() -> None:
    """SIGINT and SIGTERM interrupt the run.

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


def chosen(gates: Sequence[Gate], tier: str, names: Sequence[str]) -> list[Gate]:
    """The gates of a tier, or those named."""
    if tier != "only":
        if names:
            raise UsageError(f"'{tier}' takes no names; to run single gates: make check GATE='{' '.join(names)}'")
        return [gate for gate in gates if tier in gate.tiers]
    known = {gate.name: gate for gate in gates}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise UsageError(f"unknown gate '{' '.join(unknown)}'; there are: {', '.join(known)}")
    return [known[name] for name in names]


def drawn_seed(environ: Mapping[str, str]) -> int:
    """The seed of all random tests: given to repeat a run, otherwise drawn."""
    given = environ.get("CONVERGED_SEED", "")
    if not given:
        return random.randrange(2**32)
    if not given.isdecimal() or int(given) >= 2**32:
        raise UsageError(f"CONVERGED_SEED is '{given}'; it takes a number from 0 to {2**32 - 1}.")
    return int(given)


def log_folder(logs: Path) -> Path:
    """A new folder for this run; old ones go, so that the cache does not grow for ever."""
    folder = logs / time.strftime(f"%Y%m%d-%H%M%S-{os.getpid()}")
    folder.mkdir(parents=True)
    for old in sorted(logs.glob("[0-9]*-[0-9]*-[0-9]*"))[:-LOG_FOLDERS_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def context(gate: Gate, *, logs: Path, seed: int, quick: bool) -> Context:
    """What the gate sees. Test beds put their logs into a folder beside the gate's own log (CONVERGED_LOGS)."""
    environ = {
        **os.environ,
        "CONVERGED_SEED": str(seed),
        "CONVERGED_LOGS": str(logs / gate.name),
        "PYTHONHASHSEED": str(seed),
    }
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
        deadline=time.monotonic() + gate.timeout,
    )


def summary(outcomes: Sequence[Outcome], *, logs: Path, seconds: float, left: Sequence[str] = ()) -> int:
    """The last lines of a run, and its exit status."""
    failed = [outcome for outcome in outcomes if outcome.failure]
    for outcome in failed:
        print(f"FAILED {outcome.gate.name}: {outcome.failure}; see {outcome.log}")
    if failed:
        print(f"all logs of this run are in {logs}")
    for name in left:
        print(f"FAILED: the run has left {name} in the checkout")
    print(f"{seconds:.0f} s")
    print(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or left else 0
