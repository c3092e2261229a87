# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs for hours keeps to its time and loses nothing on the way."""

from __future__ import annotations

import dataclasses
import os
import re
import runpy
import subprocess
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path

import pytest
from bench import _figures
from gates import payloads, sanity
from gates.file_sets import Scope
from gates.gate import Context, GateFailure
from gates.lengthy import CHURN_PARTS, DRAWING_TESTS, RANDOM_PARTS, bench_parts, soak_parts

REPOSITORY = Path(__file__).resolve().parents[3]
SCRIPTS = sorted(path for path in (REPOSITORY / "tests/bench").glob("*.py") if not path.name.startswith("_"))
SCOPE = Scope(name="e2e-one", tests=("tests/e2e",), reads=(), soak=True, repeated=2)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A checkout with nothing in it but what a test writes."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path / "checkout")], check=True, timeout=300)
    (tmp_path / "checkout/pyproject.toml").write_text(
        "[tool.converged]\ndaemon = []\n[tool.pytest.ini_options]\n"
        "addopts = ['--disable-plugin-autoload', '-p', '_hypothesis_pytestplugin']\n",
        encoding="utf-8",
    )
    return Context(
        checkout=tmp_path / "checkout",
        cache=tmp_path,
        own=tmp_path,
        scratch=tmp_path,
        logs=tmp_path,
        seed=7,
        quick=False,
        environ={
            "PATH": os.environ["PATH"],
            "CONVERGED_SEED": "7",
            "PYTHONPATH": str(REPOSITORY / "tests"),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        log=tmp_path / "soak-e2e-one.log",
        deadline=time.monotonic() + 120,
    )


def write(context: Context, name: str, text: str) -> None:
    path = context.checkout / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_soak_has_a_part_for_every_kind_of_long_test() -> None:
    quiet = dataclasses.replace(SCOPE, name="e2e-other", soak=False, repeated=0)

    names = [part.name for part in soak_parts((SCOPE, quiet))]

    scopes = ["soak-e2e-one", "soak-e2e-one-1", "soak-e2e-one-2"]
    assert names == [
        "soak-payloads",
        "soak-payloads-everywhere",
        "soak-sanity-everywhere",
        *RANDOM_PARTS,
        *CHURN_PARTS,
        *scopes,
    ]


def test_soak_runs_the_sanity_tests_that_every_change_leaves_out(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[str, ...]] = []
    monkeypatch.setattr(sanity, "_interpreters", lambda _context: {})
    monkeypatch.setattr(sanity, "_run_on_what_ships", lambda _context, _found, *options: given.append(options))
    sanity.run_sanity(context)
    sanity.run_sanity_everywhere(context)

    every_change, soak = given
    assert set(every_change[::2]) == {"--skip-test"}
    assert set(soak[::2]) == {"--test"}
    assert set(every_change[1::2]) <= set(soak[1::2])


def test_a_part_runs_all_tests_of_its_scope_but_those_that_are_repeated(context: Context) -> None:
    write(
        context,
        "tests/e2e/conftest.py",
        "import hypothesis\n"
        "hypothesis.settings.register_profile('soak', max_examples=2000)\n"
        "def pytest_configure(config):\n"
        + "".join(
            f"    config.addinivalue_line('markers', '{mark}')\n"
            for mark in ("hypothesis", "drawn", "soak", "repeated")
        )
        + "def pytest_addoption(parser):\n    parser.addoption('--part')\n",
    )
    write(
        context,
        "tests/e2e/test_it.py",
        """
import hypothesis
import pytest

def test_short(): pass

@pytest.mark.soak
def test_long(): assert hypothesis.settings().max_examples == 2000

@pytest.mark.soak
@pytest.mark.repeated
def test_again(): pass
""",
    )
    parts = {part.name: part for part in soak_parts((SCOPE,))}
    parts["soak-e2e-one"].action(context)
    assert re.findall(r"::(test_\w+) PASSED", context.log.read_text(encoding="utf-8")) == ["test_short", "test_long"]
    context.log.unlink()
    parts["soak-e2e-one-2"].action(context)
    said = context.log.read_text(encoding="utf-8")
    assert re.findall(r"::(test_\w+) PASSED", said) == ["test_again"]
    assert "--part=2/2" in said
    assert (context.logs / "timings/soak-e2e-one.json").exists()


def test_the_parts_of_a_scope_are_all_its_tests_once_and_a_wrong_part_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\n@pytest.mark.parametrize('number', range(7))\ndef test_one(number):\n    pass\n",
        encoding="utf-8",
    )

    def said(part: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "pytest", "-v", "-c", "/dev/null", "--disable-plugin-autoload"]
        argv += ["-p", "e2e.conftest", f"--part={part}", "."]
        return subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    seen = [re.findall(r"test_one\[(\d)\] PASSED", said(f"{number}/3").stdout) for number in (1, 2, 3)]

    assert seen == [["0", "3", "6"], ["1", "4"], ["2", "5"]]
    for wrong in ("0/3", "4/3", "1", "x/y"):
        assert f"--part is '{wrong}'; it takes K/N with K from 1 to N" in said(wrong).stderr


