# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs for hours: the random, fault and long tests in rounds, and the figures."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from gates.gate import Context, GateFailure, existing

# So much less than the gate's six hours that a round which takes longer than the last one did comes to its end, too.
SOAK_MINUTES = 270
HISTORIES_PER_ROUND = 500
HISTORIES = ["test_random_histories", "test_placing_histories"]
FOLDERS = ["tests/unit", "tests/placement", "tests/e2e"]


def run_soak(context: Context) -> None:
    """Every random test, and those for which `make test` has no time, round after round with new seeds.

    What is random is drawn as `make test` draws it, so that CONVERGED_SEED repeats whatever it finds. After the first
    round another begins only if one as long as the last still fits into the time.
    """
    ends = time.monotonic() + 60 * soak_minutes(context.environ)
    number, last = 0, 0.0
    while number == 0 or time.monotonic() + last < ends:
        seed = (context.seed + number) % 2**32
        number += 1
        began = time.monotonic()
        try:
            soak_round(context, seed)
            last = time.monotonic() - began
            if number == 1:
                soak_repeated(context, seed)
        except GateFailure as error:
            raise GateFailure(f"round {number}: {error}; CONVERGED_SEED={seed} make test repeats it") from None
        print(f"        round {number}, seed {seed}: {time.monotonic() - began:.0f} s", flush=True)


def soak_round(context: Context, seed: int) -> None:
    """The random tests of all kinds with one seed, and the long ones."""
    roots = [str(context.checkout / root) for root in context.payload_roots()]
    histories = {"NODESHARE_HISTORIES": str(HISTORIES_PER_ROUND), "PYTHONPATH": ":".join(roots)}
    payloads = [sys.executable, "-W", "error", "-m", "unittest", *HISTORIES]
    context.run(payloads, cwd=context.checkout / "tests/payloads", env={"CONVERGED_SEED": str(seed), **histories})
    _pytest(context, "(hypothesis or drawn or soak) and not repeated", seed)


def soak_repeated(context: Context, seed: int) -> None:
    """What is repeated a hundred times by itself, and takes hours so: a second time would say little more."""
    _pytest(context, "repeated", seed)


def _pytest(context: Context, marks: str, seed: int) -> None:
    options = ["-q", "-m", marks, f"--hypothesis-seed={seed}"]
    argv = [sys.executable, "-m", "pytest", *options, *existing(context, FOLDERS)]
    context.run(argv, env={"CONVERGED_SEED": str(seed)})


def soak_minutes(environ: Mapping[str, str]) -> int:
    """How long to go on beginning new rounds: CONVERGED_SOAK_MINUTES, 0 for a single round."""
    given = environ.get("CONVERGED_SOAK_MINUTES", str(SOAK_MINUTES))
    if not given.isdecimal() or int(given) > SOAK_MINUTES:
        raise GateFailure(f"CONVERGED_SOAK_MINUTES is '{given}'; it takes a number from 0 to {SOAK_MINUTES}")
    return int(given)


def run_benchmarks(context: Context) -> None:
    """Every script of tests/bench, one after the other; what they print ends up in one file.

    A script that fails does not keep the others from their figures.
    """
    tables = context.logs / "figures.txt"
    failed = []
    for script in bench_scripts(context):
        print(f"        {script.stem} ...", flush=True)
        began = time.monotonic()
        own = dataclasses.replace(context, log=context.logs / f"bench-{script.stem}.log")
        try:
            own.run([sys.executable, str(script)])
        except GateFailure:
            failed.append(script.stem)
        said = own.log.read_text(encoding="utf-8", errors="replace")
        with tables.open("a", encoding="utf-8") as collected:
            collected.write(f"{said}\n")
        print(f"{said}        {script.stem}: {time.monotonic() - began:.0f} s", flush=True)
    context.say(f"SHOW all figures of this run: {tables}")
    if failed:
        raise GateFailure(f"no figures from {', '.join(failed)}")


def bench_scripts(context: Context) -> list[Path]:
    """The scripts that measure; a name that begins with `_` is a part of others."""
    return [path for path in context.files("tests/bench/*.py") if not path.name.startswith("_")]
