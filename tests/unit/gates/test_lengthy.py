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
from types import SimpleNamespace

import pytest
from bench import _figures
from gates import lengthy
from gates.gate import Context, GateFailure
from gates.lengthy import HISTORIES, SOAK_MINUTES, run_benchmarks, run_soak, soak_minutes

REPOSITORY = Path(__file__).resolve().parents[3]
SCRIPTS = sorted(path for path in (REPOSITORY / "tests/bench").glob("*.py") if not path.name.startswith("_"))
RANDOM = """
import os, pytest

pytestmark = pytest.mark.hypothesis

def test_one():
    with open(os.environ["SEEN"], "a") as seen:
        seen.write(os.environ["CONVERGED_SEED"] + "\\n")

@pytest.mark.soak
@pytest.mark.repeated
def test_again():
    with open(os.environ["SEEN"], "a") as seen:
        seen.write("again\\n")
"""
MARKS = """
def pytest_configure(config):
    for mark in ("hypothesis", "soak", "repeated"):
        config.addinivalue_line("markers", mark)
"""


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A checkout with nothing in it but what a test writes."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path / "checkout")], check=True, timeout=300)
    (tmp_path / "checkout/pyproject.toml").write_text("[tool.converged]\ndaemon = []\n", encoding="utf-8")
    return Context(
        checkout=tmp_path / "checkout",
        cache=tmp_path,
        own=tmp_path,
        scratch=tmp_path,
        logs=tmp_path,
        seed=2**32 - 1,
        quick=False,
        environ={"PATH": os.environ["PATH"], "SEEN": str(tmp_path / "seen"), "CONVERGED_SOAK_MINUTES": "0"},
        log=tmp_path / "gate.log",
        deadline=time.monotonic() + 120,
    )


def write(context: Context, name: str, text: str) -> None:
    path = context.checkout / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_soak_of_no_time_is_one_round_of_every_kind(context: Context, tmp_path: Path) -> None:
    for name in HISTORIES:
        history = f"import unittest\nclass T(unittest.TestCase):\n def test(self): print('lived {name}')\n"
        write(context, f"tests/payloads/{name}.py", history)
    write(context, "tests/unit/test_random.py", RANDOM)
    write(context, "tests/unit/conftest.py", MARKS)
    run_soak(context)
    assert (tmp_path / "seen").read_text() == f"{2**32 - 1}\nagain\n"
    assert re.findall("lived (.*)", context.log.read_text()) == HISTORIES


def test_a_failing_round_names_its_seed(context: Context) -> None:
    write(context, f"tests/payloads/{HISTORIES[0]}.py", "raise SystemExit(3)\n")
    with pytest.raises(GateFailure, match=f"round 1: .*; CONVERGED_SEED={2**32 - 1} make test repeats it"):
        run_soak(context)


@pytest.mark.parametrize(
    ("lengths", "repeating", "begun"),
    [((50, 30, 20, 20), 10, 3), ((60, 60, 1), 0, 2), ((61, 1), 0, 1), ((1, 1), 200, 1), ((20, 40, 70, 1), 0, 3)],
)
def test_a_round_begins_only_where_one_as_long_as_the_last_fits(
    context: Context, monkeypatch: pytest.MonkeyPatch, lengths: tuple[int, ...], repeating: int, begun: int
) -> None:
    minutes, seeds, repeated = 0.0, list[int](), list[int]()

    def one_round(_context: Context, seed: int) -> None:
        nonlocal minutes
        minutes += lengths[len(seeds)]
        seeds.append(seed)

    def repeat(_context: Context, seed: int) -> None:
        nonlocal minutes
        minutes += repeating
        repeated.append(seed)

    monkeypatch.setattr(lengthy, "soak_round", one_round)
    monkeypatch.setattr(lengthy, "soak_repeated", repeat)
    monkeypatch.setattr(lengthy, "time", SimpleNamespace(monotonic=lambda: 60 * minutes))
    run_soak(dataclasses.replace(context, seed=7, environ={"CONVERGED_SOAK_MINUTES": "121"}))
    assert (seeds, repeated) == ([7, 8, 9][:begun], [7])


def test_the_time_of_a_soak_is_bounded_and_may_be_given() -> None:
    assert soak_minutes({}) == SOAK_MINUTES
    assert soak_minutes({"CONVERGED_SOAK_MINUTES": "5"}) == 5
    for wrong in ("", "x", "-1", "1.5", str(SOAK_MINUTES + 1)):
        with pytest.raises(GateFailure, match=f"CONVERGED_SOAK_MINUTES is '{wrong}'"):
            soak_minutes({"CONVERGED_SOAK_MINUTES": wrong})


def test_figures_are_collected_although_a_script_fails(context: Context, tmp_path: Path) -> None:
    for name, text in {"a": "print('row a')", "b": "raise SystemExit(1)", "c": "print('row c')", "_d": "1 / 0"}.items():
        write(context, f"tests/bench/{name}.py", text + "\n")
    with pytest.raises(GateFailure, match="no figures from b$"):
        run_benchmarks(context)
    assert [line for line in (tmp_path / "figures.txt").read_text().splitlines() if "row" in line] == ["row a", "row c"]


@pytest.mark.parametrize("script", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_every_script_of_figures_starts(script: Path) -> None:
    asked = subprocess.run(
        [sys.executable, str(script), "--help"], timeout=300, check=False, capture_output=True, text=True
    )
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.startswith(f"usage: {script.name} ")


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
