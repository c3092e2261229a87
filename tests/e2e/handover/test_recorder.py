# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control of all claims that no pod started: a recorder that would have missed a pod makes a test fail.

What is a fault is told by tests/unit/e2e/test_recording.py; here the faults are made on a node.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from e2e import workload
from e2e.handover import sharing
from e2e.handover.sharing import EVENTS, RECORDER, STOP_RECORDING, Sharing
from e2e.playing import until

pytestmark = pytest.mark.soak

AGAIN = f"systemd-run --quiet --collect --unit=e2e-events python3 {EVENTS}.py {EVENTS}.log"


@pytest.fixture(autouse=True)
def recorded(site: Sharing, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A fault is not waited for long; the next test has a good recorder."""
    monkeypatch.setattr(sharing, "RECORDER_SECONDS", 20.0)
    workload.on_both_nodes(site)
    yield
    site.claims.clear()
    site.record_events()


def claim(site: Sharing, *, before: str = "true", after: str = "true") -> None:
    """Claim that no pod started on n1 during a job; `before` and `after` are done to the node around it."""
    began = time.time()
    site.node("n1", before)
    job = site.job("-w", "n1", command="sleep 1")
    site.node("n1", after)
    assert site.pods_started("n1", since=began, until=job.ended) == set()
    site.free()
    site.pods_return("web", 2)


def mutated(old: str, new: str) -> str:
    source = RECORDER.read_text(encoding="utf-8")
    assert source.count(old) == 1
    return source.replace(old, new)


def test_a_recorder_that_works_proves_a_claim(site: Sharing) -> None:
    claim(site)
    assert site.claims == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            "def main(log: str) -> None:\n", "def main(log: str) -> None:\n    sys.exit(1)\n", id="does not run"
        ),
        pytest.param('line.split(" ", 6)', 'line.split("\\t", 6)', id="does not understand containerd"),
    ],
)
def test_a_recorder_that_hears_nothing_is_found_when_it_begins(site: Sharing, old: str, new: str) -> None:
    with pytest.raises(AssertionError, match="the recorder on n1 hears containerd"):
        site.record_events(mutated(old, new))


def test_a_recorder_that_hears_no_starts_is_found_by_the_pods_that_return(site: Sharing) -> None:
    site.record_events(mutated('"/tasks/start"', '"/tasks/begun"'))
    with pytest.raises(AssertionError, match="the recorder on n1 hears a pod start after"):
        claim(site)


def test_a_recorder_that_died_is_found_by_the_pods_that_return(site: Sharing) -> None:
    with pytest.raises(AssertionError, match="the recorder on n1 hears a pod start after"):
        claim(site, before=STOP_RECORDING)


def test_a_recorder_that_died_and_runs_again_is_found_by_its_log(site: Sharing) -> None:
    with pytest.raises(AssertionError, match="n1: the recorder died between"):
        claim(
            site,
            before=STOP_RECORDING,
            after=f"{AGAIN}; until test $(grep -c hears {EVENTS}.log) -gt 1; do sleep 0.1; done",
        )


def test_a_recorder_that_is_late_is_found_by_its_log(site: Sharing) -> None:
    late = f"{STOP_RECORDING}; : > {EVENTS}.log"
    with pytest.raises(AssertionError, match="n1: the recorder listens only since"):
        claim(site, before=late, after=f"{AGAIN}; until grep -q hears {EVENTS}.log; do sleep 0.1; done")


def test_a_pod_that_starts_unheard_is_found(site: Sharing) -> None:
    began = time.time()
    site.node("n1", STOP_RECORDING)
    workload.apply(site, workload.pod("unheard", node="n1"))
    until(lambda: bool(workload.ready(site, "unheard")), "the pod runs")
    over = time.time()
    site.node("n1", f"{AGAIN}; until test $(grep -c hears {EVENTS}.log) -gt 1; do sleep 0.1; done")
    assert site.pods_started("n1", since=began, until=over) == {"unheard"}
