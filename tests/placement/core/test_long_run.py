# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placements by the million in simulated time, with faults all the while: no promise is broken, and memory stays flat.

`make soak` makes 10^6 placements, `make test` a sample of them.
"""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from placement.model.messages.action import Bind, Evict, GroupStatus
from placement.model.messages.event import BindFailed, EvictRefused
from placement.model.objects.pod import Phase
from placement.model.objects.workload import PodGroup
from placement.policy.framework.session import Session
from placement.policy.jobs.group_key import GroupKey
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, gang, mine, node, pairs, queue
from placement_kit.simulated import Simulated

NODES, PODS = 100, 680
ZONES = ("a", "b", "c")
SHAPES = tuple(
    amounts(cpu=cpu, memory=memory) for cpu, memory in (("1", "1Gi"), ("2", "2Gi"), ("4", "1Gi"), ("500m", "4Gi"))
)
# More than any node has, so that whoever asks for it is given up until there are other nodes.
TOO_LARGE = amounts(cpu="17", memory="1Gi")
SIZES = (1, 1, 1, 2, 3, 8, 20)
QUEUES = ("default", "first", "second")
# Placements between two thorough looks.
LOOK = 1_000
# Memory may grow by so much between a fifth of the way and its end: the interpreter's own, whatever the length.
GROWTH_BYTES = 16 << 20
CONFIGURATION = """\
actions: "allocate, backfill, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


