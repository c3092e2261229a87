# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts killed at named points of their work: the job runs all the same, and the next repair puts it right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e import workload
from e2e.handover.sharing import Sharing
from e2e.playing import until

PROGRAM = "/usr/local/sbin/nodeshare"
PLAN = "/run/e2e-kill-plan"
# The job runs as long as this is there: how soon a repair comes is drawn.
RUNS = "/tmp/e2e-runs"
KILLED = Path(__file__).with_name("nodeshare_killed.py")
# One life of a node, with the points at which each call that has a part in it is killed once.
LIVES = [
    ("quiesce", "begin begin:after-write", "end end:after-mark", "repair before:Announce"),
    *(
        pytest.param(life, marks=pytest.mark.soak)
        for life in (
            ("quiesce", "begin after:Remember", "end before:WakeReturner", "repair after:Announce"),
            ("quiesce", "begin before:Confine", "end end:before-mark", "repair after:Release"),
            ("stop", "begin before:StopUnits", "end end:after-mark", "repair before:StartUnits"),
            ("stop", "begin after:StopUnits", "end before:WakeReturner", "repair after:StartUnits"),
        )
    ),
]


@pytest.fixture
def killed(site: Sharing) -> Iterator[Sharing]:
    """On n1 nodeshare dies where the plan says so."""
    kept = site.node("n1", f"cat {PROGRAM}")
    site.node("n1", f"cat > {PROGRAM}", input=KILLED.read_text(encoding="utf-8"))
    yield site
    site.node("n1", f"cat > {PROGRAM}; rm -f {PLAN}", input=kept)
    site.settings(handover="quiesce")


@pytest.mark.parametrize("life", LIVES, ids=lambda life: f"{life[0]}-{life[1].replace(' ', '-')}")
def test_a_job_and_its_node_outlive_calls_that_are_killed(killed: Sharing, life: tuple[str, ...]) -> None:
    site, (way, *points) = killed, life
    site.settings(handover=way)
    workload.apply(site, workload.pod("web", node="n1"))
    until(lambda: bool(workload.ready(site, "web")), "the pod runs")
    site.node("n1", f"cat > {PLAN}", input="\n".join(points))

    site.node("n1", f"touch {RUNS}")
    with site.while_job("-w", "n1", command=f"while test -e {RUNS}; do sleep 0.3; done") as ended:
        until(lambda: site.show("n1")["phase"] == "held", "a repair has gone on with the taking")
        site.node("n1", f"rm {RUNS}")
        job = ended()
    site.quiet()

    assert site.pods_started("n1", since=job.began, until=job.ended) == set()
    assert next(moment for moment in job.moments if moment.what == "ended").pods == frozenset()
    until(lambda: not site.node("n1", f"cat {PLAN}").strip(), "every planned point was met")
    site.free("n1")
