# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gangs that are bound in part: which leave, when, and what is said of it."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from placement.kube.dialects import BY_NAME
from placement.kube.fields.metadata import Sharing
from placement.model.messages.action import Action, Bind, Evict, SelectNode
from placement.model.messages.event import BindFailed, EvictRefused
from placement.model.objects.node import Node
from placement.model.objects.pod import Phase
from placement.model.objects.volume import PersistentVolumeClaim, StorageClass
from placement.model.objects.workload import UPSTREAM_ALPHA, PodGroup
from placement_kit.builders import amounts, gang, mine, node, pod
from placement_kit.simulated import Simulated

PATIENCE = 120.0


def half_bound(**more: object) -> Simulated:
    """A gang of two on two nodes: one member is bound, the other's node is taken by a foreign pod meanwhile."""
    simulated = Simulated()
    simulated.see(*nodes(), gang("g", 2, **more))
    simulated.see(*(mine(f"g{index}", group="g", request=nodes()[0].allocatable[:1]) for index in range(2)))
    first, second = (action for action in simulated.run_once() if isinstance(action, Bind))
    simulated.see(pod("foreign", node=second.node, request=nodes()[0].allocatable[:1]))
    simulated.carry_out(first)
    simulated.scheduler.apply(BindFailed(second.uid, second.node, "webhook says no"))
    assert not evicted(simulated.run())
    return simulated


def nodes() -> list[Node]:
    return [node("n1"), node("n2")]


def evicted(actions: list[Action]) -> list[Evict]:
    return [action for action in actions if isinstance(action, Evict)]


def later(simulated: Simulated, seconds: float) -> list[Evict]:
    """What has to leave when so much time has passed without any event."""
    simulated.now += seconds
    return evicted(simulated.run())


def test_half_a_gang_keeps_its_room_for_a_while_and_then_waits_again_as_a_whole() -> None:
    simulated = half_bound()
    assert not later(simulated, PATIENCE - 1)
    (gone,) = later(simulated, 1)
    assert (gone.reason, gone.message) == (
        "HalfBound",
        "team/g has had 1 of 2 members bound for 120 s and has never been whole",
    )
    status = simulated.groups()["g"]
    assert (status.scheduled, status.reason, status.message) == (False, gone.reason, gone.message)
    assert not simulated.scheduler.session.deadlines
    # Its controller makes the pod again, and the foreign pod leaves.
    simulated.see(mine("again", group="g", request=nodes()[0].allocatable[:1]))
    simulated.gone(simulated.named("foreign"))
    assert not later(simulated, 2 * PATIENCE)
    assert len(simulated.placements()) == 2
    assert simulated.groups()["g"].scheduled


def test_what_a_later_try_of_the_gang_says_replaces_that_half_of_it_was_evicted() -> None:
    simulated = half_bound()
    later(simulated, PATIENCE)
    assert simulated.groups()["g"].reason == "HalfBound"
    simulated.see(mine("again", group="g", request=nodes()[0].allocatable[:1]))
    later(simulated, PATIENCE)
    assert simulated.groups()["g"].reason == "NotEnoughResources"
    assert all("needs 2 pods placed together" in simulated.conditions()[uid] for uid in ("again", "g1"))


@pytest.mark.parametrize(("lasts", "leaves"), [(None, 600), (10, PATIENCE)])
def test_half_a_gang_waits_for_a_volume_that_is_being_made_and_not_for_a_next_try(
    lasts: float | None, leaves: float
) -> None:
    simulated = half_bound()
    simulated.gone(*(pod for pod in simulated.pods.values() if pod.name.startswith("g") and not pod.node))
    claim = PersistentVolumeClaim(
        uid="claim", namespace="team", name="data", version=1, storage_class="fast", modes=("ReadWriteOnce",), size=10
    )
    simulated.see(StorageClass(uid="class", name="fast", version=1, provisioner="csi.example", waits=True), claim)
    request = nodes()[0].allocatable[:1]
    simulated.see(node("n3"), mine("again", group="g", request=request, volume_claims=("data",)))
    gives_up: list[float] = []
    while simulated.now < 2_000:
        decided = simulated.run()
        if evicted(decided):
            break
        for action in decided:
            if isinstance(action, SelectNode):
                simulated.see(replace(claim, selected_node=action.node))
                gives_up += [simulated.now + lasts] if lasts is not None else []
        simulated.now += 1
        if gives_up and gives_up[0] <= simulated.now:
            # The provisioner takes the node back.
            gives_up.clear()
            simulated.see(claim)
    assert leaves <= simulated.now < leaves + 15


