# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A clock that is set while the daemon runs, by hand or by NTP, changes no decision but those about times of the API.

It stamps what people read. Planned starts, and starts and creations of pods, are told in its time, so it is read again
now and then: the machine may have started before its clock was set, or may have slept.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import placement
import pytest
from placement.model.objects.node import Node
from placement.model.objects.pod import Phase
from placement.policy.plugins.filters.planned_starts import MISSED
from placement_kit.builders import amounts, mine, node
from placement_kit.simulated import Simulated

PACKAGE = Path(placement.__file__).parent
SETTABLE = {"time.time", "time.time_ns", "time.localtime", "time.gmtime", "time.strftime"}
SETTABLE |= {
    f"{kind}.{name}" for kind in ("datetime", "datetime.datetime", "date") for name in ("now", "utcnow", "today")
}
# Who reads such a clock, and what for.
STAMPS = {
    "app/loop/loop.py": "what the times of the API are in monotonic seconds",
    "app/cli.py": "when a picture was drawn, for its heading",
    "app/telemetry/journal.py": "lines of the journal",
    "app/telemetry/logs.py": "lines of the log",
    "app/telemetry/metrics.py": "how old pods are when they get a node, as a figure",
    "kube/write/event_recorder.py": "times and names of Events",
    "kube/leader_election.py": "renewTime, which no running daemon trusts",
    "kube/write/executor.py": "lastTransitionTime of conditions",
}


def readings(file: Path) -> Iterator[str]:
    """What a file calls, by its dotted name, if that is a clock which can be set."""
    for found in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(found, ast.Attribute) and (name := ast.unparse(found)) in SETTABLE:
            yield name


def test_a_clock_that_can_be_set_is_read_for_known_reasons_only() -> None:
    reading = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py") if list(readings(file))}
    assert reading == set(STAMPS)


HOUR = 3600.0
# When the clock of these tests begins by the API, in seconds since 1970.
EPOCH = 1_000_000.0


def planned(after: float) -> Node:
    """A node on which a batch job begins so many seconds from the start of the test."""
    return node(planned=EPOCH + after)


@pytest.mark.parametrize("wrong", [-9 * HOUR, 9 * HOUR])
def test_a_clock_that_is_set_after_the_start_tells_planned_starts_rightly(wrong: float) -> None:
    simulated = Simulated(epoch=EPOCH + wrong)
    simulated.see(planned(600), mine("p", deadline=3600, gated=True))
    simulated.run()
    simulated.scheduler.set_epoch(EPOCH)
    simulated.see(mine("p", deadline=3600))
    simulated.run()
    assert simulated.placements() == {}
    simulated.now = 600 + MISSED + 1
    simulated.see(mine("q", deadline=3600))
    simulated.run()
    assert "q" in simulated.placements()


def test_a_job_that_a_wrong_clock_kept_waiting_is_tried_again_at_once_when_it_is_set() -> None:
    simulated = Simulated(epoch=EPOCH - 9 * HOUR)
    simulated.see(planned(-8 * HOUR), mine("p", deadline=2 * 3600))
    simulated.run()
    assert simulated.placements() == {}
    simulated.scheduler.set_epoch(EPOCH)
    simulated.run()
    assert simulated.placements() == {"p": "n1"}


def test_an_end_that_a_wrong_clock_told_is_forgotten_when_it_is_set() -> None:
    simulated = Simulated(epoch=EPOCH + HOUR)
    running = mine("old", node="n1", phase=Phase.RUNNING, deadline=7200, started="1970-01-12T13:46:40Z")
    simulated.see(node(), running, mine("large", request=amounts(cpu="4")))
    simulated.run()
    simulated.now += 2
    simulated.run()
    (kept,) = simulated.scheduler.session.reservations.active
    assert kept.shadow < 3700
    simulated.scheduler.set_epoch(EPOCH)
    simulated.now += 2
    simulated.run()
    (kept,) = simulated.scheduler.session.reservations.active
    assert kept.shadow > 7200


@pytest.mark.parametrize(
    ("there", "differences", "tried_again"),
    [
        (planned(7200), [0.001 * step for step in range(100)], 0),
        (node(), [2, 0] * 5, 0),
        (planned(7200), [2, 0] * 5, 10),
    ],
    ids=["the clocks drift", "no planned start", "a planned start"],
)
def test_all_jobs_are_tried_again_only_where_a_clock_is_set_and_a_node_has_a_planned_start(
    there: Node, differences: list[float], tried_again: int
) -> None:
    simulated = Simulated(epoch=EPOCH)
    simulated.see(there, mine("large", request=amounts(cpu="8")))
    simulated.run()
    before = simulated.scheduler.cache.versions.room
    for difference in differences:
        simulated.scheduler.set_epoch(EPOCH + difference)
        simulated.run()
    assert simulated.scheduler.cache.versions.room - before == tried_again
