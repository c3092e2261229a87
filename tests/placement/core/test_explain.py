# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `why` and `queues` answer."""

from collections.abc import Mapping

import pytest
from placement.model.objects.workload import INCUBATOR
from placement.policy.jobs.job import Job
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, gang, mine, node, pod, queue
from placement_kit.simulated import Simulated


def full() -> Simulated:
    simulated = Simulated()
    simulated.see(node("n1"), node("n2", unschedulable=True))
    simulated.see(mine("running", request=amounts(cpu="3")), pod("theirs", node="n1"))
    simulated.run()
    return simulated


def test_a_pod_that_waits_is_explained() -> None:
    simulated = full()
    simulated.see(gang("g", 1, created="2026-01-01"), mine("first", group="g", request=amounts(cpu="2")))
    simulated.see(mine("second", created="2026-01-02", request=amounts(cpu="2")))
    simulated.run()
    told = simulated.explain("team", "second")
    assert told is not None
    assert (told.state, told.queue, told.position, told.waiting) == ("Pending", "default", 2, 2)
    assert {item.reason: (item.nodes, item.examples) for item in told.nodes} == {
        "unschedulable": (1, ("n2",)),
        "Insufficient cpu": (1, ("n1",)),
    }
    assert "on node n1: team/running" in told.must_end
    assert "0/2 nodes are available" in told.limit


def test_who_can_never_run_is_before_nobody() -> None:
    simulated = full()
    # Jobs of a queue that has all there is are not tried, so it does not show which could never run.
    simulated.see(node("n3", allocatable=amounts(cpu="1", memory="1Gi", pods="10")))
    simulated.see(gang("g", 1, created="2026-01-01"), mine("vast", group="g", request=amounts(cpu="2000")))
    simulated.see(mine("lost", created="2026-01-01", group="nowhere", request=amounts(cpu="2")))
    simulated.see(mine("second", created="2026-01-02", request=amounts(cpu="2")))
    simulated.run()
    places = {name: simulated.explain("team", name) for name in ("vast", "lost", "second")}
    found = {name: (told.position, told.waiting) for name, told in places.items() if told is not None}
    assert found == {"vast": (0, 1), "lost": (0, 1), "second": (1, 1)}


def test_a_long_queue_is_counted_some_jobs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = full()
    names = [f"p{index:04}" for index in range(1_700)]
    simulated.see(*(mine(name, created=f"2026-{name}", request=amounts(cpu="2")) for name in names))
    simulated.run()
    plugins, looks = simulated.scheduler.session.plugins, [0]
    job_order = plugins.job_order

    def looked(job: Job, total: Mapping[str, int]) -> tuple[object, ...]:
        looks[-1] += 1
        return job_order(job, total)

    monkeypatch.setattr(plugins, "job_order", looked)
    steps = simulated.scheduler.explain("team", "p1234")
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            told = ended.value
            break
        # Between two steps events come, and others go.
        if len(looks) == 1:
            looks.append(0)
            simulated.gone(simulated.named("p1600"))
            simulated.run()
            # That is no part of the answer.
            looks.pop()
        looks.append(0)
    assert (told.position, told.waiting) == (1_235, 1_699)
    assert max(looks) <= 501
    assert sum(looks) > 1_600


def test_what_does_not_wait_is_explained_too() -> None:
    simulated = full()
    simulated.see(mine("gated", gated=True), mine("claims", unsupported=("spec.resourceClaims",)))
    simulated.run()

    def state(name: str) -> tuple[str, str]:
        told = simulated.explain("team", name)
        assert told is not None
        return told.state, told.limit

    assert state("running") == ("Running", "")
    assert state("theirs") == ("Foreign", "the pod names the scheduler 'default-scheduler'")
    assert state("gated") == ("Gated", "the pod has scheduling gates")
    assert state("claims") == ("Refused", "not supported: spec.resourceClaims")
    assert simulated.explain("team", "nobody") is None


def test_a_pod_that_waits_for_victims_says_so() -> None:
    simulated = Simulated(load('actions: "allocate, preempt"\ntiers:\n- plugins:\n  - name: priority\n', "test"))
    simulated.see(node("n1"), *(mine(f"low{index}") for index in range(4)))
    simulated.run()
    simulated.see(mine("high", priority=1))
    simulated.run_once()
    told = simulated.explain("team", "high")
    assert told is not None
    assert (told.state, told.node) == ("Pipelined", "n1")
    assert told.limit == "room on node n1 is kept for it until others have left"


def test_queues_are_reported_parents_first_with_what_is_below_them() -> None:
    simulated = Simulated()
    simulated.see(
        node("n1"), queue("top", weight=3, dialect=INCUBATOR), queue("leaf", parent="top"), queue("bad", weight=0)
    )
    simulated.see(gang("g", 1, queue="leaf"), *(mine(f"g{index}", group="g") for index in range(6)))
    simulated.run()
    reports = {report.name: report for report in simulated.scheduler.queues()}
    assert list(reports) == ["default", "top", "leaf", "bad"]
    for name in ("top", "leaf"):
        report = reports[name]
        assert report.allocated == (("cpu", 4000), ("pods", 4))
        assert report.deserved == (("cpu", 4000),)
        assert report.requested == (("cpu", 6000), ("pods", 6))
        assert (report.pending_groups, report.running_groups, report.pending_pods, report.share) == (1, 1, 2, 1000)
    assert reports["bad"].problem == "spec.weight: 0 is not a positive integer"