def test_half_a_gang_that_becomes_whole_in_time_stays() -> None:
    simulated = half_bound()
    assert not later(simulated, PATIENCE - 1)
    simulated.gone(simulated.named("foreign"))
    assert not later(simulated, 0)
    assert not later(simulated, 2 * PATIENCE)
    assert len(simulated.placements()) == 2


def test_a_gang_that_was_whole_and_lost_a_member_is_left_alone() -> None:
    simulated = Simulated()
    simulated.see(*nodes(), gang("g", 2))
    simulated.see(*(mine(f"g{index}", group="g") for index in range(2)))
    simulated.run()
    simulated.finish("g0", phase=Phase.FAILED)
    assert not later(simulated, 0)
    assert not later(simulated, 2 * PATIENCE)


@pytest.mark.parametrize(("phase", "leaves"), [("Pending", True), ("", True), ("Unknown", False)])
def test_what_an_earlier_scheduler_bound_leaves_only_if_its_group_has_never_begun(phase: str, leaves: bool) -> None:
    simulated = Simulated()
    simulated.see(node("n1"), gang("g", 2, phase=phase), mine("g0", group="g", node="n1", phase=Phase.RUNNING))
    assert not later(simulated, 0)
    assert bool(later(simulated, PATIENCE)) == leaves


def test_a_member_that_may_not_leave_is_asked_again() -> None:
    simulated = half_bound()
    simulated.now += PATIENCE
    (asked,) = evicted(simulated.run_once())
    simulated.scheduler.apply(EvictRefused(asked.uid, "disruption budget team/some"))
    assert not later(simulated, 29)
    assert [again.uid for again in later(simulated, 2)] == [asked.uid]


def test_a_gang_that_is_evicted_whole_starts_anew() -> None:
    simulated = Simulated()
    simulated.see(*nodes(), gang("g", 2))
    simulated.see(*(mine(f"g{index}", group="g") for index in range(2)))
    simulated.run()
    assert next(iter(simulated.scheduler.cache.jobs.by_key.values())).was_ready
    simulated.gone(*list(simulated.pods.values()))
    simulated.run()
    assert not next(iter(simulated.scheduler.cache.jobs.by_key.values())).was_ready


def test_the_group_is_told_that_it_runs_once_that_is_true() -> None:
    simulated = Simulated()
    simulated.see(*nodes(), gang("g", 2))
    simulated.see(*(mine(f"g{index}", group="g") for index in range(2)))
    decided = simulated.run_once()
    assert {type(action) for action in decided} == {Bind}
    for action in decided:
        simulated.carry_out(action)
    simulated.run()
    assert simulated.groups()["g"].scheduled


