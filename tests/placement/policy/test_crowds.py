# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Crowds of gangs that fit nowhere: whoever fits is bound although something changes all the time."""

from itertools import count
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from placement.core.scheduler import Scheduler
from placement.model.messages.action import Action, Bind, Evict
from placement.model.messages.event import Deleted, Unreadable, Upserted
from placement.model.messages.refusal import Refusal
from placement.model.objects.pod import Phase, Pod
from placement.model.objects.workload import PodGroup
from placement.model.rules.selector import NodeSelector
from placement.policy.cache.scheduling_queue.lazy_heap import LazyHeap
from placement.policy.jobs.group_key import GroupKey, Source
from placement.policy.jobs.job import Job
from placement.policy.plugins.configuration import load
from placement.policy.preemption.evaluator import Evaluator
from placement_kit.builders import amounts, gang, mine, node, pairs, pod, priority_class, queue
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated

GANGS = 700
# Tries that a slice has time for.
TRIES = 40


class Crowded:
    """One node with one core left, and gangs of two cores that came before everybody else."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(load(policy("allocate"), "test"), scheduler_name="placement")
        self.see(node("n1", allocatable=amounts(cpu="8", pods="5000")), priority_class("high", 10))
        self.see(pod("large", node="n1", request=amounts(cpu="7"), phase=Phase.RUNNING))
        for index in range(GANGS):
            self.see(gang(f"g{index}", 1, created="2026-01-01T00:00:00Z"))
            self.see(mine(f"g{index}", group=f"g{index}", request=amounts(cpu="2")))
        self.changes = 0
        while self.scheduler.decide(0.0, lambda: False).more:
            pass

    def see(self, *items: object) -> None:
        for item in items:
            self.scheduler.apply(Upserted(item))

    def change(self) -> None:
        """A node is not as it was: all that did not fit may fit now."""
        self.changes += 1
        self.see(node("n0", labels=pairs(change=str(self.changes)), version=10 + self.changes, allocatable=amounts()))

    def end_large(self) -> None:
        """The large pod is gone."""
        self.scheduler.apply(Deleted(Pod, "uid-large", 99))

    def slice(self) -> tuple[Action, ...]:
        left = iter(range(TRIES))
        return self.scheduler.decide(0.0, lambda: next(left, None) is None).actions


def bound(actions: tuple[Action, ...]) -> list[str]:
    return [action.name for action in actions if isinstance(action, Bind)]


def test_a_pod_that_fits_is_bound_although_nodes_change_in_every_slice() -> None:
    crowded = Crowded()
    crowded.change()
    crowded.slice()
    crowded.see(mine("small", created="2026-01-02T00:00:00Z"))
    for _unused in range(100):
        crowded.change()
        if bound(crowded.slice()) == ["small"]:
            return
    raise AssertionError("later pods are never tried")


@pytest.mark.parametrize("slices", [0, 1, 5, 15, 20, 25, 30])
def test_room_goes_to_who_is_first_although_others_have_not_been_tried(slices: int) -> None:
    crowded = Crowded()
    crowded.see(gang("first", 1, priority_class="high"), mine("first", group="first", request=amounts(cpu="4")))
    crowded.slice()
    crowded.change()
    for _unused in range(slices):
        assert not bound(crowded.slice())
    crowded.end_large()
    found: list[str] = []
    for _unused in range(100):
        found += bound(crowded.slice())
    assert (found[0], len(found)) == ("first", 3)


def test_equal_gangs_that_fit_nowhere_are_tried_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    crowded = Crowded()
    tried, chooser = [], crowded.scheduler.session.host_selector
    place = chooser.place
    monkeypatch.setattr(chooser, "place", lambda tasks, statement: tried.append(tasks) or place(tasks, statement))
    crowded.change()
    while crowded.scheduler.decide(0.0, lambda: False).more:
        pass
    assert len(tried) == 1
    # A smaller one is another matter, and so is what comes once there is room.
    crowded.see(gang("small", 1), mine("small", group="small", request=amounts(cpu="1")))
    assert bound(crowded.slice()) == ["small"]
    crowded.end_large()
    assert len([name for _unused in range(100) for name in bound(crowded.slice())]) == 3


def test_no_slice_looks_at_all_of_a_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler(
        load(policy("enqueue, allocate, backfill, preempt, reclaim"), "test"), scheduler_name="placement"
    )
    first = (queue("default"), queue("other"), node("n1"), priority_class("high", 10), gang("low", 1, queue="other"))
    for item in (*first, mine("low", group="low", node="n1", request=amounts(cpu="4"), phase=Phase.RUNNING)):
        scheduler.apply(Upserted(item))
    for index in range(2_000):
        asked = amounts(cpu="1") if index % 4 == 0 else ()
        scheduler.apply(Upserted(gang(f"g{index}", 1, priority_class="high", min_resources=asked)))
        scheduler.apply(Upserted(mine(f"g{index}", group=f"g{index}", priority=10, request=amounts(cpu="4"))))
    while scheduler.decide(0.0, lambda: False).more:
        pass
    looks, pending = [], Job.pending.fget
    assert pending is not None
    monkeypatch.setattr(Job, "pending", property(lambda job: looks.append(job) or pending(job)))
    scheduler.apply(Upserted(node("n2", unschedulable=True)))
    seen = set[str]()
    for _unused in range(5_000):
        looks.clear()
        more = scheduler.decide(0.0, lambda: True).more
        assert len(looks) < 1_200
        seen.update(job.key for job in looks)
        if not more:
            break
    assert len(seen) >= 1_500


class Watched(dict):
    """A table that notes how often somebody looks through it."""

    looks = 0

    def keys(self):
        self.looks += 1
        return super().keys()


def test_what_is_known_of_a_job_goes_with_it_and_nobody_looks_through_a_crowd_that_drains() -> None:
    crowded = Crowded()
    session, book = crowded.scheduler.session, crowded.scheduler.cache
    # Others are there of whom nothing is known, then there are fewer and fewer.
    others = [mine(f"gated{index}", gated=True) for index in range(GANGS)]
    crowded.see(*others)
    crowded.slice()
    book.jobs.by_key = jobs = Watched(book.jobs.by_key)
    assert len(session.refusals) == GANGS
    for index in range(40):
        gone = gang(f"g{index}", 1)
        crowded.scheduler.apply(Deleted(PodGroup, gone.uid, 10**6))
        crowded.scheduler.apply(Deleted(Pod, f"uid-{gone.name}", 10**6))
        if index == 20:
            for other in others:
                crowded.scheduler.apply(Deleted(Pod, other.uid, 10**6))
        crowded.slice()
        crowded.slice()
        assert len(session.refusals) == GANGS - index - 1
    assert not jobs.looks


def arrive(number: int) -> Scheduler:
    """Gangs of two queues come one after the other; one pod could leave for them, and that would not be enough."""
    scheduler = Scheduler(load(policy("reclaim, allocate, backfill, preempt"), "test"), scheduler_name="placement")
    room = amounts(cpu="8", memory="64Gi", pods="5000")
    first = (queue("default"), queue("other"), node("n1", allocatable=room), priority_class("high", 10))
    for item in (*first, pod("large", node="n1", request=amounts(cpu="6"), phase=Phase.RUNNING)):
        scheduler.apply(Upserted(item))
    scheduler.apply(Upserted(mine("low", node="n1", request=amounts(cpu="1"), phase=Phase.RUNNING)))
    for index in range(number):
        name, where = f"g{index}", "other" if index % 2 else "default"
        scheduler.apply(Upserted(gang(name, 1, queue=where, priority_class="high")))
        scheduler.apply(Upserted(mine(name, group=name, priority=10, request=amounts(cpu="4", memory="1Mi"))))
        if index % 5 == 0:
            scheduler.decide(0.0, lambda: False)
    while scheduler.decide(0.0, lambda: False).more:
        pass
    return scheduler


def test_gangs_for_which_nobody_can_leave_cost_no_more_where_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, pending = [], Job.pending.fget
    tries, room_for = [], Evaluator.room_for
    assert pending is not None
    monkeypatch.setattr(Job, "pending", property(lambda job: looks.append(job) or pending(job)))
    monkeypatch.setattr(Evaluator, "room_for", lambda making, job: tries.append(job) or room_for(making, job))
    for number in (100, 400):
        looks.clear()
        tries.clear()
        assert len(arrive(number).cache.queue.unschedulable) == number
        # About 25 and 2; more than 200 and 30 where the crowd is looked through, and each of it is tried.
        assert len(looks) < 40 * number
        assert len(tries) < 4 * number


def test_a_crowd_in_a_queue_that_has_enough_is_not_looked_through_in_every_cycle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks, pending = [], Job.pending.fget
    assert pending is not None
    monkeypatch.setattr(Job, "pending", property(lambda job: looks.append(job) or pending(job)))
    for number in (100, 400):
        scheduler = Scheduler(load(policy("allocate, backfill, preempt"), "test"), scheduler_name="placement")
        for item in (queue("default", capability=amounts(cpu="1")), node("n1"), gang("low", 1)):
            scheduler.apply(Upserted(item))
        scheduler.apply(Upserted(mine("low", group="low", node="n1", request=amounts(cpu="1"), phase=Phase.RUNNING)))
        looks.clear()
        for index in range(number):
            scheduler.apply(Upserted(gang(f"g{index}", 1)))
            scheduler.apply(Upserted(mine(f"g{index}", group=f"g{index}", request=amounts(cpu="1"))))
            scheduler.decide(0.0, lambda: False)
        while scheduler.decide(0.0, lambda: False).more:
            pass
        assert len(scheduler.cache.tree.by_name["default"].waiting) == number
        assert len(looks) < 20 * number


def test_equal_groups_that_are_not_let_in_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr("placement.policy.actions.enqueue.covers", lambda idle, wanted: asked.append(wanted) or False)
    scheduler = Scheduler(load(policy("enqueue, allocate"), "test"), scheduler_name="placement")
    scheduler.apply(Upserted(node("n1")))
    for index in range(300):
        scheduler.apply(Upserted(gang(f"g{index}", 1, min_resources=amounts(cpu=str(9 + index % 2)))))
        scheduler.apply(Upserted(mine(f"g{index}", group=f"g{index}")))
        scheduler.decide(0.0, lambda: False)
    assert len(scheduler.cache.queue.gated) == 300
    assert len(asked) <= 2 * 300


def test_jobs_that_could_never_run_are_reconsidered_some_at_a_time() -> None:
    simulated = Simulated(load(policy(), "test"))
    simulated.see(node("n1"))
    for index in range(300):
        simulated.see(gang(f"g{index}", 1), mine(f"g{index}", group=f"g{index}", request=amounts(cpu="5")))
    simulated.run()
    assert len(simulated.scheduler.cache.admission.never_fits) == 300
    simulated.see(node("n2", allocatable=amounts(cpu="10", pods="10")))
    for action in simulated.run_once(lambda: True):
        simulated.carry_out(action)
    assert len(simulated.scheduler.cache.admission.to_refresh) > 100
    simulated.run()
    assert len(simulated.placements()) == 2
    assert not simulated.scheduler.cache.admission.never_fits


@given(st.lists(st.tuples(st.sampled_from("pptg"), st.integers(0, 9), st.integers(0, 3)), max_size=60))
def test_the_first_of_a_ranking_are_those_that_sorting_would_find(steps: list[tuple[str, int, int]]) -> None:
    table: dict[GroupKey, Job] = {}
    ranking, tickets = LazyHeap(table), count(1)
    for what, which, number in steps:
        key = GroupKey(Source.POD, "team", str(which))
        if what == "g":
            table.pop(key, None)
        elif what == "p":
            job = table.setdefault(key, Job(key))
            job.order, job.position = (number, str(which)), next(tickets)
            ranking.add(job)
        else:
            found = list(ranking.take(number))
            assert found == sorted(table.values(), key=lambda job: job.order)[:number]
            for job in found:
                del table[job.key]
        ranking.tidy()


def test_a_ranking_forgets_who_has_moved_on() -> None:
    table: dict[GroupKey, Job] = {}
    ranking = LazyHeap(table)
    for ticket in range(50_000):
        key = GroupKey(Source.POD, "team", str(ticket % 1_000))
        job = table.setdefault(key, Job(key))
        job.order, job.position = (0, key), ticket
        ranking.add(job)
        if ticket % 100 == 0:
            ranking.tidy()
    assert len(ranking) < 5_000
    assert [job.position for job in ranking.take(1_000)] == [
        job.position for job in sorted(table.values(), key=lambda job: job.key)
    ]


def test_who_waits_for_a_node_is_tried_when_what_could_not_be_read_there_is_gone() -> None:
    simulated = Simulated(load(policy(), "test"))
    refusal = Refusal(kind="Pod", field="spec", reason="is odd", namespace="team", name="odd", uid="odd", node="n1")
    simulated.see(node("n1"))
    simulated.scheduler.apply(Unreadable(Pod, refusal))
    simulated.see(mine("waits"))
    simulated.run()
    assert simulated.placements() == {}
    simulated.scheduler.apply(Deleted(Pod, "odd", 10**6))
    simulated.run()
    assert simulated.placements() == {"waits": "n1"}


def test_other_plugins_order_those_that_wait_by_other_keys() -> None:
    simulated = Simulated(load(policy(), "test"))
    small = {"allocatable": amounts(cpu="1", pods="10")}
    simulated.see(node("n1", **small), priority_class("high", 10), gang("1", 1), gang("2", 1, priority_class="high"))
    simulated.see(*(mine(name, group=name) for name in "12"), *(mine(name, created=name) for name in "345"))
    for action in simulated.run_once(lambda: True):
        simulated.carry_out(action)
    assert simulated.placements() == {"2": "n1"}
    # The others are in line, and have keys of five plugins.
    simulated.scheduler.configure(
        load("actions: allocate\ntiers:\n- plugins: [{name: gang}]", "test"),
        partial_gang_seconds=120.0,
        reserve_after=300.0,
    )
    simulated.run()
    simulated.see(node("n2", **small))
    simulated.run()
    assert simulated.placements() == {"2": "n1", "1": "n2"}


class Contended:
    """Somebody could leave for small pods, and nobody for large ones of higher priority; and something always ends."""

    def __init__(self, action: str, large: int, *, full: bool = False) -> None:
        self.simulated = Simulated(load(policy(f"allocate, {action}"), "test"))
        theirs = "ours" if action == "preempt" else "theirs"
        # Where the queue has all that it deserves, allocate does not come to its jobs.
        deserved = {"capability": amounts(cpu="3")} if full else {}
        self.see(queue("ours", weight=99, **deserved), queue("theirs"), node("n1"), node("n2"))
        self.see(gang("low", 1, queue=theirs))
        self.see(*(mine(f"low{index}", group="low", node="n1", phase=Phase.RUNNING) for index in range(3)))
        self.see(pod("other", node="n1", phase=Phase.RUNNING))
        self._ended = self._large = 0
        self.cycle()
        self.add_large(large)
        self.simulated.run()

    def see(self, *items: object) -> None:
        self.simulated.see(*items)

    def add_large(self, number: int) -> None:
        for _unused in range(number):
            self._large += 1
            self.add(f"large{self._large:03}", cpu="4", priority=100)

    def add(self, name: str, *, cpu: str = "1", priority: int) -> None:
        self.see(gang(name, 1, queue="ours"), mine(name, group=name, priority=priority, request=amounts(cpu=cpu)))

    def cycle(self) -> list[str]:
        """What ends frees nothing that is enough; who is to leave in the next cycle."""
        self._ended += 1
        self.simulated.now += 1
        self.simulated.gone(*(item for item in [*self.simulated.pods.values()] if item.name.startswith("ending")))
        names = [f"ending{self._ended}-{index}" for index in range(4)]
        self.see(*(pod(name, node="n2", phase=Phase.RUNNING) for name in names))
        return [action.name for action in self.simulated.run_once() if isinstance(action, Evict)]


@settings(max_examples=max(4, settings().max_examples // 12))  # of several seconds each
@given(st.sampled_from(["preempt", "reclaim"]), st.integers(0, 40), st.integers(0, 6), st.integers(1, 2), st.booleans())
@example("preempt", 16, 0, 1, False)
@example("reclaim", 40, 6, 2, False)
@example("preempt", 40, 6, 2, True)
def test_each_claimant_has_its_turn_although_others_come_and_something_always_ends(
    action: str, large: int, coming: int, small: int, full: bool
) -> None:
    contended = Contended(action, large, full=full and action == "preempt")
    for index in range(small):
        contended.add(f"small{index}", priority=50 - index)
    left: list[str] = []
    # Eight have their turn in a cycle: all that were there, then all that have come until then.
    rounds = -(-(large + small) // 8)
    bound = rounds + -(-(large + small + coming * rounds) // 8) + small + 1
    for _unused in range(bound):
        contended.add_large(coming)
        left += contended.cycle()
    assert len(left) >= small
    assert all(name.startswith("low") for name in left)


ROOM = amounts(cpu="4", memory="4Gi", pods="500")


class Filling:
    """A full node, and three that have room for pods without memory: 800 of these come behind all others."""

    def __init__(self, *waiting: Pod) -> None:
        self.simulated = Simulated(load(policy("allocate, backfill"), "test"))
        self.see(node("n0", allocatable=ROOM))
        self.see(*(node(f"m{index}", allocatable=amounts(cpu="4", pods="500")) for index in range(3)))
        self.see(mine("own", node="n0", request=amounts(cpu="4"), phase=Phase.RUNNING), *waiting)
        self.simulated.run()
        self.see(*(mine(f"low{index}", request=amounts(cpu="10m")) for index in range(800)))
        self.slices(3)

    def see(self, *items: Any) -> None:
        self.simulated.see(*items)

    def slices(self, number: int) -> None:
        """Slices that have time for some tries each; what they decide is carried out."""
        for _unused in range(number):
            left = iter(range(TRIES))
            for action in self.simulated.run_once(lambda left=left: next(left, None) is None):
                self.simulated.carry_out(action)

    def on(self, name: str) -> set[str]:
        """The pods on this node."""
        return {pod for pod, at in self.simulated.placements().items() if at == name}


@pytest.mark.parametrize("unfit", [0, 200])
@pytest.mark.parametrize("room", ["of a pod that ends", "of a new node"])
def test_room_goes_to_a_job_that_was_tried_before_although_a_crowd_behind_it_is_being_placed(
    room: str, unfit: int
) -> None:
    elsewhere = NodeSelector((("no", "such"),))
    first = (mine(f"first{index}", priority=9, selector=elsewhere) for index in range(unfit))
    filling = Filling(*first, mine("high", priority=8, request=amounts(cpu="4", memory="1Gi")))
    assert "high" not in filling.simulated.placements()
    if room == "of a new node":
        filling.see(node("n1", allocatable=ROOM))
    else:
        filling.simulated.gone(filling.simulated.named("own"))
    filling.slices(12)
    assert {"high"} in (filling.on("n0"), filling.on("n1"))
    # The others had their turn meanwhile, and were not done.
    assert 100 < len(filling.simulated.placements()) < 800


def test_of_room_for_many_jobs_that_were_tried_before_a_crowd_behind_them_gets_none() -> None:
    asked = amounts(cpu="40m", memory="1Mi")
    filling = Filling(*(mine(f"high{index}", priority=8, request=asked) for index in range(400)))
    assert filling.on("n0") == {"own"}
    filling.simulated.gone(filling.simulated.named("own"))
    filling.slices(6)
    assert len(filling.on("n0")) == 100
    assert not any(name.startswith("low") for name in filling.on("n0"))
