# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How gates are chosen, run and reported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bootstrap.cli import GATES_ON_BEDS
from gates import cli
from gates.catalogue import GATES
from gates.checkout import strays
from gates.gate import Context, Gate, GateFailure
from gates.process import INTERRUPTED, TIMED_OUT, run
from gates.runner import run_gates


def gate(name: str, action: Callable[[Context], None], *, alone: bool = False) -> Gate:
    return Gate(name=name, what="a test", action=action, tiers=frozenset({"check"}), alone=alone)


def passes(context: Context) -> None:
    context.say("well")


def fails(context: Context) -> None:
    context.say("line one\nSHOW shown")
    raise GateFailure("it is broken")


def crashes(context: Context) -> None:
    raise KeyError("gone")


@pytest.fixture
def context(tmp_path: Path) -> Callable[[Gate], Context]:
    def make(which: Gate) -> Context:
        return Context(
            checkout=tmp_path,
            cache=tmp_path,
            own=tmp_path,
            scratch=tmp_path,
            logs=tmp_path,
            seed=1,
            quick=True,
            environ={"PATH": "/usr/bin:/bin"},
            log=tmp_path / f"{which.name}.log",
            deadline=time.monotonic() + 60,
        )

    return make


def test_a_failing_gate_does_not_stop_the_others(
    context: Callable[[Gate], Context], capsys: pytest.CaptureFixture[str]
) -> None:
    gates = [gate("bad", fails), gate("worse", crashes), gate("good", passes), gate("last", passes, alone=True)]

    outcomes = run_gates(gates, context)

    failures = {outcome.gate.name: outcome.failure for outcome in outcomes}
    assert failures["bad"] == "it is broken"
    assert "KeyError('gone')" in failures["worse"]
    assert failures["good"] == failures["last"] == ""
    assert "        shown\n" in capsys.readouterr().out


def test_the_end_names_failures_the_log_folder_and_the_counts(
    context: Callable[[Gate], Context], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = run_gates([gate("bad", fails), gate("good", passes)], context)
    capsys.readouterr()

    assert cli.summary(outcomes, logs=tmp_path, seconds=3.2) == 1

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"FAILED bad: it is broken; see {tmp_path}/bad.log"
    assert lines[1] == f"all logs of this run are in {tmp_path}"
    assert lines[-1] == "1 passed, 1 failed"


def test_gates_that_need_the_machine_run_after_the_others_one_by_one(context: Callable[[Gate], Context]) -> None:
    order: list[str] = []

    def note(name: str) -> Callable[[Context], None]:
        return lambda _context: order.append(name)

    run_gates([gate("bed", note("bed"), alone=True), gate("a", note("a")), gate("b", note("b"))], context)

    assert sorted(order[:2]) == ["a", "b"]
    assert order[2] == "bed"


def test_a_command_that_does_not_end_is_stopped_with_its_children(tmp_path: Path) -> None:
    log = tmp_path / "log"
    argv = ["sh", "-c", "sleep 900 & sleep 900"]

    status = run(argv, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, log=log, deadline=time.monotonic() + 0.2)

    assert status == TIMED_OUT
    assert "the gate's time is over" in log.read_text(encoding="utf-8")


def test_after_an_interrupt_what_does_not_end_is_killed_and_nothing_more_starts(tmp_path: Path) -> None:
    program = """
import sys, threading, time
from pathlib import Path
from gates import process

folder = Path(sys.argv[1])
process.GRACE = 0.5

def run(script):
    where = {"cwd": folder, "env": {"PATH": "/usr/bin:/bin"}, "log": folder / "log"}
    return process.run(["sh", "-c", script], **where, deadline=time.monotonic() + 900)

stubborn = threading.Thread(target=run, args=("trap '' INT; touch began; sleep 900",))
stubborn.start()
while not (folder / "began").exists():
    time.sleep(0.01)
process.interrupt_all()
stubborn.join()
print(run("touch late"))
"""
    argv = [sys.executable, "-c", program, str(tmp_path)]

    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=True)

    assert int(done.stdout) == INTERRUPTED
    assert not (tmp_path / "late").exists()


