# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is run against a fault, and what is made of the answer. The tests here are small scripts in a small checkout."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gates import catalogue
from mutations import cli, judging
from mutations.faults import Fault
from mutations.judging import Verdict, judge
from mutations.level import Command, again, failed_test, fast, hinted, last_begun, on_beds
from mutations.tree import CHECKOUT, Tree

FAULT = Fault(
    id="one", layer="hook", file="roles/a/files/a.py", before="x = 1", after="x = 2", breaks="x", hints=("tests/a",)
)
LOOK = "import sys; sys.path.insert(0, 'roles/a/files'); import a; "


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    source = tmp_path / "source"
    for name, text in {
        "roles/a/files/a.py": "x = 1\n",
        "roles/placement/files/placement/b.py": "",
        "tests/a": "",
        "tests/mutations/faults.toml": "",
        ".gitignore": "ignored\n",
        "ignored": "",
    }.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=source, check=True, timeout=60)
    found = Tree(tmp_path / "scratch")
    found.fill(source)
    yield found
    assert (source / "roles/a/files/a.py").read_text(encoding="utf-8") == "x = 1\n", "the checkout was changed"


def script(text: str, *, what: str = "script", seconds: float = 60) -> Command:
    return Command(what=what, argv=(sys.executable, "-c", text), seconds=seconds, env={"PYTHONDONTWRITEBYTECODE": "1"})


def test_the_copy_has_what_git_knows_and_not_the_list_itself(tree: Tree) -> None:
    there = {str(path.relative_to(tree.checkout)) for path in tree.checkout.rglob("*") if path.is_file()}
    assert {name for name in there if not name.startswith(".git/")} == {
        *(".gitignore", "roles/a/files/a.py", "roles/placement/files/placement/b.py", "tests/a"),
    }
    known = subprocess.run(["git", "ls-files"], cwd=tree.checkout, capture_output=True, text=True, check=True)
    assert "roles/a/files/a.py" in known.stdout.splitlines()


def test_a_fault_is_found_by_the_first_command_that_fails_and_is_gone_afterwards(tree: Tree) -> None:
    commands = [script("pass"), script(LOOK + "assert a.x == 1", what="looking"), script("assert False")]
    verdict = judge(FAULT, tree, commands, os.environ)
    assert (verdict.found, verdict.told()) == (True, "found by looking")
    assert (tree.checkout / FAULT.file).read_text(encoding="utf-8") == "x = 1\n"


def test_faults_are_judged_by_the_seeds_of_the_repository(tree: Tree) -> None:
    assert "CONVERGED_SEED" not in tree.environ({**os.environ, "CONVERGED_SEED": "7"})


def test_a_fault_that_no_command_notices_survives(tree: Tree) -> None:
    verdict = judge(FAULT, tree, [script(LOOK + "assert a.x in (1, 2)")], os.environ)
    assert (verdict.found, verdict.told()) == (False, "survived")


def test_a_test_that_fails_without_the_fault_as_well_finds_nothing(tree: Tree) -> None:
    verdict = judge(FAULT, tree, [script("print('why'); assert False", what="broken")], os.environ)
    assert not verdict.found
    assert "broken fails without the fault, too" in verdict.told()
    assert "why" in verdict.told()


def test_a_fault_with_which_tests_hang_is_found_by_timeout(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "GRACE_SECONDS", 1.0)
    text = LOOK + "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600 * (a.x == 2))"
    verdict = judge(FAULT, tree, [script(text, what="waiting", seconds=5)], os.environ)
    assert (verdict.found, verdict.told()) == (True, "found by timeout in waiting")


PYTEST = """\
tests/unit/test_a.py::test_one PASSED [ 50%]
tests/unit/test_a.py::test_two[a - b] FAILED [100%]
FAILED tests/unit/test_a.py::test_two[a b] - AssertionError: x - y
"""
PYTEST_COLLECTION = "ERROR tests/placement/kube/test_lease.py - ImportError: x\n"
UNITTEST = """\
test_one (test_a.Case.test_one) ... ok
test_two (test_a.Case.test_two) ... FAIL
FAIL: test_two (test_a.Case.test_two) [sub test]
"""
UNITTEST_OLD = "ERROR: test_two (test_a.Case)\n"
UNITTEST_CLASS = "ERROR: setUpClass (test_a.Case)\n"
UNITTEST_IMPORT = "ERROR: test_a (unittest.loader._FailedTest.test_a)\n"


