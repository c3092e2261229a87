# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs for hours keeps to its time and loses nothing on the way."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
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
"""


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A checkout with nothing in it but what a test writes."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path / "checkout")], check=True, timeout=30)
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
    run_soak(context)
    assert (tmp_path / "seen").read_text() == f"{2**32 - 1}\n"
    assert re.findall("lived (.*)", context.log.read_text()) == HISTORIES


def test_a_failing_round_names_its_seed(context: Context) -> None:
    write(context, f"tests/payloads/{HISTORIES[0]}.py", "raise SystemExit(3)\n")
    with pytest.raises(GateFailure, match=f"round 1: .*; CONVERGED_SEED={2**32 - 1} make test repeats it"):
        run_soak(context)


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
    folders = [REPOSITORY / name for name in ("roles/node_share/files", "roles/placement/files", "tests")]
    environ = {**os.environ, "PYTHONPATH": ":".join(map(str, folders))}
    asked = subprocess.run(
        [sys.executable, str(script), "--help"], env=environ, timeout=60, check=False, capture_output=True, text=True
    )
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.startswith(f"usage: {script.name} ")
