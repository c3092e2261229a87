# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run all gates in one pool, the longest first, and report each as it ends.

A failing gate does not stop the others: a run names everything that is wrong. Gates on beds wait until the gate
`supplies` has filled the caches, so that no worker of the pool is kept by a build. Gates that must be alone run last.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from gates.gate import Context, Gate, GateFailure
from gates.process import interrupt_all
from gates.stamps import Stamp, Stamps

SUPPLIES = "supplies"
# Beds wait for services and for each other's jobs half of their time: four keep two processors busy.
WORKERS = 4
TAIL = 60
# A gate without a known duration is taken for a long one.
UNKNOWN_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one gate went."""

    gate: Gate
    seconds: float
    failure: str  # empty: passed
    log: Path
    cached: Stamp | None = None


MakeContext = Callable[[Gate], Context]


def run_gates(
    gates: Sequence[Gate],
    context: MakeContext,
    *,
    stamps: Stamps | None = None,
    durations: Mapping[str, float] | None = None,
    workers: int = WORKERS,
) -> list[Outcome]:
    """Run all of them; `durations` are the seconds of the last run, by gate."""
    waiting = in_order(gates, durations or {})
    running: dict[Future[Outcome], Gate] = {}
    outcomes: list[Outcome] = []
    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        while waiting or running:
            while True:
                supplied = is_supplied(gates, outcomes)
                gate = next_ready(waiting, running=[*running.values()], supplied=supplied, workers=workers)
                if gate is None:
                    break
                waiting.remove(gate)
                running[pool.submit(run_gate, gate, context, stamps)] = gate
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                gate = running.pop(future)
                outcomes.append(future.result())
                show(outcomes[-1], number=len(outcomes), of=len(gates), running=[one.name for one in running.values()])
                if gate.name == SUPPLIES and outcomes[-1].failure:
                    lost = [one for one in waiting if one.on_bed]
                    waiting = [one for one in waiting if not one.on_bed]
                    for one in lost:
                        outcomes.append(not_run(one, context, "the gate 'supplies' failed, so there is no bed"))
                        show(outcomes[-1], number=len(outcomes), of=len(gates), running=[])
    except KeyboardInterrupt:
        print("interrupted: stopping what runs", file=sys.stderr, flush=True)
        pool.shutdown(wait=False, cancel_futures=True)
        interrupt_all()
        raise
    finally:
        pool.shutdown(wait=True)
    return outcomes


def in_order(gates: Sequence[Gate], durations: Mapping[str, float]) -> list[Gate]:
    """Return the gates in the order in which they start: supplies, the others from the longest on, those alone."""

    def place(gate: Gate) -> tuple[bool, bool, float]:
        return gate.name != SUPPLIES, gate.alone, -durations.get(gate.name, UNKNOWN_SECONDS)

    return sorted(gates, key=place)


def next_ready(waiting: Sequence[Gate], *, running: Sequence[Gate], supplied: bool, workers: int) -> Gate | None:
    """Return the first gate that may start beside those that run."""
    if len(running) >= workers or any(gate.alone for gate in running):
        return None
    ready = (gate for gate in waiting if (supplied or not gate.on_bed) and not (gate.alone and running))
    return next(ready, None)


def is_supplied(gates: Sequence[Gate], outcomes: Sequence[Outcome]) -> bool:
    """Return whether beds can be made: `supplies` has ended, or is no part of this run."""
    return all(gate.name != SUPPLIES for gate in gates) or any(one.gate.name == SUPPLIES for one in outcomes)


def run_gate(gate: Gate, context: MakeContext, stamps: Stamps | None = None) -> Outcome:
    """Run one gate unless it has passed on the same inputs; whatever goes wrong in it is its failure alone."""
    began = time.monotonic()
    using = context(gate)
    failure = ""
    try:
        key = stamps.key(gate, using) if stamps else None
        known = stamps.find(gate, key) if stamps else None
        if known:
            return Outcome(gate=gate, seconds=time.monotonic() - began, failure="", log=using.log, cached=known)
        gate.action(using)
        # Files that changed meanwhile: it may have passed on the old ones or on the new ones.
        if stamps and key == stamps.key(gate, using):
            stamps.write(gate, key, Stamp(at=time.time(), seconds=time.monotonic() - began, seed=using.seed))
    except GateFailure as error:
        failure = str(error)
        using.say(f"FAILED: {error}")
    except Exception as error:  # noqa: BLE001  a fault of one gate must not hide what the others find
        failure = f"the gate itself is at fault: {error!r}"
        using.say(traceback.format_exc())
    return Outcome(gate=gate, seconds=time.monotonic() - began, failure=failure, log=using.log)


def not_run(gate: Gate, context: MakeContext, why: str) -> Outcome:
    """Return the failure of a gate that could not start."""
    using = context(gate)
    using.say(why)
    return Outcome(gate=gate, seconds=0.0, failure=why, log=using.log)


def show(outcome: Outcome, *, number: int, of: int, running: Sequence[str]) -> None:
    """Print a line for the gate, its lines that begin with SHOW, and the end of its log when it failed."""
    if outcome.cached:
        print(f"[{number:2}/{of}] {outcome.gate.name:<24} cached: {outcome.cached}", flush=True)
        return
    verdict = "FAILED" if outcome.failure else "passed"
    beside = f"   running: {', '.join(running)}" if running else ""
    print(f"[{number:2}/{of}] {outcome.gate.name:<24} {verdict} {outcome.seconds:7.1f} s{beside}", flush=True)
    lines = outcome.log.read_text(encoding="utf-8", errors="replace").splitlines() if outcome.log.exists() else []
    for line in lines:
        if line.startswith("SHOW "):
            print(f"        {line.removeprefix('SHOW ')}")
    if outcome.failure:
        print("\n".join(f"        | {line}" for line in lines[-TAIL:]), flush=True)