@pytest.mark.parametrize(
    ("said", "test"),
    [
        (PYTEST, "tests/unit/test_a.py::test_two[a b]"),
        (PYTEST_COLLECTION, "tests/placement/kube/test_lease.py"),
        (UNITTEST, "test_a.Case.test_two"),
        (UNITTEST_OLD, "test_a.Case.test_two"),
        (UNITTEST_CLASS, "test_a.Case"),
        (UNITTEST_IMPORT, "test_a"),
        ("Killed\n", ""),
    ],
)
def test_the_test_that_failed_is_read_from_what_was_said(said: str, test: str) -> None:
    assert failed_test(said) == test


def test_the_test_that_hung_is_the_last_that_was_begun() -> None:
    assert last_begun(PYTEST.partition(" FAILED")[0]) == "tests/unit/test_a.py::test_two[a"
    assert last_begun(UNITTEST.partition(" ... FAIL")[0]) == "test_a.Case.test_two"
    assert last_begun("") == ""


def test_a_test_is_run_again_with_all_its_parameters(tree: Tree) -> None:
    assert again("tests/unit/test_a.py::test_two[a b]", tree.checkout).argv[-1] == "tests/unit/test_a.py::test_two"
    repeated = again("test_a.Case.test_two", tree.checkout)
    assert (repeated.argv[-1], repeated.cwd) == ("test_a.Case.test_two", "tests/payloads")
    assert again("tests/pbs", tree.checkout).argv[-1] == "tests/pbs"


def test_the_fast_level_has_every_folder_of_tests_that_needs_no_bed(tree: Tree) -> None:
    commands = list(fast(tree.checkout))
    gates = [gate.name for gate in catalogue.gates() if (CHECKOUT / "tests" / gate.name).is_dir() and not gate.on_bed]
    assert {"unit", "placement", "rehearsals", "payloads", "pbs", "torque"} <= {*gates}
    assert sorted(command.what for command in commands) == sorted(f"tests/{name}" for name in gates)
    (payloads,) = [command for command in commands if command.what == "tests/payloads"]
    assert payloads.path == ("roles/a/files",), "every payload is on the path, and the daemon is none"
    assert {"-f", "discover"} < set(payloads.argv)
    assert all("-x" in command.argv for command in commands if command is not payloads)


def test_hinted_files_come_first_and_those_that_are_gone_are_passed_over(tree: Tree) -> None:
    (tree.checkout / "tests/payloads").mkdir()
    (tree.checkout / "tests/payloads/test_b.py").touch()
    fault = dataclasses.replace(FAULT, hints=("tests/payloads/test_b.py", "tests/a", "tests/gone"))
    first, second = hinted(fault, tree.checkout)
    assert first.argv[-1] == "tests/a"
    assert (second.argv[-1], second.cwd) == ("test_b", "tests/payloads")


def test_what_looks_at_a_fault_on_beds_is_run_by_its_own_program() -> None:
    fault = dataclasses.replace(FAULT, beyond=("tests/e2e/test_a.py", "extensions/molecule/share", "demo"))
    ends = [command.argv[-1] for command in on_beds(fault)]
    assert ends == ["tests/e2e/test_a.py", "share", "demo"]


def verdict(test: str = "", *, beyond: tuple[str, ...] = (), unsure: str = "") -> Verdict:
    return Verdict(fault=dataclasses.replace(FAULT, beyond=beyond), seconds=1.0, test=test, unsure=unsure)


def test_the_table_counts_what_was_found_and_what_survived() -> None:
    some = [verdict("tests/a"), verdict(), verdict(beyond=("demo",)), verdict("tests/b", unsure="it fails always")]
    told = cli.table(some, seconds=9, level="fast")
    assert "hook: 1 of 4 found" in told
    assert told.endswith("1 found, 2 survived, 1 unsure; 9 s")
    assert "survived; seen by demo" in told
    amiss = [cli.is_amiss(one, level="fast") for one in some]
    assert amiss == [False, True, False, True]
    assert cli.is_amiss(some[2], level="e2e")


def test_a_name_that_does_not_exist_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "nothing"]) == 2
    assert capsys.readouterr().err.startswith("error: nothing: there is no such fault and no such layer")


@pytest.mark.prose  # it copies every file
def test_a_copy_with_a_fault_shows_how_it_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["apply", "hook-undo", str(tmp_path / "copy")]) == 0
    said = capsys.readouterr().out
    assert "-    if outcome != ACCEPT:" in said
    assert "+    if outcome == DRAIN:" in said
    assert cli.main(["apply", "hook-undo", str(tmp_path / "copy")]) == 2
