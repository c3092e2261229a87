# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A benchmark that is ended tells what it has measured, and takes its bed down."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench import _beds
from bench import placement_throughput as throughput
from e2e.playing import until


def test_what_was_measured_is_told_where_the_rest_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    measured = [throughput.Result("plain", "bare", 10, 100.0, 0.1, 10, 1.0, 20.0)]

    def run(*_given: Any, **_more: Any) -> throughput.Result:
        if not measured:
            raise KeyboardInterrupt
        return measured.pop()

    @contextmanager
    def field(_given: argparse.Namespace) -> Iterator[Any]:
        yield SimpleNamespace(cluster=None, nodes=["n1"], contestants=[SimpleNamespace(name="bare")])

    monkeypatch.setattr(throughput, "field", field)
    monkeypatch.setattr(throughput, "run", run)
    runs = tmp_path / "runs.json"
    monkeypatch.setattr(sys, "argv", ["throughput", "--case", "plain", "--repeats", "2", "--json", str(runs)])
    with pytest.raises(KeyboardInterrupt):
        throughput.main()
    assert "| plain | bare | 10 | 100 (100-100) |" in capsys.readouterr().out
    assert [one["rate"] for one in json.loads(runs.read_text(encoding="utf-8"))] == [100.0]


@pytest.fixture
def beds(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Those that are up; a benchmark that did not mind a signal would end the tests."""
    up: list[str] = []

    def bring_up(name: str, *_options: str) -> str:
        up.append(name)
        return name

    monkeypatch.setattr(_beds, "bring_up", bring_up)
    monkeypatch.setattr(_beds, "find", lambda name: name)
    monkeypatch.setattr(_beds, "bed_names", lambda: list(up))
    monkeypatch.setattr(_beds, "take_down", up.remove)
    before = signal.signal(signal.SIGTERM, lambda *_told: None)
    yield up
    signal.signal(signal.SIGTERM, before)


def told_to_end_with(beds: list[str]) -> None:
    assert beds == ["mine"]
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_to_end_takes_the_bed_down(beds: list[str]) -> None:
    with pytest.raises(KeyboardInterrupt), _beds.own_bed("mine"):
        told_to_end_with(beds)
    assert beds == []


def test_a_signal_while_the_bed_comes_up_or_goes_down_does_not_keep_it(
    beds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def half_made(name: str) -> None:
        beds.append(name)
        told_to_end_with(beds)

    def taken_down(name: str) -> None:
        told_to_end_with(beds)
        beds.remove(name)

    monkeypatch.setattr(_beds, "bring_up", half_made)
    monkeypatch.setattr(_beds, "take_down", taken_down)
    with pytest.raises(KeyboardInterrupt), _beds.own_bed("mine"):
        pass
    assert beds == []


def test_a_bed_that_is_given_stays_up(beds: list[str]) -> None:
    beds.append("mine")
    with pytest.raises(KeyboardInterrupt), _beds.own_bed("mine", given="mine"):
        told_to_end_with(beds)
    assert beds == ["mine"]


def test_a_step_that_fails_is_said_in_a_line(beds: list[str]) -> None:
    with pytest.raises(SystemExit, match="^not within 0 s: a pod$"), _beds.own_bed("mine"):
        until(lambda: False, "a pod", seconds=0)
    assert beds == []
