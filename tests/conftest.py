# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every pytest run: the collection importable by its name, random tests by one rule, no silent skip.

Without CONVERGED_SEED every run draws the same: Hypothesis derives its examples from each test, and other tests take
their seeds from tests/seeds.txt. CONVERGED_SEED draws all of them by that number; `--hypothesis-seed` goes before it.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys

import hypothesis
import pytest
from gates import skips
from payloads import seeds

if "CONVERGED_OWN_CACHE" not in os.environ:
    pytest.exit("start tests by: sh tests/bootstrap/enter.sh exec pytest ...", returncode=2)

# ansible_collections is a namespace package: converged.hpc from this checkout, kubernetes.core from the environment.
sys.path.insert(0, os.environ["ANSIBLE_COLLECTIONS_PATH"].split(":")[0])

SOAK_EXAMPLES = 2000

_skips = pytest.StashKey[list[skips.Skip]]()


@pytest.hookimpl(tryfirst=True)  # before Hypothesis looks at its options
def pytest_configure(config: pytest.Config) -> None:
    """Prepare the random tests, a place for the skips of this run, and the marks that any test may bear."""
    _prepare_random_tests(config)
    _heed_interrupts()
    config.addinivalue_line("markers", "drawn: draws its cases by the run's seed, without hypothesis")
    config.addinivalue_line("markers", "soak: long or rare, so it is no part of `make test` but of `make soak`")
    config.addinivalue_line(
        "markers", "repeated: the same very often, so it is part of the first round of `make soak` only"
    )
    config.addinivalue_line(
        "markers", "prose: reads what its own gate does not, such as documentation; run by the gate `unit-prose`"
    )
    config.stash[_skips] = []
    config.pluginmanager.register(_SkipWatch(config.stash[_skips]), "skip-watch")


def _heed_interrupts() -> None:
    """Heed SIGINT, as do programs that tests start; a shell without job control has it ignored in the background."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart() -> None:
    """Have the runs of Ansible that tests start work without the cyclic garbage collector, too."""
    enabled = os.environ.get("ANSIBLE_CALLBACKS_ENABLED", "")
    if "without_cyclic_gc" not in enabled.split(","):
        os.environ["ANSIBLE_CALLBACKS_ENABLED"] = f"{enabled},without_cyclic_gc"


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at modules and collected tests, which stay until the end.

    Searching them again and again took a quarter of the processor time of the tests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _prepare_random_tests(config: pytest.Config) -> None:
    """Register the profiles: derandomized without a seed, otherwise drawn by it."""
    if config.getoption("--hypothesis-seed", None) is None and seeds.given() is not None:
        config.option.hypothesis_seed = str(seeds.given())
    drawn = config.getoption("--hypothesis-seed", None) is not None
    common = hypothesis.settings(
        database=None,  # a run depends on its seed alone, and not on what earlier runs found
        deadline=None,  # the machine is shared with other gates
        derandomize=not drawn,
        print_blob=True,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.register_profile("check", common, max_examples=20)
    hypothesis.settings.register_profile("test", common, max_examples=100)
    hypothesis.settings.register_profile("soak", common, derandomize=False, max_examples=SOAK_EXAMPLES)
    hypothesis.settings.load_profile("test")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that draws with `chosen` by the run's seed, and by each seed that made it fail before."""
    if "chosen" in metafunc.fixturenames:
        option = metafunc.config.getoption("--hypothesis-seed", None)
        found = seeds.found(metafunc.function.__name__)
        drawn = seeds.first() if option is None else option
        cases = [pytest.param(seed, id=f"found-{seed}") for seed in found]
        cases.append(pytest.param(drawn, id="drawn", marks=pytest.mark.drawn))
        metafunc.parametrize("chosen", cases, indirect=True)


@pytest.fixture
def chosen(request: pytest.FixtureRequest) -> random.Random:
    """Return a generator with the test's seed."""
    return random.Random(str(request.param))


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
