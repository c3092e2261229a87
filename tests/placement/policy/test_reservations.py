# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes are kept for the first job of a queue, so that no stream of small pods starves it."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from placement.model.messages.action import Bind, Evict
from placement.model.objects.pod import Phase, Pod
from placement.model.objects.workload import VOLCANO
from placement.model.rules.selector import NodeSelector
from placement.policy.plugins.configuration import Configuration, load
from placement_kit.backed import Backed
from placement_kit.builders import amounts, gang, mine, near, node, pairs, priority_class, queue
from placement_kit.simulated import Simulated

PATIENCE = 60.0
# A look at the heads is taken once a second.
LOOK = 1.0
PACKING = """\
actions: "{actions}"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: drf
  - name: proportion
  - name: nodeorder
    arguments:
      leastrequested.weight: 0
      mostrequested.weight: 1
"""


def packing(actions: str = "allocate, backfill") -> Configuration:
    """A configuration that fills nodes one after the other."""
    return load(PACKING.format(actions=actions), "test")


def timestamp(seconds: float) -> str:
    """A time of the API, in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def in_queue(name: str) -> tuple[tuple[str, str], ...]:
    """The annotation of a pod of a queue."""
    return (("scheduling.converged.hpc/queue", name),)


class Site:
    """A cluster with a clock; each pod runs for as long as is said when it comes."""

    def __init__(self, nodes: int, *, actions: str = "allocate, backfill", cpu: str = "4", **more: Any) -> None:
        more.setdefault("reserve_after", PATIENCE)
        self.simulated = Simulated(packing(actions), **more)
        self.allocatable = amounts(cpu=cpu, memory="64Gi", pods="110")
        self.simulated.see(*(node(f"n{index}", allocatable=self.allocatable) for index in range(nodes)))
        self.lasting: dict[str, float] = {}
        self.ends: dict[str, float] = {}
        self.made = 0

    def small(self, cpu: str = "1", *, lasts: float = 10.0, name: str = "", **more: Any) -> Pod:
        """A pod that comes now."""
        self.made += 1
        name = name or f"s{self.made}"
        more.setdefault("created", timestamp(1_000_000 + self.made))
        more.setdefault("request", amounts(cpu=cpu, memory="1Gi"))
        self.lasting[name] = lasts
        self.simulated.see(mine(name, **more))
        return self.simulated.named(name)

    def big(self, members: int, cpu: str = "4", *, name: str = "big", **more: Any) -> None:
        """A gang that comes now."""
        more.setdefault("created", timestamp(1_000_000))
        more.setdefault("priority", 1000)
        self.simulated.see(gang(name, members))
        pods = (
            mine(f"{name}{index}", group=name, request=amounts(cpu=cpu, memory="1Gi"), **more)
            for index in range(members)
        )
        self.simulated.see(*pods)

    def run(self) -> None:
        """Decide, and note when pods that are bound end."""
        self.simulated.run()
        for name, lasts in list(self.lasting.items()):
            if self.simulated.named(name).node:
                self.ends[name] = self.simulated.now + lasts
                del self.lasting[name]

    def tick(self, seconds: float = 1.0) -> None:
        """Time passes; pods end."""
        self.simulated.now += seconds
        for name, end in list(self.ends.items()):
            if end <= self.simulated.now:
                self.simulated.gone(self.simulated.named(name))
                del self.ends[name]

    def node_of(self, name: str) -> str:
        """Where a pod is."""
        return self.simulated.named(name).node

    def runs(self, *names: str) -> bool:
        """Whether all these pods have their nodes."""
        return all(self.node_of(name) for name in names)

    def started(self, name: str, within: float, *, stream: int = 2, **more: Any) -> float | None:
        """Let small pods come every second until a pod has its node, and return when; None if it never has."""
        begun = self.simulated.now
        while self.simulated.now - begun <= within:
            for _unused in range(stream):
                self.small(**more)
            self.run()
            if self.node_of(name):
                return self.simulated.now - begun
            self.tick()
        return None


def half_full(**more: Any) -> Site:
    """Twenty of forty cores in use, on ten nodes."""
    site = Site(10, **more)
    for _unused in range(20):
        site.small()
    site.run()
    return site


def test_a_gang_starts_within_the_patience_and_the_longest_pod_while_small_pods_come() -> None:
    site = half_full()
    site.big(10)
    started = site.started("big0", within=3600)
    assert started is not None
    assert started <= PATIENCE + 10 + LOOK
    assert site.runs(*(f"big{index}" for index in range(10)))
    site.simulated.check()


def test_without_patience_enough_small_pods_pass_the_gang() -> None:
    site = half_full(reserve_after=604_800)
    site.big(10)
    assert site.started("big0", within=300) is None


def test_a_single_large_pod_does_not_starve_either() -> None:
    site = half_full()
    site.small("4", name="large", created=timestamp(1_000_000))
    site.lasting["large"] = 100
    for _unused in range(20):
        site.small()
    started = site.started("large", within=3600, stream=4)
    assert started is not None
    assert started <= PATIENCE + 10 + LOOK


def test_small_pods_use_what_is_not_kept() -> None:
    site = Site(10)
    halves = (mine(f"x{index}", node=f"n{index}", request=amounts(cpu="2")) for index in range(10))
    site.simulated.see(*(replace(pod, phase=Phase.RUNNING) for pod in halves))
    site.big(5)
    site.run()
    site.tick(PATIENCE)
    small = [site.small(lasts=1000).name for _unused in range(100)]
    site.run()
    kept = {name for item in site.simulated.scheduler.session.reservations.active for name in item.nodes}
    assert len(kept) == 5
    placed = [site.node_of(name) for name in small if site.node_of(name)]
    assert len(placed) == 10
    assert not kept & {*placed}


def test_a_pod_behind_may_have_what_the_node_has_beside_the_head() -> None:
    site = Site(1, cpu="8")
    for _unused in range(4):
        site.small(lasts=1000)
    site.run()
    site.big(1, "6")
    site.run()
    site.tick(PATIENCE)
    first, second = site.small(lasts=1000), site.small(lasts=1000)
    site.run()
    # Of eight cores four are in use: none can come before the others have left, or the head would not have its six.
    assert not site.runs(first.name)
    assert not site.runs(second.name)
    for name in ("s1", "s2", "s3"):
        site.simulated.gone(site.simulated.named(name))
    site.run()
    # One is in use, six are the head's.
    assert site.runs("big0", first.name)
    assert not site.runs(second.name)


class Timed(Site):
    """A cluster in which pods have deadlines, and start when they are bound."""

    def __init__(self, nodes: int, **more: Any) -> None:
        super().__init__(nodes, epoch=1_000_000.0, **more)

    def limited(self, deadline: int, cpu: str = "4", **more: Any) -> Pod:
        """A pod with a deadline."""
        pod = self.small(cpu, lasts=deadline, deadline=deadline, **more)
        self.run()
        if self.node_of(pod.name):
            self.simulated.see(
                replace(self.simulated.named(pod.name), started=timestamp(1_000_000 + self.simulated.now))
            )
        return self.simulated.named(pod.name)


def test_a_job_that_ends_before_the_head_can_start_uses_the_nodes_that_are_kept() -> None:
    site = Timed(2, reserve_after=604_800)
    site.limited(1000)
    site.big(2, created=timestamp(1_000_000))
    site.run()
    site.tick()
    # The head can start in a thousand seconds: that is known, so the free node is kept at once, whatever the patience.
    longer, without = site.limited(1100, "1"), site.small("1")
    ends_in_its_grace, has_a_long_grace = site.limited(1010, "1"), site.limited(60, "1", grace=1000)
    shorter = site.limited(900, "1")
    assert shorter.node
    assert not longer.node
    assert not ends_in_its_grace.node
    assert not has_a_long_grace.node
    assert not site.runs(without.name)
    while not site.runs("big0", "big1") and site.simulated.now < 2000:
        site.run()
        site.tick(10)
    assert site.simulated.now <= 1000 + 30 + 2 * 10


def test_a_pod_that_was_refused_is_placed_when_the_head_has_to_wait_until_it_would_have_ended() -> None:
    site = Timed(1, cpu="6", reserve_after=604_800)
    site.limited(5000, "2")
    site.big(1, "6", priority=100)
    site.run()
    site.tick()
    refused = site.limited(6000, "2")
    assert not refused.node
    # The shadow time of the head moves to the end of this one.
    assert site.limited(10_000, "2", priority=1000).node
    site.tick(LOOK)
    site.run()
    assert site.runs(refused.name)


def test_the_head_is_not_expected_before_a_pod_has_had_its_grace() -> None:
    site = Timed(1, reserve_after=604_800)
    site.limited(100, "3", grace=500)
    site.big(1)
    site.run()
    site.tick(LOOK)
    assert site.limited(550, "1").node


def test_an_end_that_is_not_known_is_not_before_the_shadow_time() -> None:
    site = Timed(2)
    site.small("4", lasts=1000)
    site.run()
    site.big(2, created=timestamp(1_000_000))
    site.run()
    site.tick(PATIENCE)
    assert not site.limited(5, "1").node


@pytest.mark.parametrize("known", [False, True])
def test_a_pod_that_takes_long_to_leave_does_not_open_the_nodes_to_others(known: bool) -> None:
    site = Timed(10)
    more = {"deadline": 100, "started": timestamp(1_000_000)} if known else {}
    old = mine("old", node="n9", phase=Phase.RUNNING, request=amounts(cpu="4"), **more)
    site.simulated.see(old)
    site.big(10)
    site.run()
    site.tick(PATIENCE)
    site.run()
    if not known:
        site.simulated.see(replace(old, terminating=True))
    # Past its deadline and its grace, where it has one.
    for _unused in range(120):
        small = site.small(lasts=3600)
        site.run()
        assert not site.runs(small.name)
        site.tick(LOOK)
    site.simulated.gone(old)
    site.run()
    assert site.runs(*(f"big{index}" for index in range(10)))


def test_pods_that_no_kubelet_has_started_yet_do_not_have_the_head_wait_ever_longer() -> None:
    site = Site(1, reserve_after=604_800, epoch=1_000_000.0)
    site.small("3", lasts=1e6, deadline=60)
    site.run()
    site.big(1)
    site.run()
    # Past its deadline and its grace, which the kubelet has not begun to count.
    for _unused in range(200):
        site.tick(LOOK)
        behind = site.small("1", lasts=1e6, deadline=60)
        site.run()
        assert not site.runs(behind.name)


def test_a_gang_that_can_never_have_its_nodes_keeps_nothing() -> None:
    site = half_full()
    # Other schedulers' pods and those of DaemonSets are taken to stay.
    site.simulated.see(replace(mine("system"), node="n9", daemon=True))
    site.big(10)
    assert site.started("big0", within=PATIENCE + 30) is None
    assert not site.simulated.scheduler.session.reservations.active
    free = site.small()
    site.run()
    assert site.runs(free.name)


def test_a_gang_that_its_queue_does_not_admit_keeps_nothing() -> None:
    site = half_full()
    site.simulated.see(queue("small", capability=amounts(cpu="30")))
    site.simulated.see(replace(gang("big", 10), queue="small"))
    site.simulated.see(*(mine(f"big{index}", group="big", request=amounts(cpu="4")) for index in range(10)))
    assert site.started("big0", within=PATIENCE + 30) is None
    assert not site.simulated.scheduler.session.reservations.active


def test_a_queue_that_has_all_it_deserves_keeps_nothing() -> None:
    site = Site(4)
    site.simulated.see(queue("mine"), queue("others"))
    own = {"annotations": in_queue("mine"), "request": amounts(cpu="1")}
    for _unused in range(8):
        site.small(lasts=1e6, **own)
    site.run()
    others = in_queue("others")
    waiting = [site.small(lasts=5, annotations=others, request=amounts(cpu="1")) for _unused in range(20)]
    site.small(name="large", **{**own, "request": amounts(cpu="3")})
    site.run()
    site.tick(PATIENCE)
    site.run()
    assert not site.node_of("large")
    assert sum(bool(site.node_of(pod.name)) for pod in waiting if pod.uid in site.simulated.pods) == 8


def kept_amounts(simulated: Simulated) -> dict[str, int]:
    """The millicores that are kept, by the name of the node."""
    kept = simulated.scheduler.session.reservations.active
    return {name: int(amounts[0]) for item in kept for name, amounts in item.nodes.items()}


def test_what_a_head_of_fewer_members_no_longer_needs_on_a_node_goes_to_jobs_behind_it() -> None:
    simulated = Simulated(packing(), reserve_after=PATIENCE)
    sizes = {"n1": "5", "n2": "2"}
    simulated.see(
        *(
            node(name, labels=pairs(of=name), allocatable=amounts(cpu=cpu, memory="64Gi", pods="100"))
            for name, cpu in sizes.items()
        )
    )
    two = amounts(cpu="2")
    simulated.see(mine("running", node="n2", phase=Phase.RUNNING, request=two))
    members = {"first": "n1", "second": "n1", "third": "n2"}
    big = gang("big", 3)
    simulated.see(big)
    for name, at in members.items():
        simulated.see(mine(name, group="big", priority=10, request=two, selector=NodeSelector(pairs(of=at))))
    simulated.run()
    simulated.now += PATIENCE
    simulated.run()
    assert kept_amounts(simulated) == {"n1": 4000, "n2": 2000}
    simulated.see(mine("small", request=two))
    simulated.run()
    assert "small" not in simulated.placements()
    simulated.see(replace(big, min_member=2))
    simulated.gone(simulated.named("second"))
    # Nodes are chosen for the head again after a few looks.
    for _unused in range(40):
        simulated.now += LOOK
        simulated.run()
    assert kept_amounts(simulated) == {"n1": 2000, "n2": 2000}
    assert simulated.placements().get("small") == "n1"


def test_jobs_of_other_queues_are_tried_when_the_queue_of_the_head_comes_to_have_all_it_deserves() -> None:
    site = Site(1)
    spare = node("spare", labels=pairs(of="spare"), allocatable=amounts(cpu="2", memory="3Gi", pods="110"))
    site.simulated.see(queue("mine"), queue("others", weight=2), spare)
    own, others = ({"annotations": in_queue(name)} for name in ("mine", "others"))
    site.small("3", lasts=1e6, **others)
    site.run()
    site.small(name="large", priority=5, request=amounts(cpu="4"), **own)
    site.run()
    site.tick(PATIENCE)
    site.run()
    # More memory than the spare node has.
    other = site.small(request=amounts(cpu="1", memory="4Gi"), **others)
    site.run()
    assert not site.runs(other.name)
    selector = NodeSelector(pairs(of="spare"))
    for _unused in range(2):
        site.small("1", lasts=1e6, priority=9, selector=selector, **own)
    site.run()
    for _unused in range(5):
        site.tick(LOOK)
        site.run()
    assert site.runs(other.name)


def test_a_queue_that_comes_to_have_all_it_deserves_keeps_nothing_from_others_any_more() -> None:
    site = Site(4)
    site.simulated.see(queue("mine"), queue("others"))
    own, others = (in_queue(name) for name in ("mine", "others"))
    for _unused in range(14):
        site.small(lasts=1e6, annotations=own, request=amounts(cpu="1"))
    site.run()
    site.small(name="large", annotations=own, request=amounts(cpu="3"))
    site.run()
    site.tick(PATIENCE)
    site.run()
    assert site.simulated.scheduler.session.reservations.active
    behind = [site.small(annotations=others, request=amounts(cpu="1")) for _unused in range(4)]
    site.run()
    assert sum(bool(site.node_of(pod.name)) for pod in behind) == 2


def test_the_head_of_a_second_queue_keeps_other_nodes_than_that_of_the_first() -> None:
    site = Site(2)
    site.simulated.see(queue("one"), queue("two"))
    for _unused in range(2):
        site.small("3", lasts=1000)
    site.run()
    for name in ("one", "two"):
        site.small("4", name=name, annotations=in_queue(name))
    site.run()
    site.tick(PATIENCE)
    site.run()
    kept = [sorted(item.nodes) for item in site.simulated.scheduler.session.reservations.active]
    assert sorted(kept) == [["n0"], ["n1"]]


def test_a_queue_that_is_given_to_the_batch_system_keeps_no_nodes_any_more() -> None:
    site = Site(1)
    site.simulated.see(queue("mine"))
    site.small("3", lasts=1000)
    site.run()
    site.small("4", name="large", annotations=in_queue("mine"))
    site.run()
    site.tick(PATIENCE)
    site.run()
    assert site.simulated.scheduler.session.reservations.active
    site.simulated.see(replace(queue("mine", placed_by="pbs"), version=2))
    site.tick(LOOK)
    site.run()
    assert not site.simulated.scheduler.session.reservations.active


def waiting_head() -> Site:
    """One node that a gang waits for, whose pods have no known end."""
    site = Site(2)
    site.small("3", lasts=1000)
    site.small("3", lasts=1000)
    site.run()
    site.big(2, priority=10)
    site.run()
    site.tick(PATIENCE)
    site.run()
    return site


def test_a_job_of_a_higher_priority_is_not_bound_by_the_reservation() -> None:
    site = waiting_head()
    behind, before = site.small(priority=5), site.small(priority=11)
    site.run()
    assert site.runs(before.name)
    assert not site.runs(behind.name)


@pytest.mark.parametrize("in_other_queue", [False, True])
def test_a_pod_that_was_refused_is_placed_when_the_head_gets_a_lower_priority(in_other_queue: bool) -> None:
    site = Site(1)
    site.simulated.see(queue("other"), priority_class("high", 10), priority_class("low", -10))
    site.small("2", lasts=1000)
    site.run()
    group = gang("big", 1, priority_class="high")
    site.simulated.see(group, mine("big0", group="big", request=amounts(cpu="4")))
    site.run()
    site.tick(PATIENCE)
    site.run()
    refused = site.small(annotations=in_queue("other") if in_other_queue else ())
    site.run()
    assert not site.runs(refused.name)
    site.simulated.see(replace(group, priority_class="low"))
    site.run()
    assert site.runs(refused.name)


def test_a_pod_of_a_daemonset_is_not_bound_by_the_reservation() -> None:
    site = waiting_head()
    site.simulated.see(mine("agent", daemon=True))
    site.run()
    assert site.runs("agent")


def test_jobs_of_other_queues_are_bound_by_the_reservation() -> None:
    site = waiting_head()
    site.simulated.see(queue("other"))
    other = site.small(annotations=in_queue("other"))
    site.run()
    assert not site.runs(other.name)


def test_jobs_of_a_queue_of_a_higher_priority_are_not() -> None:
    site = waiting_head()
    site.simulated.see(queue("urgent", priority=1))
    site.tick(2 * LOOK)
    site.run()
    urgent = site.small(annotations=in_queue("urgent"))
    site.run()
    assert site.runs(urgent.name)


def test_what_waited_for_a_reservation_is_placed_when_the_head_is_gone() -> None:
    site = waiting_head()
    small = site.small()
    site.run()
    assert not site.runs(small.name)
    site.simulated.gone(site.simulated.named("big0"), site.simulated.named("big1"))
    site.run()
    assert site.runs(small.name)


def test_a_node_that_comes_into_the_place_of_one_that_is_kept_is_open_to_all() -> None:
    site = Site(2)
    site.simulated.see(*(mine(f"old{row}", node=f"n{row}", request=amounts(cpu="2")) for row in range(2)))
    site.big(2)
    site.run()
    site.tick(PATIENCE)
    site.run()
    small = site.small("2")
    site.run()
    assert not site.runs(small.name)
    kept = node("n0", allocatable=site.allocatable)
    site.simulated.gone(kept)
    site.simulated.see(node("spare", allocatable=amounts(cpu="2", memory="8Gi", pods="10")), replace(kept, uid="again"))
    site.run()
    assert site.node_of(small.name) == "spare"


@pytest.mark.parametrize("run", [1, 5])
def test_many_equal_pods_at_once_leave_the_head_its_room(run: int) -> None:
    site = Site(3, cpu="8")
    for _unused in range(3):
        site.small("5", lasts=1000)
    site.run()
    site.big(1, "6")
    site.run()
    site.tick(PATIENCE)
    site.run()
    site.simulated.see(gang("row", run), *(mine(f"r{index}", group="row") for index in range(run)))
    site.run()
    assert site.runs(*(f"r{index}" for index in range(run)))
    (kept,) = (name for item in site.simulated.scheduler.session.reservations.active for name in item.nodes)
    assert not any(site.node_of(f"r{index}") == kept for index in range(run))


def test_nobody_behind_the_head_is_preempted_for_on_its_nodes() -> None:
    site = Site(1, actions="allocate, backfill, preempt")
    for _unused in range(4):
        site.small(lasts=1000, priority=0)
    site.run()
    site.big(1, priority=10, preempts=False)
    site.run()
    site.tick(PATIENCE)
    site.run()
    site.small(name="behind", priority=5)
    evicted = [action for action in site.simulated.run() if isinstance(action, Evict)]
    assert not evicted
    assert not site.runs("behind")
    site.small(name="before", priority=20)
    evicted = [action for action in site.simulated.run() if isinstance(action, Evict)]
    assert len(evicted) == 1


def test_nobody_behind_the_head_is_reclaimed_for_on_its_nodes() -> None:
    site = Site(1, actions="allocate, backfill, reclaim")
    site.simulated.see(queue("rich"), queue("poor"), queue("third"))
    for _unused in range(4):
        site.small(lasts=1000, annotations=in_queue("rich"))
    site.run()
    site.simulated.see(replace(gang("big", 1), queue="third"))
    site.simulated.see(mine("big0", group="big", request=amounts(cpu="4"), preempts=False, priority=10))
    site.run()
    site.tick(PATIENCE)
    site.run()
    assert site.simulated.scheduler.session.reservations.active
    site.small(name="behind", annotations=in_queue("poor"))
    assert not [action for action in site.simulated.run() if isinstance(action, Evict)]


def test_room_that_was_promised_before_is_still_the_others() -> None:
    site = Site(1, actions="allocate, backfill, preempt")
    victim = site.small("4", lasts=1000, priority=0)
    site.run()
    site.small("2", name="claimant", priority=5)
    decision = []
    while not decision:
        decision = [action for action in site.simulated.decide().actions if isinstance(action, Evict)]
    # The victim takes its time; a head comes meanwhile.
    site.big(1, priority=10, preempts=False)
    for _unused in range(3):
        site.simulated.decide()
    site.tick(PATIENCE)
    for _unused in range(3):
        site.simulated.decide()
    site.simulated.gone(victim)
    site.run()
    assert site.runs("claimant")
    assert not site.runs("big0")


def test_a_daemon_that_takes_over_keeps_the_nodes_at_once() -> None:
    site = Site(2, epoch=1_000_000.0)
    site.small("3", lasts=1000)
    site.small("3", lasts=1000)
    site.run()
    site.big(2, priority=10)
    site.run()
    successor = Simulated(packing(), reserve_after=PATIENCE, epoch=1_000_000.0)
    successor.now = PATIENCE + 5
    successor.see(*(node(f"n{index}", allocatable=site.allocatable) for index in range(2)))
    successor.see(gang("big", 2), *site.simulated.pods.values())
    successor.see(mine("late", created=timestamp(1_000_000 + PATIENCE)))
    assert not [action for action in successor.run() if isinstance(action, Bind)]


def test_pods_that_never_end_do_not_keep_the_head_for_ever() -> None:
    site = Site(6)
    for _unused in range(6):
        site.small("2", lasts=20, priority=0)
    site.run()
    site.lasting.clear()
    forever = site.node_of("s1"), site.node_of("s2")
    assert forever[0]
    assert forever[1]
    del site.ends["s1"], site.ends["s2"]
    site.big(2)
    started = site.started("big0", within=16 * PATIENCE, stream=1, lasts=40.0, cpu="2")
    assert started is not None
    assert not {site.node_of("big0"), site.node_of("big1")} & set(forever)


def test_a_group_that_is_not_let_in_for_lack_of_room_is_let_in_after_the_patience() -> None:
    site = half_full(actions="enqueue, allocate, backfill")
    asked = amounts(cpu="40")
    site.simulated.see(
        replace(gang("big", 10, dialect=VOLCANO, min_resources=asked, phase="Pending"), created=timestamp(1))
    )
    site.simulated.see(*(mine(f"big{index}", group="big", request=amounts(cpu="4"), priority=9) for index in range(10)))
    started = site.started("big0", within=3600)
    assert started is not None
    assert started <= PATIENCE + 10 + 2 * LOOK


def test_why_says_for_which_job_nodes_are_kept_and_what_the_head_waits_for() -> None:
    site = waiting_head()
    small = site.small()
    site.run()
    site.tick(5)
    site.run()
    answer = site.simulated.explain("team", small.name)
    assert answer is not None
    assert answer.kept == ("nodes n0, n1 are kept for team/big of queue default; when the pods there end is not known",)
    assert [(item.reason, item.nodes) for item in answer.nodes] == [("kept for a job that comes before", 2)]
    head = site.simulated.explain("team", "big0")
    assert head is not None
    assert head.kept == ("nodes n0, n1 are kept for team/big for 5 s; when the pods there end is not known",)
    assert "0/2 nodes are available: 2 kept for a job that comes before" in site.simulated.conditions()[small.name]


def test_why_says_when_nodes_are_going_to_be_kept() -> None:
    site = Site(1)
    site.small("3", lasts=1000)
    site.run()
    site.big(1)
    site.run()
    site.tick(20)
    site.small(name="other", priority=2000)
    site.run()
    head = site.simulated.explain("team", "big0")
    assert head is not None
    assert head.kept == ("team/big is the first of queue default; nodes are kept for it in 40 s",)


def test_where_no_job_is_blocked_nothing_is_kept() -> None:
    site = half_full()
    site.tick(PATIENCE)
    site.small()
    site.run()
    assert not site.simulated.scheduler.session.reservations.heads
    assert not site.simulated.scheduler.session.reservations.active


def test_a_job_of_the_batch_system_waits_on_nodes_that_are_kept_and_is_not_given_up() -> None:
    site = Backed()
    site.scheduler.session.reservations.reserve_after = PATIENCE
    site.see(mine("long", node="n1", phase=Phase.RUNNING))
    site.see(gang("big", 2), *(mine(f"big{index}", group="big", request=amounts(cpu="4")) for index in range(2)))
    site.settle(seconds=int(PATIENCE) + 2)
    site.see(site.pod("backed"))
    site.settle(seconds=20)
    (job,) = site.batch.jobs
    assert not site.named("backed").node
    assert "is kept for a job that comes before" in site.conditions()["backed"]
    site.gone(site.named("big0"), site.named("big1"))
    site.settle(seconds=5)
    assert site.named("backed").node == "n1"
    assert [*site.batch.jobs] == [job]


def test_a_job_of_the_batch_system_that_ends_before_the_head_can_start_does_not_wait() -> None:
    site = Backed()
    site.see(mine("long", node="n1", phase=Phase.RUNNING, deadline=1000))
    site.see(gang("big", 2), *(mine(f"big{index}", group="big", request=amounts(cpu="4")) for index in range(2)))
    site.settle(seconds=5)
    assert site.scheduler.session.reservations.active
    site.see(site.pod("backed"))
    site.settle(seconds=3)
    assert not site.named("backed").node
    site.batch.leave(900)
    site.settle(seconds=3)
    assert site.named("backed").node


def test_a_job_of_the_batch_system_that_gets_more_time_has_the_nodes_chosen_again() -> None:
    site = Backed()
    site.see(mine("long", node="n2", phase=Phase.RUNNING, deadline=5000, request=amounts(cpu="4")))
    site.see(site.pod("backed"))
    site.settle(seconds=3)
    assert site.named("backed").node == "n1"
    site.batch.leave(1000)
    site.see(mine("large", request=amounts(cpu="4")))
    site.settle(seconds=5)
    (kept,) = site.scheduler.session.reservations.active
    assert [*kept.nodes] == ["n1"]
    site.see(mine("short", deadline=3000))
    site.settle(seconds=3)
    assert not site.named("short").node
    site.batch.leave(20_000)
    site.settle(seconds=5)
    (kept,) = site.scheduler.session.reservations.active
    assert [*kept.nodes] == ["n2"]
    assert kept.shadow > site.now + 4000
    assert site.named("short").node == "n1"


@pytest.mark.parametrize("number", [1, 20])
def test_jobs_that_cannot_run_do_not_have_the_gang_behind_them_starve(number: int) -> None:
    site = half_full()
    for index in range(number):
        site.simulated.see(mine(f"x{index}", priority=2000, volume_claims=("missing",)))
    site.big(10)
    assert site.started("big0", within=PATIENCE + 10 + 5 * LOOK * number) is not None
    site.simulated.check()


def test_jobs_that_cannot_run_are_told_so_and_do_not_take_what_is_kept_for_the_gang_behind_them() -> None:
    site = waiting_head()
    zone = (node(f"n{index}", allocatable=site.allocatable, labels=pairs(zone="a")) for index in range(2))
    site.simulated.see(*zone)
    # Two members that may not be in one zone, and there is one.
    apart = {"labels": pairs(app="x"), "anti_affinity": (near("zone", app="x"),), "priority": 2000}
    site.simulated.see(gang("apart", 2), *(mine(f"apart{index}", group="apart", **apart) for index in range(2)))
    for _unused in range(100):
        small = site.small()
        site.run()
        site.tick()
        assert not site.runs(small.name)
        assert [str(item.job) for item in site.simulated.scheduler.session.reservations.active] == ["team/big"]
    answer = site.simulated.explain("team", "apart0")
    assert answer is not None
    assert answer.kept[0].startswith("no nodes are kept for team/apart: ")


def test_nodes_are_kept_for_the_job_that_is_first_once_the_head_has_a_lower_priority() -> None:
    site = Timed(1)
    site.simulated.see(priority_class("high", 10), priority_class("low", -10))
    site.small("3", lasts=1000)
    site.run()
    first = gang("first", 1, priority_class="high")
    site.simulated.see(first, mine("first0", group="first", created=timestamp(1_000_000), request=amounts(cpu="4")))
    site.run()
    site.big(1, priority=5)
    site.run()
    site.simulated.see(replace(first, priority_class="low"))
    site.run()
    site.tick(PATIENCE)
    site.run()
    assert [str(item.job) for item in site.simulated.scheduler.session.reservations.active] == ["team/big"]


def test_a_gang_that_rules_keep_from_nodes_with_room_does_not_keep_them_from_others() -> None:
    site = Site(2)
    zone = (node(f"n{index}", allocatable=site.allocatable, labels=pairs(zone="a")) for index in range(2))
    site.simulated.see(*zone)
    # Two members that may not be in one zone, and there is one.
    site.big(2, labels=pairs(app="x"), anti_affinity=(near("zone", app="x"),))
    for _unused in range(int(PATIENCE) + 10):
        site.run()
        site.tick()
    small = site.small()
    site.run()
    assert not site.runs("big0")
    assert site.runs(small.name)
