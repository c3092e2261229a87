# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One real bed for all tests of a worker, the order of files, and the logs of beds whose tests failed."""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from e2e.beds import own_bed
from testbed import api
from testbed.paths import bed_dir
from xdist.scheduler import LoadScopeScheduling

# One for each checkout and worker: the runs of two must not share a bed, and one that was kept must be found again.
BED = f"e2e-{zlib.crc32(bytes(Path(__file__))):08x}{os.environ.get('PYTEST_XDIST_WORKER', '')}"
LOG_SECONDS = 300.0
# A file that does not say how long it takes is taken for a long one.
UNKNOWN_SECONDS = 300


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bed", metavar="NAME", help="use this bed, which is up, and leave it up")


def pytest_configure(config: pytest.Config) -> None:
    if not is_worker():
        os.environ[api.MADE] = str(Path(os.environ["CONVERGED_OWN_CACHE"]) / f"beds-of-{os.getpid()}")
    config.addinivalue_line("markers", "no_other_bed: no test may run beside it")
    config.addinivalue_line("markers", "seconds(n): how long a whole file takes; the longest files start first")


def is_worker() -> bool:
    return "PYTEST_XDIST_WORKER" in os.environ


def pytest_unconfigure() -> None:
    """An interrupt comes to a worker twice, and the second one ends what its fixtures do after the first."""
    made = Path(os.environ[api.MADE])
    if is_worker() or not made.exists():
        return
    for name in dict.fromkeys(made.read_text(encoding="utf-8").split()):
        if bed_dir(name).exists() and os.environ.get("CONVERGED_KEEP_BED") != "1":
            api.take_down(name)
    made.unlink()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest first, so that workers end together."""
    takes: Counter[str] = Counter()
    for path, seconds in {item.path: expected_seconds(item) for item in items}.items():
        takes[scope_of(path)] += seconds
    items.sort(key=lambda item: -takes[scope_of(item.path)])


def scope_of(file: Path) -> str:
    """What one worker gets whole, because its tests share a bed: a file, or a folder below this one."""
    return str(file if file.parent.name == "e2e" else file.parent)


def expected_seconds(item: pytest.Item) -> int:
    said = item.get_closest_marker("seconds")
    return said.args[0] if said else UNKNOWN_SECONDS


class WholeFiles(LoadScopeScheduling):  # type: ignore[misc]
    """A worker gets scopes of ours."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(Path(nodeid.partition("::")[0]))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> WholeFiles:
    return WholeFiles(config, log)


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


@pytest.fixture(scope="session")
def bed(request: pytest.FixtureRequest) -> Iterator[api.RunningBed]:
    """Two plain nodes with Slurm, and a Kubernetes control plane."""
    with own_bed(request, BED) as running:
        yield running