def test_an_interrupt_that_comes_several_times_lets_a_gate_clean_up(tmp_path: Path) -> None:
    program = """
import sys
from gates import cli
from gates.gate import Gate

SCRIPT = "trap 'sleep 0.5; touch cleaned; exit 1' INT; touch began; while :; do sleep 0.05; done"

def slow(context):
    context.run(["sh", "-c", SCRIPT], cwd=context.own)

cli.GATES = (Gate(name="slow", what="", action=slow, tiers=frozenset()),)
sys.exit(cli.main(["only", "slow"]))
"""
    environment = {**os.environ, "CONVERGED_CACHE": str(tmp_path), "CONVERGED_OWN_CACHE": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", program], env=environment) as running:
        while not (tmp_path / "began").exists():
            assert running.poll() is None
            time.sleep(0.05)
        for number in (signal.SIGTERM, signal.SIGINT) * 5:
            running.send_signal(number)
            time.sleep(0.01)
    assert running.returncode == INTERRUPTED
    assert (tmp_path / "cleaned").exists()


def test_a_command_that_is_missing_is_named(tmp_path: Path) -> None:
    log = tmp_path / "log"

    assert run(["no-such-tool"], cwd=tmp_path, env={}, log=log, deadline=time.monotonic() + 5) == 127
    assert "no-such-tool: No such file" in log.read_text(encoding="utf-8")


def test_test_holds_all_that_check_looks_at() -> None:
    check = {found.name for found in cli.chosen(GATES, "check", [])}
    test = {found.name for found in cli.chosen(GATES, "test", [])}

    assert check < test
    assert {"sanity", "importer", "e2e", "molecule"} <= test - check


def test_a_single_gate_asks_for_root_only_where_it_has_the_machine_for_itself() -> None:
    assert {gate.name for gate in GATES if gate.alone} == GATES_ON_BEDS


def test_an_unknown_gate_is_answered_with_the_list() -> None:
    with pytest.raises(cli.UsageError, match="unknown gate 'lnit'; there are: payloads, "):
        cli.chosen(GATES, "only", ["lint", "lnit"])


@pytest.mark.parametrize("target", ["soak", "bench"])
def test_gates_are_not_passed_over_where_there_is_nothing_to_choose(target: str) -> None:
    make = ["make", "--dry-run", "--directory", str(cli.CHECKOUT), target, "GATE=lint"]
    said = subprocess.run(make, timeout=300, check=True, capture_output=True, text=True).stdout
    assert f"enter.sh {target} lint\n" in said
    with pytest.raises(cli.UsageError, match=f"'{target}' takes no names; .*: make check GATE='lint'"):
        cli.chosen(GATES, target, ["lint"])


def test_the_seed_is_drawn_unless_it_is_given() -> None:
    assert cli.drawn_seed({"CONVERGED_SEED": "42"}) == 42
    assert 0 <= cli.drawn_seed({}) < 2**32
    with pytest.raises(cli.UsageError, match="CONVERGED_SEED is 'x'"):
        cli.drawn_seed({"CONVERGED_SEED": "x"})


def test_old_log_folders_go(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"20260101-{number:06}-1").mkdir()

    fresh = cli.log_folder(tmp_path)

    kept = sorted(path.name for path in tmp_path.iterdir())
    assert len(kept) == cli.LOG_FOLDERS_KEPT
    assert fresh.exists()


def test_what_tools_leave_in_the_checkout_is_found_and_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True, timeout=300)
    (tmp_path / ".gitignore").write_text("cache/\n", encoding="utf-8")
    (tmp_path / "new.py").touch()
    assert strays(tmp_path) == set()
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "one").touch()
    assert strays(tmp_path) == {"cache/"}
    assert cli.summary([], logs=tmp_path, seconds=1.0, left=["cache/"]) == 1
    assert "FAILED: the run has left cache/ in the checkout" in capsys.readouterr().out
