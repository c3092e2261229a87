# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of queues count from the next decision on, although the jobs that they concern are read again in slices."""

from dataclasses import replace

import pytest
from placement.model.messages.action import Action, Bind, Evict, Submit
from placement.model.objects.pod import Phase
from placement.policy.jobs.job import Status
from placement.policy.plugins.configuration import load
from placement_kit.backed import Backed
from placement_kit.builders import amounts, gang, mine, node, pod, priority_class, queue
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated

# More than are read again in one slice.
CROWD = 300
SHUT = (queue("ours", is_open=False), queue("ours", namespaces=frozenset({"other"})), queue("ours", parent="nowhere"))
LARGE = node("n2", allocatable=amounts(cpu="4000", memory="64Ti", pods="5000"))


def waiting(actions: str = "allocate, backfill", *, cpu: str = "1") -> Simulated:
    """Jobs that wait because the only node is full."""
    simulated, request = Simulated(load(policy(actions), "test")), amounts(cpu=cpu) if cpu else ()
    simulated.see(queue("ours"), queue("default"), priority_class("high", 10))
    simulated.see(node("n1", allocatable=amounts(cpu="4", memory="8Gi", pods="1")))
    simulated.see(pod("full", node="n1", request=amounts(cpu="4"), phase=Phase.RUNNING))
    for index in range(CROWD):
        simulated.see(gang(f"g{index}", 1, queue="ours"), mine(f"g{index}", group=f"g{index}", request=request))
    simulated.run()
    return simulated


def decided(simulated: Simulated, *, cut: bool) -> list[Action]:
    """All that is decided from now on."""
    found: list[Action] = []
    for _unused in range(20 * CROWD):
        left = iter(range(20 if cut else 10**9))
        decision = simulated.decide(lambda left=left: next(left, None) is None)
        for action in decision.actions:
            simulated.carry_out(action)
        found += decision.actions
        if not decision.more and not decision.actions:
            return found
    raise AssertionError("the scheduler does not come to rest")


def bound(actions: list[Action]) -> list[str]:
    return [action.name for action in actions if isinstance(action, Bind)]


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("change", SHUT)
def test_nobody_is_bound_in_a_queue_that_has_shut_him_out(change, cut: bool) -> None:
    for cpu in ("1", ""):
        simulated = waiting(cpu=cpu)
        simulated.see(change, LARGE)
        assert not bound(decided(simulated, cut=cut))
        simulated.see(queue("ours"))
        assert len(bound(decided(simulated, cut=cut))) == CROWD


@pytest.mark.parametrize("cut", [False, True])
def test_nobody_is_bound_beyond_a_capability_that_has_been_lowered(cut: bool) -> None:
    simulated = waiting()
    simulated.see(queue("ours", capability=amounts(cpu="7")), LARGE)
    assert len(bound(decided(simulated, cut=cut))) == 7


def test_who_is_still_admitted_is_bound_in_the_order_of_all() -> None:
    simulated = waiting()
    simulated.see(queue("ours", namespaces=frozenset({"team"})), LARGE)
    assert len(bound(decided(simulated, cut=False))) == CROWD
    assert not simulated.scheduler.cache.admission.read_before_change


@pytest.mark.parametrize("change", SHUT)
def test_nobody_has_to_leave_for_a_job_that_is_shut_out(change) -> None:
    simulated = waiting("allocate, preempt, reclaim", cpu="4")
    last = mine("last", group="last", request=amounts(cpu="4"), priority=10)
    simulated.see(gang("last", 1, queue="ours", priority_class="high"), last)
    simulated.run()
    # Those who could leave for it come together with the change.
    simulated.see(change)
    for name, where in (("low", "ours"), ("other", "default")):
        simulated.see(gang(name, 1, queue=where), node(f"n-{name}"))
        running = {"node": f"n-{name}", "phase": Phase.RUNNING, "request": amounts(cpu="4")}
        simulated.see(mine(name, group=name, **running))
    assert not [action for action in decided(simulated, cut=True) if isinstance(action, Evict)]


@pytest.mark.parametrize("change", SHUT[1:])
def test_room_that_is_kept_for_a_job_that_is_shut_out_is_not_given_to_it(change) -> None:
    simulated = waiting("allocate, preempt")
    simulated.see(gang("low", 1, queue="ours"), node("n3"))
    simulated.see(mine("low", group="low", node="n3", request=amounts(cpu="4"), phase=Phase.RUNNING))
    simulated.see(gang("high", 1, queue="ours", priority_class="high"))
    simulated.see(mine("high", group="high", priority=10, request=amounts(cpu="4")))
    decision = simulated.run_once()
    assert [action.name for action in decision if isinstance(action, Evict)] == ["low"]
    assert simulated.scheduler.cache.jobs.tasks["uid-high"].status is Status.PIPELINED
    simulated.gone(simulated.named("low"))
    simulated.see(change)
    assert not bound(decided(simulated, cut=False))
    assert simulated.scheduler.cache.jobs.tasks["uid-high"].status is Status.PENDING


def test_no_job_is_submitted_for_a_pod_that_is_shut_out() -> None:
    site = Backed()
    site.batch.closed = True
    site.see(*(site.pod(f"p{index}") for index in range(CROWD)))
    site.run()
    site.see(queue("backed", placed_by="pbs", is_open=False))
    site.read()
    found: list[Action] = []
    for _unused in range(20):
        found += site.run_once()
    assert not [action for action in found if isinstance(action, Submit)]
    # Those that have jobs already keep them while their queue is read again.
    site.see(queue("backed", placed_by="pbs"))
    site.settle()
    assert len(site.batch.jobs) == CROWD
    site.see(queue("backed", placed_by="pbs", weight=2))
    site.settle()
    assert len(site.batch.jobs) == CROWD


def test_a_pod_that_something_happens_to_while_its_queue_is_read_again_does_not_rest_there() -> None:
    simulated = Simulated()
    simulated.see(queue("ours"), queue("default"), LARGE)
    key = "scheduling.converged.hpc/queue"
    where = ((key, "ours"),)
    running = {"node": "n2", "phase": Phase.RUNNING, "annotations": where}
    simulated.see(*(mine(f"p{index}", **running) for index in range(2 * CROWD)))
    simulated.run()
    simulated.see(queue("ours", namespaces=frozenset({"other"})))
    # Nobody is cut off, so one slice reads some of them.
    simulated.run_once()
    book = simulated.scheduler.cache
    assert book.admission.read_before_change
    # What happens to one that has not been read does not put it to rest in a queue that may not have it.
    simulated.see(*(replace(item, labels=(("app", "x"),)) for item in [*simulated.pods.values()]))
    simulated.run()
    assert not book.admission.read_before_change
    assert {job.problem.reason for job in book.jobs.every_job() if job.problem is not None} == {"ForbiddenQueue"}
    assert len([job for job in book.jobs.every_job() if job.problem is not None]) == 2 * CROWD