CLASSES = """
import unittest

from marks import oldest_python_only


class First(unittest.TestCase):
    def test_one(self):
        print("ran: first")

    @oldest_python_only
    def test_two(self):
        print("ran: many")


class Second(unittest.TestCase):
    def test_one(self):
        print("ran: second")
"""


@pytest.fixture
def two_classes(context: Context, monkeypatch: pytest.MonkeyPatch) -> Context:
    """A checkout with two classes of payloads' tests, and two interpreters."""
    write(context, "tests/payloads/test_classes.py", CLASSES)
    for name in ("tests/payloads/marks.py", "tests/gates/unittest_under.py"):
        write(context, name, (REPOSITORY / name).read_text(encoding="utf-8"))
    python = Path(sys.executable)
    monkeypatch.setattr(payloads, "_interpreters", lambda _context: {(3, 6): python, (3, 9): python, (3, 13): python})
    return context


@pytest.mark.parametrize(
    ("quick", "first", "many", "second"),
    [(False, 2, 1, 2), (True, 1, 0, 1)],
    ids=["every change", "quick look"],
)
def test_payloads_run_each_test_once_and_those_of_the_oldest_python_under_it_alone(
    two_classes: Context, quick: bool, first: int, many: int, second: int
) -> None:
    payloads.run_payload_tests(dataclasses.replace(two_classes, quick=quick))
    said = two_classes.log.read_text(encoding="utf-8")
    assert [said.count(f"ran: {name}") for name in ("first", "many", "second")] == [first, many, second]


def test_soak_runs_all_of_them_under_each_python(two_classes: Context) -> None:
    payloads.run_payload_tests_everywhere(two_classes)
    said = two_classes.log.read_text(encoding="utf-8")
    assert [said.count(f"ran: {name}") for name in ("first", "many", "second")] == [3, 3, 3]


def test_tests_of_payloads_that_are_in_no_part_are_missed(two_classes: Context) -> None:
    program = "tests/gates/unittest_under.py"
    text = (two_classes.checkout / program).read_text(encoding="utf-8")
    write(two_classes, program, text.replace("== number - 1", "== 0"))
    with pytest.raises(GateFailure, match=r"4 tests ran under Python 3\.6, 0 were left out of 3"):
        payloads.run_payload_tests_everywhere(two_classes)


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "x/y"])
def test_a_wrong_part_of_the_payloads_tests_is_refused(part: str, tmp_path: Path) -> None:
    program = [sys.executable, str(REPOSITORY / "tests/gates/unittest_under.py"), str(tmp_path / "r"), str(tmp_path)]
    done = subprocess.run([*program, f"--part={part}"], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"--part is {part}; it takes K/N with K from 1 to N" in done.stderr


def test_what_payloads_draw_is_drawn_by_the_seed_of_the_run(context: Context) -> None:
    for name in DRAWING_TESTS:
        history = "import os, unittest\nclass T(unittest.TestCase):\n"
        history += " def test(self): print('lived', os.environ['CONVERGED_SEED'])\n"
        write(context, f"tests/payloads/{name}.py", history)
    soak_parts(())[0].action(context)
    assert re.findall("lived (.*)", context.log.read_text(encoding="utf-8")) == ["7"] * len(DRAWING_TESTS)


def test_soak_runs_every_module_of_the_payloads_tests_that_draws() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (REPOSITORY / "tests/payloads").glob("*.py")}
    draws = {name for name, text in texts.items() if re.search(r"^from seeds import|^import seeds", text, re.MULTILINE)}
    assert "histories" in draws
    kits = "|".join(name for name in draws if not name.startswith("test_"))
    draws |= {name for name, text in texts.items() if re.search(rf"^from ({kits}) import|^import ({kits})", text, re.M)}

    assert {name for name in draws if name.startswith("test_")} == {*DRAWING_TESTS}


