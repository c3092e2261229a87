# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every pytest run: the collection importable by its name, sampled random tests, no silent skip."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import hypothesis
import pytest
from gates import skips
from hypothesis.database import DirectoryBasedExampleDatabase

if "CONVERGED_OWN_CACHE" not in os.environ:
    pytest.exit("start tests by: sh tests/bootstrap/enter.sh exec pytest ...", returncode=2)

# ansible_collections is a namespace package: converged.hpc from this checkout, kubernetes.core from the environment.
sys.path.insert(0, os.environ["ANSIBLE_COLLECTIONS_PATH"].split(":")[0])

_SETTINGS = hypothesis.settings(
    database=DirectoryBasedExampleDatabase(Path(os.environ["CONVERGED_OWN_CACHE"]) / "hypothesis"),
    deadline=None,  # the machine is shared with other gates
    derandomize=False,  # hypothesis would do it wherever it sees continuous integration, and forget the seed
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("check", _SETTINGS, max_examples=20)
hypothesis.settings.register_profile("test", _SETTINGS, max_examples=100)
hypothesis.settings.load_profile("test")

_skips = pytest.StashKey[list[skips.Skip]]()


def pytest_configure(config: pytest.Config) -> None:
    """A place for the skips of this run, and the marks that any test may bear."""
    config.addinivalue_line("markers", "drawn: draws its cases by the run's seed, without hypothesis")
    config.addinivalue_line("markers", "soak: long or rare, so it is no part of `make test` but of `make soak`")
    config.addinivalue_line(
        "markers", "repeated: the same very often, so it is part of the first round of `make soak` only"
    )
    config.stash[_skips] = []
    config.pluginmanager.register(_SkipWatch(config.stash[_skips]), "skip-watch")


@pytest.fixture
def chosen(request: pytest.FixtureRequest) -> random.Random:
    """Seeded like all random tests of the run, so that CONVERGED_SEED repeats it."""
    return random.Random(request.config.getoption("--hypothesis-seed"))


class _SkipWatch:
    """Collects skips; a test that is expected to fail counts as one."""

    def __init__(self, seen: list[skips.Skip]) -> None:
        self._seen = seen

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test, skipped by mark or while it ran."""
        if report.skipped:
            self._seen.append(skips.Skip(report.nodeid, getattr(report, "wasxfail", None) or _reason(report)))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A whole module."""
        if report.skipped:
            self._seen.append(skips.Skip(report.nodeid, _reason(report)))


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A skip that is not on the list fails the run."""
    reasons = skips.allowed_reasons(skips.ALLOWED.read_text(encoding="utf-8"))
    if skips.refused(session.config.stash[_skips], reasons) and session.exitstatus in (0, 5):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Names every skip."""
    if config.stash[_skips]:
        terminalreporter.section("skips (tests/allowed-skips.txt)")
        reasons = skips.allowed_reasons(skips.ALLOWED.read_text(encoding="utf-8"))
        for line in skips.report(config.stash[_skips], reasons):
            terminalreporter.write_line(f"SHOW {line}")
