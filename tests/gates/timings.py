# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long gates and tests take: measured in every run, shown at its end, and kept to order the next one.

As a plugin of pytest (`-p gates.timings`) it writes the seconds of each test to the file that CONVERGED_TIMINGS names.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from gates.pool import Outcome

KEPT = Path(__file__).with_name("durations.json")
VARIABLE = "CONVERGED_TIMINGS"
FOLDER = "timings"
RUN = "run.json"
STAT = Path("/proc/stat")
GATES_SHOWN, TESTS_SHOWN = 10, 20

_spent: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add a phase of a test (its fixtures' too) to the test's seconds."""
    _spent[report.nodeid] += report.duration  # type: ignore[assignment]  # a Counter may count seconds


def pytest_sessionfinish() -> None:
    """Write the seconds of all tests."""
    if path := os.environ.get(VARIABLE):
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        file.write_text(json.dumps({**known, **_spent}), encoding="utf-8")


def kept_durations(path: Path = KEPT) -> dict[str, float]:
    """Return the seconds of each gate that the repository keeps; none where there is no file."""
    if not path.exists():
        return {}
    found: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
    return found


def write_run(outcomes: Sequence[Outcome], logs: Path) -> None:
    """Keep the seconds of the gates that ran and passed with the run's logs."""
    seconds = {one.gate.name: round(one.seconds, 1) for one in outcomes if not one.cached and not one.failure}
    (logs / RUN).write_text(json.dumps(seconds, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def refreshed(kept: Mapping[str, float], logs: Path, names: Sequence[str]) -> tuple[dict[str, float], list[str]]:
    """Return the durations with those of the newest runs, and the gates of which no run has any.

    `logs` holds a folder for each run, whose name begins with its date; gates that are gone are dropped.
    """
    found = dict(kept)
    for run in sorted(logs.glob(f"[0-9]*-[0-9]*-[0-9]*/{RUN}")):
        found.update(json.loads(run.read_text(encoding="utf-8")))
    return {name: found[name] for name in sorted(names) if name in found}, [name for name in names if name not in found]


def processor_ticks(path: Path = STAT) -> tuple[int, int]:
    """Return the ticks that all processors of the machine have worked since its boot, and all of their ticks."""
    ticks = [int(word) for word in path.read_text(encoding="utf-8").split("\n", 1)[0].split()[1:9]]
    idle = ticks[3] + ticks[4]  # without work, and waiting for a disk
    return sum(ticks) - idle, sum(ticks)


def busy_since(before: tuple[int, int], path: Path = STAT) -> str:
    """Return the line that says how busy the processors were since then, with whatever else the machine did."""
    worked, passed = (now - then for now, then in zip(processor_ticks(path), before, strict=True))
    return f"processors of the machine: busy {100 * worked // max(1, passed)} % of the time"


def slowest(outcomes: Sequence[Outcome], logs: Path) -> Iterator[str]:
    """Yield the lines that name the gates and the tests that took longest in this run."""
    ran = sorted((one for one in outcomes if not one.cached), key=lambda one: -one.seconds)
    if len(ran) > 1:
        yield "gates that took longest:"
        yield from (f"{one.seconds:8.1f} s  {one.gate.name}" for one in ran[:GATES_SHOWN])
    tests: list[tuple[float, str]] = []
    for path in (logs / FOLDER).glob("*.json"):
        tests += [(seconds, name) for name, seconds in json.loads(path.read_text(encoding="utf-8")).items()]
    if tests:
        yield "tests that took longest, their fixtures included:"
        yield from (f"{seconds:8.1f} s  {name}" for seconds, name in sorted(tests, reverse=True)[:TESTS_SHOWN])