class Run:
    """A cluster, its users and its faults."""

    def __init__(self, rng: random.Random) -> None:
        self._random = rng
        self.simulated = Simulated(load(CONFIGURATION, "test"))
        self.placed = self.evicted = 0
        self._made = 0
        room = amounts(cpu="16", memory="64Gi", pods="40")
        self._nodes = [
            node(f"n{index}", labels=pairs(zone=ZONES[index % 3]), allocatable=room, unschedulable=index % 5 == 0)
            for index in range(NODES)
        ]
        self.simulated.see(*self._nodes, queue("first", weight=3), queue("second", capability=amounts(cpu="400")))
        # Members that are there, by the UID of their group.
        self._jobs: dict[str, tuple[PodGroup, set[str]]] = {}
        # What other tests of the process hold on to.
        gc.collect()
        self._told_before = len(statuses())

    def step(self) -> None:
        """Jobs come, some run, some end, and now and then something goes wrong."""
        simulated = self.simulated
        simulated.now += self._random.choice((0.1, 1.0, 7.0))
        while len(simulated.pods) < PODS:
            self._submit()
        self._decide()
        self._end()
        if self._random.random() < 0.2:
            one = self._random.choice(self._nodes)
            simulated.see(replace(one, unschedulable=self._random.random() < 0.2))
        simulated.actions.clear()

    def _submit(self) -> None:
        self._made += 1
        choice, size = self._random.choice, self._random.choice(SIZES)
        group = gang(f"g{self._made}", choice((1, size)), queue=choice(QUEUES))
        shape = choice(SHAPES) if self._random.random() < 0.99 else TOO_LARGE
        more = {"request": shape, "priority": choice((0, 0, 0, 0, 0, 0, 0, 5))}
        members = [mine(f"g{self._made}-{index}", group=group.name, **more) for index in range(size)]
        self.simulated.see(group, *members)
        self._jobs[group.uid] = group, {member.uid for member in members}

    def _decide(self) -> None:
        """One slice, whose actions succeed for the most part."""
        simulated, book = self.simulated, self.simulated.scheduler.cache
        for action in simulated.run_once():
            if isinstance(action, Bind):
                job = book.jobs.tasks[action.uid].job
                assert job.ready >= job.min_member, f"{job} is not whole"
            fails = self._random.random() < 0.02
            if isinstance(action, Bind) and fails:
                simulated.tell(BindFailed(action.uid, action.node, "no"))
            elif isinstance(action, Evict) and fails:
                simulated.tell(EvictRefused(action.uid, "disruption budget team/some"))
            else:
                self.placed += isinstance(action, Bind)
                self.evicted += isinstance(action, Evict)
                simulated.carry_out(action)

    def _end(self) -> None:
        """Some jobs end and are cleaned away, whether they have run or not."""
        for uid in self._random.sample(sorted(self._jobs), k=max(1, len(self._jobs) // 8)):
            group, members = self._jobs.pop(uid)
            there = [self.simulated.pods[member] for member in members if member in self.simulated.pods]
            ended = [pod for pod in there if pod.node]
            self.simulated.see(*(replace(pod, phase=Phase.SUCCEEDED) for pod in ended if self._random.random() < 0.5))
            self.simulated.gone(group, *there)

    def look(self) -> None:
        """Nothing is overfull, and the state knows what there is and nothing else."""
        simulated = self.simulated
        simulated.check()
        cluster, book = simulated.scheduler.cluster, simulated.scheduler.cache
        assert cluster.pods.by_uid.keys() == simulated.pods.keys()
        book.sync()
        while book.arriving:
            book.sync()
        assert book.jobs.tasks.keys() == simulated.pods.keys()
        assert {job.group.uid for job in book.jobs.by_key.values() if job.group} == self._jobs.keys()
        for name, keys in keyed_by_jobs(simulated.scheduler.session):
            assert keys <= book.jobs.by_key.keys(), f"{name} keeps what is known of jobs that are gone"
        told = len(statuses()) - self._told_before
        assert told <= 2 * len(self._jobs), "what was said of groups that are gone is kept"


def statuses() -> list[GroupStatus]:
    """Return all statuses of groups that the process knows."""
    return [one for one in gc.get_objects() if isinstance(one, GroupStatus)]


def keyed_by_jobs(session: Session) -> Iterator[tuple[str, set[object]]]:
    """Whatever the book, the session and those who claim room have under the keys of jobs, by its name."""
    for holder in (
        session,
        session.cache,
        session.cache.jobs,
        session.cache.usage,
        session.cache.admission,
        session.cache.queue,
        session.preempting,
        session.reclaiming,
        *session.cache.tree.by_name.values(),
    ):
        names = getattr(type(holder), "__slots__", ()) or vars(holder)
        for name in names:
            held = getattr(holder, name)
            if isinstance(held, dict | set):
                yield f"{type(holder).__name__}.{name}", {key for key in held if isinstance(key, GroupKey)}


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("placements", [3_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_placements_without_end_break_no_promise_and_take_no_more_memory(
    placements: int, chosen: random.Random
) -> None:
    run = Run(chosen)
    looks, early = 0, 0
    while run.placed < placements:
        run.step()
        if run.placed >= looks * LOOK:
            looks += 1
            run.look()
        if not early and run.placed >= placements // 5:
            early = resident_bytes()
    late = resident_bytes()
    print(f"{run.placed} placements, {run.evicted} evictions, {looks} looks; {early >> 20} MiB, then {late >> 20}")
    assert late - early < GROWTH_BYTES
    assert run.evicted


def test_a_queue_that_is_full_keeps_nobody_who_is_gone() -> None:
    simulated = Simulated(load(CONFIGURATION, "test"))
    simulated.see(node("n1"), queue("full", capability=amounts(cpu="1")), gang("first", 1, queue="full"))
    simulated.see(mine("first-0", group="first", request=amounts(cpu="1")))
    simulated.run()
    for number in range(1_200):
        group, pod = gang(f"g{number}", 1, queue="full"), mine(f"g{number}-0", group=f"g{number}")
        simulated.see(group, pod)
        simulated.decide()
        simulated.gone(group, pod)
        simulated.decide()
    full = simulated.scheduler.cache.tree.by_name["full"]
    assert not full.waiting
    assert len(full.order) <= 1_100


@pytest.mark.parametrize("leads", [False, True])
def test_a_daemon_that_does_not_place_pods_without_requests_keeps_none_that_is_gone(*, leads: bool) -> None:
    """A standby places nothing, and nobody places such pods without `backfill`."""
    simulated = Simulated(load(CONFIGURATION.replace("backfill, ", ""), "test"))
    turn = simulated.decide if leads else simulated.follow
    simulated.see(node("n1"))
    for number in range(1_200):
        pod = mine(f"p{number}", request=())
        simulated.see(pod)
        turn()
        simulated.gone(pod)
        turn()
    default = simulated.scheduler.cache.tree.by_name["default"]
    assert not default.waiting
    assert len(default.best_effort) <= 1_100
