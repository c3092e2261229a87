# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seeds of tests that draw their cases without Hypothesis."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from payloads import seeds

TESTS = Path(seeds.FILE).parent


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of seeds that has something for the test `t`."""
    path = tmp_path / "seeds.txt"
    path.write_text("# a comment\n\nfirst 7\nfound t 900 two owners\nfound t 8 a lost lease\nfound u 1 else\n", "utf-8")
    monkeypatch.setattr(seeds, "FILE", str(path))
    return path


@pytest.mark.usefixtures("kept")
def test_a_test_takes_what_found_a_fault_and_then_the_seeds_that_follow_each_other() -> None:
    assert seeds.seeds("t", 3, {}) == [900, 8, 7, 9]
    assert seeds.seeds("new", 3, {}) == [7, 8, 9]
    assert seeds.seeds("t", 3, {"CONVERGED_SEED": "100"}) == [900, 8, 100, 101, 102]
    assert seeds.seeds("t", 3, {"CONVERGED_SEED": ""}) == seeds.seeds("t", 3, {})


@pytest.mark.parametrize("number", ["x", "-1", "1.5", str(2**32)])
def test_what_is_no_seed_is_refused(number: str) -> None:
    with pytest.raises(seeds.SeedError, match=f"^CONVERGED_SEED is '{number}'; it takes a number from 0 to 4294967295"):
        seeds.given({"CONVERGED_SEED": number})


@pytest.mark.parametrize("argv", [["pytest", "-q", __file__], ["unittest", "payloads/test_jobid.py"]])
def test_a_run_with_a_seed_that_is_no_number_ends_with_one_line(argv: list[str]) -> None:
    environ = {**os.environ, "CONVERGED_SEED": "x"}
    environ["PYTHONPATH"] = ":".join([environ.get("PYTHONPATH", ""), str(TESTS / "payloads")])
    done = subprocess.run(
        [sys.executable, "-m", *argv], capture_output=True, text=True, timeout=300, cwd=TESTS, env=environ, check=False
    )
    assert done.returncode != 0
    assert done.stderr == "error: CONVERGED_SEED is 'x'; it takes a number from 0 to 4294967295.\n"
    assert done.stdout == ""


@pytest.mark.parametrize("line", ["found t 1", "first", "first x", "found t x what", "t 1 what"])
def test_a_line_of_the_file_that_says_nothing_is_refused(line: str, kept: Path) -> None:
    kept.write_text(f"first 1\n{line}\n", "utf-8")
    with pytest.raises(seeds.SeedError, match="seeds.txt"):
        seeds.read(str(kept))


@pytest.mark.prose
def test_every_seed_that_found_a_fault_belongs_to_a_test() -> None:
    _first, found = seeds.read(seeds.FILE)
    tests = "".join(path.read_text("utf-8") for path in TESTS.rglob("test_*.py"))
    for name, _seed, _what in found:
        assert f'"{name}"' in tests or f"def {name}(" in tests, name
