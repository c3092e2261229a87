# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One real bed for all tests of a run, parts of what is repeated, and the logs of beds whose tests failed."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from e2e.beds import own_bed
from rehearsals.fork_server import served
from testbed import api
from testbed.paths import bed_dir

# One for each checkout and scope: the runs of two must not share a bed, and one that was kept must be found again.
BED = f"e2e-{zlib.crc32(bytes(Path(__file__)) + os.environ.get('CONVERGED_SCOPE', '').encode()):08x}"
LOG_SECONDS = 300.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bed", metavar="NAME", help="use this bed, which is up, and leave it up")
    parser.addoption("--part", metavar="K/N", type=part, help="run every N-th of the chosen tests, from the K-th on")


def part(text: str) -> tuple[int, int]:
    """Return (1, 4) for "1/4"."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise pytest.UsageError(f"--part is '{text}'; it takes K/N with K from 1 to N, such as 1/4")
    return int(match[1]), int(match[2])


def pytest_configure() -> None:
    os.environ[api.MADE] = str(Path(os.environ["CONVERGED_OWN_CACHE"]) / f"beds-of-{os.getpid()}")


def pytest_unconfigure() -> None:
    """Take down the beds of a run that was interrupted: its fixtures may not have come to that."""
    made = Path(os.environ[api.MADE])
    if not made.exists():
        return
    for name in dict.fromkeys(made.read_text(encoding="utf-8").split()):
        if bed_dir(name).exists() and os.environ.get("CONVERGED_KEEP_BED") != "1":
            api.take_down(name)
    made.unlink()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of one part; marks have chosen before."""
    if config.getoption("--part"):
        first, step = config.getoption("--part")
        config.hook.pytest_deselected(items=[item for at, item in enumerate(items) if at % step != first - 1])
        items[:] = items[first - 1 :: step]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What every component of a failed test's bed has logged goes to the folder of the run, and its name to the report.

    A bed that does not come up keeps its logs by itself.
    """
    report = yield
    if report.failed and report.when != "teardown":
        for name in sorted(beds_of(item)):
            kept = api.command_line("logs", name, timeout=LOG_SECONDS, check=False)
            report.sections.append((f"logs of all components of bed {name}", kept.out.strip() or kept.err))
    return report


def beds_of(item: pytest.Item) -> set[str]:
    """Beds among a test's fixtures, or in what those hold."""
    values = item.funcargs.values() if isinstance(item, pytest.Function) else ()
    candidates = [bed for value in values for bed in (value, getattr(value, "bed", None))]
    return {bed.bed.name for bed in candidates if isinstance(bed, api.RunningBed)}


@pytest.fixture(scope="session", autouse=True)
def servers() -> Iterator[None]:
    """Have playbooks run by forks of a process that has imported Ansible."""
    with served():
        yield


@pytest.fixture(scope="session")
def bed(request: pytest.FixtureRequest) -> Iterator[api.RunningBed]:
    """Two plain nodes with Slurm, and a Kubernetes control plane."""
    with own_bed(request, BED) as running:
        yield running