class Failing:
    """Gangs on a few nodes whose bindings fail now and then, and whose members end; repeatable by its seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.simulated = Simulated()
        self.simulated.scheduler.session.partial_gang_seconds = 5.0
        self.simulated.see(*(node(f"n{index}") for index in range(self.random.randint(1, 3))))
        self.sizes = {f"g{index}": self.random.randint(2, 4) for index in range(3)}
        self.simulated.see(*(gang(name, size) for name, size in self.sizes.items()))
        # Gangs that have been whole since they last had no member on a node.
        self.whole: set[str] = set()
        self._under_way: list[Action] = []
        self._made = 0

    def bound(self, name: str) -> int:
        pods = [one for one in self.simulated.pods.values() if one.annotations[0][1] == name]
        return sum(1 for one in pods if one.node and one.phase is not Phase.FAILED)

    def step(self, *, failing: bool) -> None:
        """Something happens."""
        simulated, chance = self.simulated, self.random.random
        simulated.now += chance() * 2
        for name, size in self.sizes.items():
            there = [one for one in simulated.pods.values() if one.annotations[0][1] == name]
            if sum(1 for one in there if one.phase is not Phase.FAILED) < size and (chance() < 0.5 or not failing):
                self._made += 1
                simulated.see(mine(f"{name}-{self._made}", group=name, request=amounts(cpu="1500m")))
        # What was true between two slices nobody has seen.
        self._look()
        decided = simulated.run_once(lambda: chance() < 0.3)
        for action in evicted(decided):
            assert simulated.pods[action.uid].annotations[0][1] not in self.whole
        self._under_way += [action for action in decided if isinstance(action, Bind | Evict)]
        self._answer(failing=failing)
        running = [one for one in simulated.pods.values() if one.node and one.phase is Phase.RUNNING]
        if failing and running and chance() < 0.1:
            one = self.random.choice(running)
            simulated.see(replace(one, phase=Phase.FAILED)) if chance() < 0.5 else simulated.gone(one)

    def _answer(self, *, failing: bool) -> None:
        waiting, self._under_way = self._under_way, []
        for action in waiting:
            if failing and self.random.random() < 0.3:
                self._under_way.append(action)
            elif action.uid not in self.simulated.pods:
                continue
            elif isinstance(action, Bind) and failing and self.random.random() < 0.3:
                self.simulated.tell(BindFailed(action.uid, action.node, "no"))
            else:
                self.simulated.carry_out(action)

    def _look(self) -> None:
        for name, size in self.sizes.items():
            number = self.bound(name)
            # While something is under way, events wait. A gang that is whole then may lose a member before the
            # scheduler takes them in and looks again; it was never seen whole.
            if number >= size and not self.simulated.scheduler.under_way:
                self.whole.add(name)
            elif not number:
                self.whole.discard(name)


@example(85261001, 6)  # a gang is whole while something is under way, and no more when the scheduler looks again
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_only_gangs_that_were_never_whole_are_withdrawn_and_none_stays_bound_in_part(seed: int, steps: int) -> None:
    failing = Failing(seed)
    for _unused in range(steps):
        failing.step(failing=True)
    for _unused in range(60):
        failing.step(failing=False)
    for job in failing.simulated.scheduler.cache.jobs.by_key.values():
        assert failing.bound(job.key.name) in (0, job.min_member) or job.was_ready


def upstream(status: str) -> PodGroup:
    """A gang of three as the API has it, with this status of its condition."""
    written = {
        "metadata": {"uid": "g", "name": "g", "namespace": "team", "resourceVersion": "7"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
        "status": {"conditions": [{"type": "PodGroupScheduled", "status": status}]},
    }
    read = BY_NAME[UPSTREAM_ALPHA].read_group
    assert read is not None
    return read(json.dumps(written).encode(), Sharing())


@pytest.mark.parametrize(("status", "leaves"), [("False", ["a"]), ("Unknown", ["a"]), ("True", [])])
def test_half_an_upstream_gang_leaves_after_a_failover_unless_its_condition_says_it_was_whole(
    status: str, leaves: list[str]
) -> None:
    simulated = Simulated()
    member: dict[str, Any] = {"scheduling_group": "g", "request": amounts(cpu="4")}
    simulated.see(node("n1"), upstream(status), mine("a", node="n1", phase=Phase.RUNNING, **member))
    simulated.see(*(mine(name, **member) for name in "bc"))
    simulated.run()
    assert [gone.name for gone in later(simulated, PATIENCE)] == leaves


def test_half_a_gang_with_a_member_of_another_scheduler_is_left_alone() -> None:
    simulated = Simulated()
    theirs = pod("theirs", annotations=(("scheduling.k8s.io/group-name", "g"),))
    simulated.see(node("n1"), gang("g", 3, phase="Pending"))
    simulated.see(mine("g0", group="g", node="n1", phase=Phase.RUNNING), theirs)
    simulated.run()
    assert not later(simulated, 2 * PATIENCE)
