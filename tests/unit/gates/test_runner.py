# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How gates are chosen, run and reported."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bootstrap.cli import GATES_ON_BEDS
from gates import asked, catalogue, cli, timings
from gates.checkout import strays
from gates.file_sets import FileMap
from gates.gate import LONGEST_LIMIT, Context, Gate, GateFailure
from gates.lengthy import RANDOM_PARTS
from gates.pool import Outcome, in_order, run_gates
from gates.process import INTERRUPTED, TIMED_OUT, run
from gates.sanity import a_home
from gates.stamps import Stamps
from testbed.images import MANIFEST
from testbed.recipe import Recipe

GATES = catalogue.gates()


def gate(
    name: str, action: Callable[[Context], None], *, on_bed: bool = False, reads: tuple[str, ...] | None = None
) -> Gate:
    return Gate(name=name, action=action, tiers=frozenset({"check"}), on_bed=on_bed, reads=reads)


def passes(context: Context) -> None:
    context.say("well")


def fails(context: Context) -> None:
    context.say("line one\nSHOW shown")
    raise GateFailure("it is broken")


def crashes(context: Context) -> None:
    raise KeyError("gone")


@pytest.fixture(autouse=True)
def no_durations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start gates in an order that no refreshed duration changes: the gate `unit` does not read their file."""
    monkeypatch.setattr(timings, "kept_durations", dict)


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
    gates = [gate("bad", fails), gate("worse", crashes), gate("good", passes), gate("last", passes, on_bed=True)]

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


def test_the_end_names_the_tests_that_failed(
    context: Callable[[Gate], Context], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails_in_tests(using: Context) -> None:
        using.say("tests/unit/test_it.py::test_one FAILED [ 50%]")
        using.say("FAILED tests/unit/test_it.py::test_one - assert 1 == 2")
        using.say("ERROR tests/unit/test_it.py::test_two - " + "x" * 1000)
        raise GateFailure("it is broken")

    outcomes = run_gates([gate("bad", fails_in_tests)], context)
    capsys.readouterr()

    cli.summary(outcomes, logs=tmp_path, seconds=3.2)

    one, two, logs = capsys.readouterr().out.splitlines()[1:4]
    assert one == "  FAILED tests/unit/test_it.py::test_one - assert 1 == 2"
    assert two.startswith("  ERROR tests/unit/test_it.py::test_two - xxx")
    assert len(two) < 320
    assert logs.startswith("all logs")


def test_the_end_says_how_many_gates_have_not_been_run(
    context: Callable[[Gate], Context], stamped: Callable[..., Stamps], capsys: pytest.CaptureFixture[str]
) -> None:
    one, always = gate("one", passes, reads=("one",)), gate("always", passes)
    run_gates([one], context, stamps=stamped())

    assert cli.summary(run_gates([one, always], context, stamps=stamped()), logs=stamped().folder, seconds=1.0) == 0

    assert capsys.readouterr().out.splitlines()[-1] == "2 passed (1 of them earlier), 0 failed"


def test_gates_on_beds_wait_until_the_caches_are_filled(context: Callable[[Gate], Context]) -> None:
    order: list[str] = []
    began = threading.Event()

    def fill(_context: Context) -> None:
        assert began.wait(60), "what needs no bed runs meanwhile"
        order.append("supplies")

    def note(name: str) -> Callable[[Context], None]:
        return lambda _context: order.append(name)

    def plain(_context: Context) -> None:
        order.append("plain")
        began.set()

    run_gates([gate("bed", note("bed"), on_bed=True), gate("plain", plain), gate("supplies", fill)], context)

    assert order == ["plain", "supplies", "bed"]


def test_without_supplies_gates_on_beds_fail_and_the_others_run(
    context: Callable[[Gate], Context], capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = run_gates(
        [gate("bed", passes, on_bed=True), gate("supplies", fails), gate("plain", passes)], context, workers=1
    )

    assert {one.gate.name: one.failure for one in outcomes} == {
        "supplies": "it is broken",
        "bed": "the gate 'supplies' failed, so there is no bed",
        "plain": "",
    }
    assert "[ 3/3]" in capsys.readouterr().out


def test_the_longest_gate_starts_first_and_an_unknown_one_is_taken_for_long() -> None:
    gates = [gate(name, passes) for name in ("short", "long", "unknown", "supplies")]
    durations = {"short": 5.0, "long": 400.0, "supplies": 1.0}

    assert [one.name for one in in_order(gates, durations)] == ["supplies", "long", "unknown", "short"]


def test_no_more_gates_run_at_once_than_there_are_workers(context: Callable[[Gate], Context]) -> None:
    lock, counts = threading.Lock(), [0, 0]
    three = threading.Barrier(3, timeout=60)

    def action(_context: Context) -> None:
        with lock:
            counts[0] += 1
            counts[1] = max(counts)
        three.wait()
        with lock:
            counts[0] -= 1

    outcomes = run_gates([gate(str(number), action) for number in range(9)], context, workers=3)

    assert [one.failure for one in outcomes] == [""] * 9
    assert counts == [0, 3]


def test_a_gate_that_must_be_alone_starts_when_nothing_runs_and_nothing_starts_beside_it(
    context: Callable[[Gate], Context],
) -> None:
    lock, running, seen = threading.Lock(), set[str](), dict[str, set[str]]()
    three = threading.Barrier(3, timeout=60)

    def action(context: Context) -> None:
        name = context.log.stem
        with lock:
            running.add(name)
            for one in running:
                seen.setdefault(one, set()).update(running)
        if name not in ("alone", "other"):
            three.wait()
        with lock:
            running.discard(name)

    alone = dataclasses.replace(gate("alone", action), alone=True)
    other = dataclasses.replace(gate("other", action), alone=True)
    durations = {"alone": 900.0, "other": 800.0, "third": 0.1}

    outcomes = run_gates(
        [alone, *(gate(name, action) for name in ("one", "two", "third")), other],
        context,
        durations=durations,
        workers=3,
    )

    assert [one.failure for one in outcomes] == [""] * 5
    assert (seen["alone"], seen["other"]) == ({"alone"}, {"other"})


def test_of_soak_only_the_part_that_waits_for_no_bed_and_those_on_virtual_machines_run_alone() -> None:
    assert {one.name for one in GATES if one.alone and one.also != "vm"} == {"soak-e2e-bed"}
    assert all(one.alone for one in GATES if one.also == "vm")


@pytest.fixture
def stamped(tmp_path: Path) -> Callable[..., Stamps]:
    """A checkout of two files, `a` and `b`, of which `b` belongs to no set."""
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "init", "--quiet", str(checkout)], check=True, timeout=300)
    for name in ("a", "b", "c"):
        (checkout / name).write_text(name, encoding="utf-8")
    files = FileMap({"one": ("a",), "other": ("c",)}, {}, ())
    environ = {"VIRTUAL_ENV": "/nowhere/dev-1", "CONVERGED_CACHE": str(tmp_path), "PATH": "/usr/bin:/bin"}
    environ["HOME"] = str(tmp_path)  # no interpreters of pyenv: each is started to see what it is

    def make(*, fresh: bool = False, **variables: str) -> Stamps:
        return Stamps(tmp_path / "passed", files, checkout, {**environ, **variables}, fresh=fresh)

    return make


def test_a_gate_that_passed_on_the_same_files_is_not_run_again(
    context: Callable[[Gate], Context], stamped: Callable[..., Stamps], capsys: pytest.CaptureFixture[str]
) -> None:
    runs: list[int] = []
    one = gate("one", lambda _context: runs.append(1), reads=("one",))
    checkout = stamped().checkout

    def ran(**options: object) -> int:
        runs.clear()
        run_gates([one], context, stamps=stamped(**options))
        return len(runs)

    assert (ran(), ran()) == (1, 0)
    assert re.search(r"one +cached: passed at \d{4}-", capsys.readouterr().out)
    assert ran(fresh=True) == 1, "FRESH=1 believes nothing"
    assert ran(CONVERGED_KEEP_BED="1") == 1, "a bed that was kept may hide what a new one shows"
    (checkout / "c").write_text("changed", encoding="utf-8")
    assert ran() == 0, "the gate does not read that set"
    (checkout / "a").write_text("changed", encoding="utf-8")
    assert (ran(), ran()) == (1, 0)
    (checkout / "a").chmod(0o755)
    assert (ran(), ran()) == (1, 0)
    (checkout / "b").write_text("changed", encoding="utf-8")
    assert (ran(), ran()) == (1, 0), "a file of no set runs everything"
    (checkout / "new").touch()
    assert (ran(), ran()) == (1, 0), "a file that git does not know yet counts"
    (checkout / "new").unlink()
    assert ran() == 0, "these inputs have passed"


def test_a_gate_that_failed_or_whose_files_changed_meanwhile_is_run_again(
    context: Callable[[Gate], Context], stamped: Callable[..., Stamps]
) -> None:
    checkout = stamped().checkout
    edit = gate("edit", lambda _context: (checkout / "a").write_text(str(time.monotonic_ns())) and None, reads=("one",))
    always = gate("always", passes)
    for one in (gate("bad", fails, reads=("one",)), edit, always):
        run_gates([one], context, stamps=stamped())
        assert not run_gates([one], context, stamps=stamped())[0].cached


def test_another_seed_and_a_quick_run_are_other_inputs(
    context: Callable[[Gate], Context], stamped: Callable[..., Stamps]
) -> None:
    one = gate("one", passes, reads=("one",))
    using = context(one)
    others = [using, dataclasses.replace(using, seed=2), dataclasses.replace(using, quick=False)]

    assert len({stamped().key(one, other) for other in others}) == 3


@pytest.mark.parametrize(("variable", "usual"), [("PBS_EXEC", "/opt/pbs"), ("TORQUE_EXEC", "/opt/torque")])
def test_a_stamp_of_the_double_of_a_batch_system_is_not_believed_for_an_installed_one(
    variable: str, usual: str, context: Callable[[Gate], Context], stamped: Callable[..., Stamps], tmp_path: Path
) -> None:
    one = gate("one", passes, reads=("one",))
    using = context(one)

    def installed(folder: str) -> str:
        server = tmp_path / folder / "sbin/pbs_server"
        server.parent.mkdir(parents=True)
        server.touch()
        os.utime(server, (1, 1))
        return str(tmp_path / folder)

    def key(**variables: str) -> str | None:
        return stamped(**variables).key(one, using)

    double = key(**{variable: ""})
    here, there = installed("here"), installed("there")
    if not Path(usual, "sbin/pbs_server").exists():
        assert key() == double, f"unset means {usual}, where there is none"
    assert key(**{variable: str(tmp_path)}) == double, "a folder without a server has no batch system"
    real = key(**{variable: here})
    assert len({double, real, key(**{variable: there})}) == 3
    os.utime(f"{here}/sbin/pbs_server", (2, 2))
    newer = key(**{variable: here})
    assert newer not in (double, real), "it was installed anew"


def test_beds_with_programs_of_the_users_own_leave_no_stamp(
    context: Callable[[Gate], Context], stamped: Callable[..., Stamps]
) -> None:
    bed, plain = gate("bed", passes, on_bed=True, reads=("one",)), gate("plain", passes, reads=("one",))
    for one, cached in ((bed, False), (plain, True)):
        run_gates([one], context, stamps=stamped(CONVERGED_BIN_DIR="/srv/bin"))
        again = run_gates([one], context, stamps=stamped(CONVERGED_BIN_DIR="/srv/bin"))
        assert bool(again[0].cached) == cached


def test_the_container_engine_decides_for_beds_and_every_patch_level_of_python_for_all(
    context: Callable[[Gate], Context], stamped: Callable[..., Stamps], tmp_path: Path
) -> None:
    def program(name: str, text: str) -> None:
        path = tmp_path / "programs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def keys() -> tuple[str | None, str | None]:
        stamps = stamped(PATH=f"{tmp_path}/programs:/usr/bin:/bin")
        bed, plain = gate("bed", passes, on_bed=True, reads=("one",)), gate("plain", passes, reads=("one",))
        return stamps.key(bed, context(bed)), stamps.key(plain, context(plain))

    program("dpkg-query", "echo podman 4.3.1")
    before = keys()
    assert keys() == before
    program("dpkg-query", "echo podman 4.3.2")
    other_engine = keys()
    assert (other_engine[0] == before[0], other_engine[1] == before[1]) == (False, True)
    patch = 'case "$2" in *version_info*) echo 3 99 ;; *) echo 3.99.{} ;; esac'
    program("python3.99", patch.format(1))
    one_python = keys()
    program("python3.99", patch.format(2))
    assert not {*one_python} & {*keys()}


def test_a_key_asks_the_tool_chain_once_a_run(
    context: Callable[[Gate], Context], stamped: Callable[..., Stamps], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go-of-the-user/go"
    go.parent.mkdir()
    go.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked\necho go1.99.1 amd64\n", encoding="utf-8")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:{os.environ['PATH']}")
    bed = gate("bed", passes, on_bed=True, reads=("one",))
    stamps = stamped()
    assert stamps.key(bed, context(bed)) == stamps.key(bed, context(bed))
    assert (tmp_path / "asked").read_text(encoding="utf-8") == "asked\n"


def test_images_of_another_checkout_are_none_that_a_bed_here_can_have(
    context: Callable[[Gate], Context], stamped: Callable[..., Stamps], tmp_path: Path
) -> None:
    bed = gate("bed", passes, on_bed=True, reads=("one",))

    def key(name: str, content: str) -> str | None:
        (tmp_path / "images" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / name / MANIFEST).write_text(content, encoding="utf-8")
        return stamped().key(bed, context(bed))

    ours = key(Recipe(12).key, "built")
    assert key("debian12-node-000000000000", "of another recipe") == ours
    assert key(Recipe(12).key, "built anew") != ours


def test_old_stamps_and_those_that_a_kill_left_unfinished_are_removed(
    context: Callable[[Gate], Context], stamped: Callable[..., Stamps]
) -> None:
    one = gate("one", passes, reads=("one",))
    run_gates([one], context, stamps=stamped())
    folder = stamped().folder / "one"
    (young,) = folder.glob("*.json")
    for name, age in (("old.json", 15 * 24 * 3600), (".k.json.12", 3600), (".k.json.13", 0)):
        (folder / name).touch()
        os.utime(folder / name, (time.time() - age,) * 2)
    (folder / "gone.json").symlink_to(folder / "nothing")  # as for a stamp that another run has removed meanwhile

    stamped().remove_old()

    assert {path.name for path in folder.iterdir()} == {young.name, ".k.json.13", "gone.json"}


def test_a_stamp_that_was_cut_short_counts_for_nothing(
    context: Callable[[Gate], Context], stamped: Callable[..., Stamps]
) -> None:
    one = gate("one", passes, reads=("one",))
    run_gates([one], context, stamps=stamped())
    (stamp,) = stamped().folder.glob("one/*.json")
    stamp.write_text('{"at": 1', encoding="utf-8")

    assert not run_gates([one], context, stamps=stamped())[0].cached


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

cli.gates = lambda: (Gate(name="slow", action=slow, tiers=frozenset()),)
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
    assert {"sanity", "importer", "e2e-handover", "molecule-share", "demo"} <= test - check


def test_every_name_is_of_one_gate_and_of_no_group() -> None:
    names = [one.name for one in GATES]
    assert len({*names}) == len(names)
    assert not {*names} & {one.group for one in GATES}


def test_no_gate_of_every_change_may_take_longer_than_forty_minutes() -> None:
    assert max(one.limit for one in GATES if one.tiers & {"check", "test", "bench"}) <= LONGEST_LIMIT
    assert max(one.limit for one in GATES) <= 80 * 60


def test_only_gates_on_beds_ask_for_root() -> None:
    for one in GATES:
        on_bed = one.on_bed or one.name == "supplies"
        without = one.name in RANDOM_PARTS or one.name.startswith(("soak-payloads", "soak-sanity"))
        assert without or on_bed == (one.name.partition("-")[0] in GATES_ON_BEDS), one.name
    assert {name for one in GATES if one.on_bed for name in (one.group, one.also)} - {""} <= GATES_ON_BEDS


def test_an_unknown_gate_is_answered_with_the_list() -> None:
    said = r"unknown gate 'lnit' \(did you mean unit or lint\?\); there are: supplies, payloads, .* e2e .e2e-bed, "
    with pytest.raises(asked.UsageError, match=said):
        cli.chosen(GATES, "only", ["lint", "lnit"])
    with pytest.raises(asked.UsageError, match="unknown gate 'xyzzy'; there are: supplies, "):
        cli.chosen(GATES, "only", ["xyzzy"])
    with pytest.raises(asked.UsageError, match="no gate named; there are: supplies, "):
        cli.chosen(GATES, "only", [])


@pytest.mark.parametrize("target", ["soak", "bench"])
def test_parts_of_soak_and_bench_run_one_by_one_and_others_are_refused(target: str) -> None:
    make = ["make", "--dry-run", "--directory", str(cli.CHECKOUT), target, "GATE=lint"]
    said = subprocess.run(make, timeout=300, check=True, capture_output=True, text=True).stdout
    assert f"enter.sh {target} lint\n" in said
    with pytest.raises(asked.UsageError, match=rf"unknown gate 'lint'; there are: supplies; {target} \({target}-"):
        cli.chosen(GATES, target, ["lint"])
    names = {one.name for one in cli.chosen(GATES, target, [])} - {"supplies"}
    assert {one.name for one in cli.chosen(GATES, target, [target])} - {"supplies"} == names


def test_the_demos_switches_take_one_or_zero_and_anything_else_is_refused_by_name() -> None:
    def dry_run(*given: str) -> subprocess.CompletedProcess[str]:
        make = ["make", "--dry-run", "--directory", str(cli.CHECKOUT), "demo", *given]
        return subprocess.run(make, timeout=300, check=False, capture_output=True, text=True)

    assert dry_run("SPARK=1", "KEEP=1").stdout.split("enter.sh ")[1].split("\n")[0].split() == ["demo-spark", "--keep"]
    for given in ([], ["SPARK=0", "KEEP=0"], ["SPARK=", "KEEP="]):
        assert dry_run(*given).stdout.split("enter.sh ")[1].split("\n")[0].split() == ["demo"]
    for name in ("SPARK", "KEEP"):
        refused = dry_run(f"{name}=perhaps")
        assert refused.returncode == 2
        assert f"{name} is 'perhaps'; it takes 1 (yes) or 0 (no)" in refused.stderr


def test_a_group_is_all_its_gates_and_what_fills_the_caches_comes_along() -> None:
    named = [one.name for one in cli.chosen(GATES, "only", ["molecule", "lint"])]
    assert named[:2] == ["supplies", "lint"]
    assert all(name.startswith("molecule-") for name in named[2:])
    assert len(named) > 3
    assert [one.name for one in cli.chosen(GATES, "only", ["lint"])] == ["lint"]


def test_one_word_asks_for_all_long_tests_on_virtual_machines_and_only_their_short_story_is_part_of_every_change() -> (
    None
):
    long = ["soak-e2e-vm", *(f"soak-e2e-vm-{name}" for name in ("site", "conversion", "cores", "pbs", "selinux"))]
    assert [one.name for one in cli.chosen(GATES, "soak", ["vm"])] == ["supplies", *long]
    assert [one.name for one in cli.chosen(GATES, "only", ["vm"])] == ["supplies", *long]
    assert [one.name for one in cli.chosen(GATES, "test", []) if one.name.startswith("e2e-vm")] == ["e2e-vm"]
    assert "vm (soak-e2e-vm, soak-e2e-vm-site, " in cli.listed(GATES)
    assert "vm" not in {word for one in GATES if one.name not in long for word in cli.words(one)}


def test_the_seed_is_the_repositorys_unless_one_is_given() -> None:
    assert asked.seed_of({"CONVERGED_SEED": "42"}) == 42
    assert asked.seed_of({}) is asked.seed_of({"CONVERGED_SEED": ""}) is None
    for wrong in ("x", "-1", "1.5", "²", "٣", str(2**32)):
        with pytest.raises(asked.UsageError, match=f"CONVERGED_SEED is '{wrong}'; it takes a number from 0 to"):
            asked.seed_of({"CONVERGED_SEED": wrong})


@pytest.mark.parametrize(
    ("words", "given", "drawn"),
    [
        (["soak"], {}, {"soak-unit": True, "soak-e2e-bed": True}),
        (["only", "lint", "soak-unit"], {}, {"lint": False, "soak-unit": True}),
        (["only", "lint", "unit"], {}, {"lint": False, "unit": False}),
        # A gate that draws nothing proves the same with every seed.
        (
            ["only", "lint", "unit", "soak-unit"],
            {"CONVERGED_SEED": "7"},
            {"lint": False, "unit": True, "soak-unit": True},
        ),
    ],
)
def test_a_part_of_soak_draws_a_seed_however_it_is_started_and_no_other_gate_does(
    words: list[str], given: dict[str, str], drawn: dict[str, bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seeds: list[dict[str, int | None]] = []

    def note(wanted: list[Gate], make: Callable[[Gate], Context], **_options: object) -> list[Outcome]:
        seeds.append({one.name: make(one).seed for one in wanted})
        return []

    monkeypatch.setattr(cli, "run_gates", note)
    monkeypatch.setattr(cli, "heed_interrupts", lambda: None)
    monkeypatch.setattr(cli, "strays", lambda _checkout: set())
    monkeypatch.delenv("CONVERGED_SEED", raising=False)
    for number in ("1", "2"):
        folder = str(tmp_path / number)
        for name, value in {**given, "CONVERGED_CACHE": folder, "CONVERGED_OWN_CACHE": folder}.items():
            monkeypatch.setenv(name, value)
        assert cli.main(words) == 0

    for name, has_one in drawn.items():
        assert [one[name] is not None for one in seeds] == [has_one] * 2
        assert (seeds[0][name] != seeds[1][name]) == (has_one and not given)


@pytest.mark.parametrize("variable", ["PYTEST_ADDOPTS", "NODESHARE_HISTORIES", "MAY_DIFFER", "BED_WLM"])
def test_what_a_shell_sets_for_single_tests_weakens_no_gate(
    variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(variable, "1")
    assert variable not in cli.context(gate("one", passes), logs=tmp_path, seed=None, quick=True).environ


def test_gates_see_the_same_hash_seed_and_only_a_seed_that_was_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CONVERGED_SEED", "7")
    for seed, seen in ((None, None), (3, "3")):
        environ = cli.context(gate("one", passes), logs=tmp_path, seed=seed, quick=True).environ
        assert (environ.get("CONVERGED_SEED"), environ["PYTHONHASHSEED"]) == (seen, "0")


def test_fresh_is_yes_or_no() -> None:
    assert [asked.is_fresh(environ) for environ in ({}, {"FRESH": ""}, {"FRESH": "0"}, {"FRESH": "1"})] == [
        *[False] * 3,
        True,
    ]
    with pytest.raises(asked.UsageError, match="FRESH is 'maybe'; it takes 1 .* or 0"):
        asked.is_fresh({"FRESH": "maybe"})


def test_a_run_ends_with_what_took_longest_and_keeps_it(context: Callable[[Gate], Context], tmp_path: Path) -> None:
    outcomes = run_gates([gate("good", passes), gate("bad", fails)], context)
    (tmp_path / "timings").mkdir()
    (tmp_path / "timings/good.json").write_text(
        json.dumps({f"t{number}": float(number) for number in range(30)}), encoding="utf-8"
    )

    lines = list(timings.slowest(outcomes, tmp_path))
    timings.write_run(outcomes, tmp_path)

    assert [line.split()[-1] for line in lines[-20:]] == [f"t{number}" for number in range(29, 9, -1)]
    assert {line.split()[-1] for line in lines[1:3]} == {"good", "bad"}
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8")).keys() == {"good"}


def test_a_run_says_how_busy_the_processors_were(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 10 30 800 40 5 5 10 7 0\ncpu0 1 2 3\n", encoding="utf-8")
    before = timings.processor_ticks(stat)
    assert before == (160, 1000)
    stat.write_text("cpu  150 20 45 810 45 5 5 10 99 0\n", encoding="utf-8")
    assert timings.busy_since(before, stat) == "processors of the machine: busy 83 % of the time"
    assert timings.busy_since(timings.processor_ticks(stat), stat).endswith("busy 0 % of the time")


@pytest.mark.parametrize(("tier", "kept"), [("test", True), ("check", False), ("only", False)])
def test_only_whole_runs_keep_durations_because_a_quick_gate_does_less(
    tier: str, kept: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("CONVERGED_CACHE", "CONVERGED_OWN_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(cli, "strays", lambda _checkout: set())

    assert cli.run([gate("one", passes)], tier=tier, given=None, drawn=None, fresh=False) == 0

    assert bool([*tmp_path.glob("logs/*/run.json")]) == kept


def test_durations_are_those_of_the_newest_run_of_each_gate(tmp_path: Path) -> None:
    for run_name, seconds in {"20260101-000000-1": {"a": 1.0, "b": 2.0}, "20260102-000000-1": {"b": 3.0}}.items():
        (tmp_path / run_name).mkdir()
        (tmp_path / run_name / "run.json").write_text(json.dumps(seconds), encoding="utf-8")

    found, missing = timings.refreshed({"gone": 9.0, "c": 5.0}, tmp_path, ["a", "b", "c", "d"])

    assert found == {"a": 1.0, "b": 3.0, "c": 5.0}
    assert missing == ["d"]


def test_the_plugin_counts_the_seconds_of_a_test_with_its_fixtures(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import time, pytest\n\n@pytest.fixture\ndef slow():\n    time.sleep(0.2)\n    yield\n    time.sleep(0.2)\n\n"
        "def test_one(slow):\n    time.sleep(0.2)\n",
        encoding="utf-8",
    )
    argv = [sys.executable, "-m", "pytest", "-q", "--disable-plugin-autoload", "-p", "gates.timings"]
    argv += ["-c", "/dev/null", str(tmp_path)]
    environ = {**os.environ, "CONVERGED_TIMINGS": str(tmp_path / "timings/one.json")}
    subprocess.run(argv, env=environ, cwd=tmp_path, capture_output=True, check=True, timeout=300)

    ((name, seconds),) = json.loads((tmp_path / "timings/one.json").read_text(encoding="utf-8")).items()

    assert name.endswith("test_it.py::test_one")
    assert seconds > 0.6


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


def test_checkouts_share_the_home_of_ansible_test_but_never_at_once(
    context: Callable[[Gate], Context], tmp_path: Path
) -> None:
    one = dataclasses.replace(context(gate("sanity", passes)), own=tmp_path / "one")
    other = dataclasses.replace(one, own=tmp_path / "other")

    with a_home(one) as common, a_home(other) as own:
        assert common.is_relative_to(tmp_path / "sanity")
        assert own.is_relative_to(tmp_path / "other")
    with a_home(other) as later:
        assert later == common