@pytest.mark.prose
def test_every_property_takes_a_share_of_the_examples_of_the_profile() -> None:
    tests = [path for path in (REPOSITORY / "tests").rglob("test_*.py") if path != Path(__file__)]
    assert len(tests) > 100
    fixed = [path.name for path in tests if re.search(r"max_examples=\d+ *[,)]", path.read_text(encoding="utf-8"))]
    assert not fixed, "the number of examples of soak must not be that of every change"


def test_a_part_that_fails_says_how_to_repeat_it(context: Context) -> None:
    write(context, f"tests/payloads/{DRAWING_TESTS[0]}.py", "raise SystemExit(3)\n")
    with pytest.raises(GateFailure, match="; CONVERGED_SEED=7 make soak GATE=soak-payloads repeats it"):
        soak_parts(())[0].action(context)


def test_churn_is_three_hours_by_three_seeds_that_the_run_gives(context: Context) -> None:
    write(context, "placement_churn.py", "import sys\nprint('began', *sys.argv[1:])\nprint('9 nodes, all is well')\n")
    context.environ["PYTHONPATH"] = str(context.checkout)
    parts = {part.name: part for part in soak_parts(()) if part.also == "churn"}

    for part in parts.values():
        part.action(context)

    said = context.log.read_text(encoding="utf-8")
    began = re.findall(r"^began --seed (\d+) (?:--nodes (\d+) )?--seconds (\d+)$", said, re.MULTILINE)
    assert began == [("7", "200", "240"), ("8", "", "3600"), ("9", "", "3600"), ("10", "", "3600")]
    assert said.count("SHOW 9 nodes, all is well") == len(parts) == len(CHURN_PARTS)


def test_a_script_of_figures_shows_them_and_adds_them_to_those_of_the_run(context: Context, tmp_path: Path) -> None:
    for name, text in {"a_b": "print('row a')", "c": "raise SystemExit(1)"}.items():
        write(context, f"tests/bench/{name}.py", text + "\n")
    first, second = bench_parts([context.checkout / "tests/bench/a_b.py", context.checkout / "tests/bench/c.py"])
    assert (first.name, second.name) == ("bench-a-b", "bench-c")
    first.action(context)
    with pytest.raises(GateFailure, match="ended with status 1"):
        second.action(context)
    assert "row a" in (tmp_path / "figures.txt").read_text(encoding="utf-8")
    assert "SHOW row a" in context.log.read_text(encoding="utf-8")


@pytest.mark.prose  # some import the placement daemon
@pytest.mark.parametrize("script", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_every_script_of_figures_starts(script: Path) -> None:
    asked = subprocess.run(
        [sys.executable, str(script), "--help"], timeout=300, check=False, capture_output=True, text=True
    )
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.startswith(f"usage: {script.name} ")


@pytest.mark.prose  # some import the placement daemon
@pytest.mark.parametrize("script", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_a_number_below_all_is_refused_before_anything_begins(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*arguments: str) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", [str(script), *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(script), run_name="__main__")
        return ended.value.code, "".join(capsys.readouterr())

    _status, usage = said("--help")
    options = re.findall(r"^  (--\w+) (?!BED|FILE)\S", usage, re.MULTILINE)
    assert options or script.stem == "controller_scale"
    for option in options:
        status, words = said(option, "-1")
        assert (status, f"error: argument {option}: " in words) == (2, True), words


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (_figures.count, ("1", "5000"), ("0", "-3", "1.5", "x", "")),
        (_figures.part, ("1", "0.5"), ("0", "1.1", "nan", "x")),
        (_figures.pause, ("0", "0.7"), ("-1", "inf", "nan", "x")),
    ],
)
def test_what_a_benchmark_counts_is_a_number_that_makes_sense(
    kind: Callable[[str], float], good: tuple[str, ...], bad: tuple[str, ...]
) -> None:
    assert [kind(text) for text in good] == [float(text) for text in good]
    for text in bad:
        with pytest.raises(ArgumentTypeError, match=f"'{re.escape(text)}' is no "):
            kind(text)
