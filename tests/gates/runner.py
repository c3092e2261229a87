# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs gates, two at a time where they do not disturb each other, and says how each went.

A failing gate does not stop the others: a run names everything that is wrong.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from gates.gate import Context, Gate, GateFailure
from gates.process import interrupt_all

TAIL = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one gate went."""

    gate: Gate
    seconds: float
    failure: str  # empty: passed
    log: Path


MakeContext = Callable[[Gate], Context]


def run_gates(gates: Sequence[Gate], context: MakeContext, *, at_once: int = 2) -> list[Outcome]:
    """Runs all of them: first those that share the machine, then the others one by one."""
    shared = [gate for gate in gates if not gate.alone]
    alone = [gate for gate in gates if gate.alone]
    outcomes: list[Outcome] = []

    def report(outcome: Outcome) -> None:
        outcomes.append(outcome)
        show(outcome, number=len(outcomes), of=len(gates))

    pool = ThreadPoolExecutor(max_workers=at_once)
    try:
        for future in as_completed([pool.submit(run_gate, gate, context) for gate in shared]):
            report(future.result())
        for gate in alone:
            print(f"        {gate.name}: {gate.what} ...", flush=True)
            report(pool.submit(run_gate, gate, context).result())
    except KeyboardInterrupt:
        print("interrupted: stopping what runs", file=sys.stderr, flush=True)
        pool.shutdown(wait=False, cancel_futures=True)
        interrupt_all()
        raise
    finally:
        pool.shutdown(wait=True)
    return outcomes


def run_gate(gate: Gate, context: MakeContext) -> Outcome:
    """Runs one gate; whatever goes wrong in it is its failure alone."""
    began = time.monotonic()
    using = context(gate)
    failure = ""
    try:
        gate.action(using)
    except GateFailure as error:
        failure = str(error)
        using.say(f"FAILED: {error}")
    except Exception as error:  # noqa: BLE001  a fault of one gate must not hide what the others find
        failure = f"the gate itself is at fault: {error!r}"
        using.say(traceback.format_exc())
    return Outcome(gate=gate, seconds=time.monotonic() - began, failure=failure, log=using.log)


def show(outcome: Outcome, *, number: int, of: int) -> None:
    """One line for the gate; the end of its log when it failed; the lines it wants shown (`SHOW ...`) always."""
    verdict = "FAILED" if outcome.failure else "passed"
    print(f"[{number:2}/{of}] {outcome.gate.name:<14} {verdict} {outcome.seconds:7.1f} s", flush=True)
    lines = outcome.log.read_text(encoding="utf-8", errors="replace").splitlines() if outcome.log.exists() else []
    for line in lines:
        if line.startswith("SHOW "):
            print(f"        {line.removeprefix('SHOW ')}")
    if outcome.failure:
        print("\n".join(f"        | {line}" for line in lines[-TAIL:]), flush=True)
