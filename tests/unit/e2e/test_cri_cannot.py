# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of what Singularity-CRI cannot do names tests that there are, and the folder of its programs is whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from e2e.cri import real

TESTS = Path(__file__).parents[2] / "e2e/test_cri_bridge.py"


def test_every_entry_names_a_test_and_says_why_it_fails() -> None:
    tests = set(re.findall(r"^def (test_\w+)", TESTS.read_text(encoding="utf-8"), re.MULTILINE))
    assert set(real.cannot()) <= tests
    assert all(len(reason.split()) > 3 for reason in real.cannot().values())


def test_a_machine_without_its_programs_takes_the_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(real.VARIABLE, raising=False)
    assert real.found() is None


def test_a_folder_that_lacks_a_part_is_no_reason_to_take_the_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(real.VARIABLE, str(tmp_path))
    (tmp_path / "sycri").touch()
    with pytest.raises(FileNotFoundError, match=r"lacks engine, busybox\.sif"):
        real.found()
    (tmp_path / "engine").mkdir()
    (tmp_path / "busybox.sif").touch()
    assert real.found() == tmp_path
