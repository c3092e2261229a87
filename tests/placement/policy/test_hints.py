# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which parked jobs are tried again, and when: news wakes those that it can help, and they do not hold others up."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from placement.model.messages.action import Bind
from placement.model.messages.event import Object, Upserted
from placement.model.objects.disruption import DisruptionBudget
from placement.model.objects.pod import Phase
from placement.model.objects.volume import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from placement.model.objects.workload import Namespace
from placement.model.rules.selector import LabelSelector, NodeSelector
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, budget, labelled, mine, near, node, pairs, pod, queue, spread
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated

WAITING = 200
STREAM = 300
NODES = 10
SMALL = amounts(cpu="10m")
WAITS = {"app": "waits"}

# What a crowd asks for that fits nowhere; the stream is labelled app=small.
CROWDS: dict[str, dict[str, Any]] = {
    "soft spread": {"spread": (spread("zone", labels=WAITS, hard=False),)},
    "soft spread over what comes": {"spread": (spread("zone", labels={"app": "small"}, hard=False),)},
    "hard spread": {"spread": (spread("zone", labels=WAITS),)},
    "affinity": {"affinity": (near("zone", app="waits"),)},
    "anti-affinity": {"anti_affinity": (near("zone", app="waits"),)},
    "volumes": {"volume_claims": ("none",)},
}
MATCHED: dict[str, dict[str, Any]] = {
    "affinity": {"affinity": (near("zone", app="small"),)},
    "hard spread": {"spread": (spread("zone", labels={"app": "small"}),)},
}


class Crowd:
    """Jobs that fit nowhere, and a count of how often each job is tried."""

    def __init__(self, more: dict[str, Any], *, waiting: int = WAITING) -> None:
        self.simulated = Simulated(load(policy("allocate, backfill"), "test"))
        room = amounts(cpu="4", memory="64Gi", pods="1000")
        labels = [pairs(zone=f"z{index % 2}") for index in range(NODES)]
        self.see(*(node(f"n{index}", labels=labels[index], allocatable=room) for index in range(NODES)))
        self.see(*(pod(f"f{index}", node=f"n{index}", phase=Phase.RUNNING) for index in range(NODES)))
        self.tried: list[str] = []
        chooser = self.simulated.scheduler.session.host_selector
        place = chooser.place

        def counted(tasks: Sequence[Any], statement: Any) -> Any:
            self.tried.append(tasks[0].pod.name)
            return place(tasks, statement)

        chooser.place = counted  # type: ignore[method-assign]
        like = {"labels": pairs(app="waits"), "request": amounts(cpu="3500m"), "created": "2026-01-01T00:00:00Z"}
        self.see(*(mine(f"w{index}", owner=f"w{index}", **like, **more) for index in range(waiting)))
        self.simulated.run()
        self.tried.clear()

    def see(self, *items: Object) -> None:
        self.simulated.see(*items)

    def stream(self, number: int = STREAM) -> None:
        like = mine("s", labels=pairs(app="small"), request=SMALL, created="2026-01-02T00:00:00Z")
        self.see(*(replace(like, uid=f"s{index}", name=f"s{index}", owner=f"s{index}") for index in range(number)))

    def woken(self) -> set[str]:
        """Which jobs of the crowd have been tried."""
        self.simulated.run()
        found, self.tried = {name for name in self.tried if name.startswith("w")}, []
        return found


@pytest.mark.parametrize("kind", CROWDS)
def test_a_crowd_that_no_placement_can_help_is_not_tried_when_others_are_placed(kind: str) -> None:
    crowd = Crowd(CROWDS[kind])
    crowd.stream()
    assert not crowd.woken()
    assert sum(name.startswith("s") for name in crowd.simulated.placements()) == STREAM
    # Others' pods are news as well.
    crowd.see(pod("foreign", labels=pairs(app="else"), node="n0", request=SMALL))
    assert not crowd.woken()


@pytest.mark.parametrize("kind", MATCHED)
def test_a_crowd_that_each_placement_may_help_is_a_small_part_of_all_tries(kind: str) -> None:
    crowd = Crowd(MATCHED[kind])
    crowd.stream()
    bound = 0
    while bound < STREAM:
        # Twenty tries to a slice.
        begun = len(crowd.tried)
        decision = crowd.simulated.decide(lambda begun=begun: len(crowd.tried) >= begun + 20)
        bound += sum(isinstance(action, Bind) for action in decision.actions)
        for action in decision.actions:
            crowd.simulated.carry_out(action)
    tried = [name for name in crowd.tried if name.startswith("w")]
    assert len(tried) <= STREAM // 8
    # Its turn comes when nothing else waits.
    assert len({*tried, *crowd.woken()}) == WAITING


@pytest.mark.parametrize("ours", [True, False])
def test_a_job_that_waits_for_company_is_tried_when_that_is_placed(ours: bool) -> None:
    make = mine if ours else pod
    simulated = Simulated(load(policy("allocate"), "test"))
    for name in ("n1", "n2"):
        simulated.see(node(name, labels=pairs(zone=name)))
    simulated.see(mine("waits", affinity=(near("zone", app="db"),)))
    simulated.run()
    assert simulated.placements() == {}
    simulated.see(make("db", node="" if ours else "n2", labels=pairs(app="db")))
    simulated.run()
    placed = simulated.placements()
    assert placed["waits"] == placed["db"]


def test_a_job_of_a_hard_spread_is_tried_when_the_emptiest_domain_gets_a_pod() -> None:
    simulated = Simulated(load(policy("allocate"), "test"))
    simulated.see(*(node(name, labels=pairs(zone=name)) for name in ("n1", "n2")))
    simulated.see(pod("full", node="n2", request=amounts(cpu="4")))
    rules = {"labels": pairs(app="x"), "spread": (spread("zone", labels={"app": "x"}),)}
    simulated.see(mine("first", **rules), mine("second", **rules))
    simulated.run()
    assert simulated.placements().keys() == {"full", "first"}
    # Another's pod, without room of its own, evens the zones out.
    simulated.see(pod("even", node="n2", labels=pairs(app="x"), request=()))
    simulated.run()
    assert simulated.placements()["second"] == "n1"


def claim(name: str, **more: Any) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(uid=f"c-{name}", namespace="team", name=name, version=1, **more)


def test_a_claim_wakes_the_jobs_that_name_it_and_other_storage_all_jobs_with_volumes() -> None:
    crowd = Crowd({}, waiting=3)
    for index in range(6):
        crowd.see(mine(f"wv{index}", volume_claims=(f"c{index % 2}",), request=SMALL))
    volumes = {f"wv{index}" for index in range(6)}
    crowd.woken()
    crowd.see(claim("c0", volume="v0"))
    assert crowd.woken() == {"wv0", "wv2", "wv4"}
    named = {"uid": "x", "name": "x", "version": 1}
    storage: tuple[Object, ...] = (
        StorageClass(**named),
        CSINode(**named),
        CSIDriver(**named),
        StorageCapacity(namespace="team", **named),
        PersistentVolume(uid="v1", name="v1", version=1),
    )
    for item in storage:
        crowd.see(item)
        assert crowd.woken() == volumes
    # What is attached leaves no room; what is detached does.
    attachment = VolumeAttachment(node="n0", volume="v1", **named)
    crowd.see(attachment)
    assert crowd.woken() == set()
    crowd.simulated.gone(attachment)
    assert crowd.woken() == volumes
    crowd.see(PersistentVolume(uid="v0", name="v0", version=1))
    assert crowd.woken() == volumes
    assert {"wv0", "wv2", "wv4"} <= crowd.simulated.placements().keys()


def test_a_job_is_woken_by_the_claim_of_a_member_that_was_passed_over() -> None:
    crowd = Crowd({}, waiting=0)
    like = {"owner": "job", "request": SMALL}
    crowd.see(mine("wa", volume_claims=("c0",), created="2026-01-01T00:00:00Z", **like))
    crowd.see(mine("wb", owner="job", request=amounts(cpu="3500m"), created="2026-01-02T00:00:00Z"))
    assert crowd.woken() == {"wa", "wb"}
    crowd.see(claim("c0", volume="v0"), PersistentVolume(uid="v0", name="v0", version=1))
    crowd.simulated.run()
    assert crowd.simulated.placements()["wa"]


def test_a_budget_wakes_nobody_that_waits_for_a_node() -> None:
    crowd = Crowd({})
    crowd.see(budget("some", allowed=0, app="small"))
    assert not crowd.woken()
    crowd.see(replace(budget("some", allowed=3, app="small"), version=2))
    assert not crowd.woken()
    crowd.simulated.gone(DisruptionBudget(uid="budget-some", namespace="team", name="some", version=1))
    assert not crowd.woken()


def test_labels_of_a_namespace_wake_the_jobs_of_rules_that_read_them() -> None:
    crowd = Crowd({})
    term = near("zone", app="db")
    reads = replace(term, matcher=replace(term.matcher, namespaces=frozenset(), namespace_selector=labelled(kind="x")))
    everywhere = replace(reads, matcher=replace(reads.matcher, namespace_selector=LabelSelector()))
    crowd.see(pod("db", namespace="other", labels=pairs(app="db"), node="n0", request=SMALL))
    crowd.see(pod("apart", labels=pairs(app="apart"), node="n0", request=SMALL))
    crowd.see(mine("wr", affinity=(reads,), request=SMALL))
    for index in range(NODES):
        rule = replace(everywhere, topology_key="zone", matcher=replace(reads.matcher, selector=labelled(app="shy")))
        crowd.see(pod(f"shy{index}", namespace="other", anti_affinity=(rule,), node=f"n{index}", request=SMALL))
    crowd.see(Namespace(uid="team", name="team", version=1, labels=pairs(kind="x")))
    crowd.see(mine("ws", labels=pairs(app="shy"), request=SMALL))
    assert crowd.woken() == {"wr", "ws"}
    # A namespace that no rule reads.
    crowd.see(Namespace(uid="other", name="other", version=1, labels=pairs(kind="x")))
    assert crowd.woken() == {"wr", "ws"}
    assert "wr" in crowd.simulated.placements()
    crowd.see(Namespace(uid="team", name="team", version=2, labels=()))
    assert crowd.woken() == {"ws"}
    assert "ws" in crowd.simulated.placements()


def test_news_that_came_while_a_job_was_woken_is_not_lost() -> None:
    crowd = Crowd({}, waiting=0)
    crowd.see(mine("wa", volume_claims=("c0", "c1"), request=SMALL))
    crowd.simulated.run()
    for name in ("c0", "c1"):
        crowd.simulated.scheduler.apply(Upserted(claim(name, volume=name)))
        crowd.simulated.scheduler.apply(Upserted(PersistentVolume(uid=name, name=name, version=1)))
        crowd.simulated.run_once(lambda: True)
    crowd.simulated.run()
    assert "wa" in crowd.simulated.placements()


def amid_many_kinds(slices: int) -> Crowd:
    """A job of which the members lack a claim each, after so many slices; a few members are tried in each."""
    crowd = Crowd({}, waiting=0)
    like = {"owner": "job", "request": SMALL, "created": "2026-01-01T00:00:00Z"}
    crowd.see(*(mine(f"w{index:02}", volume_claims=(f"c{index}",), **like) for index in range(30)))
    for _unused in range(slices):
        crowd.simulated.run_once(lambda: True)
    return crowd


def volumes_of(*claims: int) -> Iterator[Object]:
    for index in claims:
        yield claim(f"c{index}", volume=f"v{index}")
        yield PersistentVolume(uid=f"v{index}", name=f"v{index}", version=1)


@pytest.mark.parametrize("slices", range(0, 24, 2))
def test_a_claim_that_comes_while_members_of_many_kinds_are_tried_is_not_missed(slices: int) -> None:
    crowd = amid_many_kinds(slices)
    crowd.see(*volumes_of(0, 15))
    crowd.simulated.run()
    assert {name for name in crowd.simulated.placements() if name[0] == "w"} == {"w00", "w15"}
    # Later news is heard as well.
    crowd.see(*volumes_of(7))
    crowd.simulated.run()
    assert "w07" in crowd.simulated.placements()


@pytest.mark.parametrize("slices", range(0, 24, 2))
def test_members_may_go_and_come_while_members_of_many_kinds_are_tried(slices: int) -> None:
    crowd = amid_many_kinds(slices)
    crowd.see(*(mine(name, owner="job", request=SMALL) for name in ("new", "newer")))
    crowd.simulated.gone(*(crowd.simulated.named(f"w{index:02}") for index in range(30)))
    crowd.simulated.run()
    assert {"new", "newer"} <= crowd.simulated.placements().keys()
    assert not crowd.simulated.scheduler.cache.queue.hints.woken


@pytest.mark.parametrize("seed", range(24))
def test_claims_that_come_while_two_jobs_of_many_kinds_are_tried_are_not_missed(seed: int) -> None:
    random, crowd = Random(seed), amid_many_kinds(0)
    like = {"owner": "other", "request": SMALL, "created": "2026-01-01T00:00:00Z"}
    crowd.see(*(mine(f"w{index}", volume_claims=(f"c{index}",), **like) for index in range(30, 60)))
    claims = random.sample(range(60), 8)
    for step, index in enumerate(claims):
        crowd.see(*(mine(f"s{step}-{which}", request=SMALL) for which in range(random.randint(0, 9))))
        for _unused in range(random.randint(0, 6)):
            # Some slices end at their first step.
            short = random.random() < 0.7
            for action in crowd.simulated.run_once(lambda short=short: short):  # type: ignore[misc]
                crowd.simulated.carry_out(action)
        crowd.see(*volumes_of(index))
    crowd.simulated.run()
    assert {name for name in crowd.simulated.placements() if name[0] == "w"} == {f"w{index:02}" for index in claims}


def test_members_passed_over_are_tried_again_although_a_limit_keeps_the_last_one_away() -> None:
    simulated = Simulated(load(policy("allocate, backfill"), "test"))
    like: Any = {"annotations": (("scheduling.converged.hpc/queue", "q"),), "created": "2026-01-01T00:00:00Z"}
    there, owned = NodeSelector(pairs(host="small")), {"owner": "job", **like}
    simulated.see(queue("q", capability=amounts(cpu="10", pods="1000")))
    simulated.see(node("n1", allocatable=amounts(cpu="100", pods="1000")))
    simulated.see(node("n2", allocatable=amounts(cpu="1", pods="1000"), labels=pairs(host="small")))
    simulated.see(pod("full", node="n2", phase=Phase.RUNNING, request=amounts(cpu="1")))
    simulated.see(mine("used", request=amounts(cpu="5"), **like))
    simulated.run()
    simulated.see(
        *(mine(f"w{index}", request=amounts(cpu=f"{500 + index}m"), selector=there, **owned) for index in range(3))
    )
    simulated.see(mine("w9", request=amounts(cpu="8"), **owned))
    simulated.run()
    for index in range(5):
        simulated.see(mine(f"s{index}", request=amounts(cpu="1"), **{**like, "created": "2025-01-01T00:00:00Z"}))
        simulated.run()
        simulated.gone(simulated.named(f"s{index}"))
        simulated.run()
    simulated.gone(simulated.named("full"))
    simulated.run()
    assert simulated.placements() == {"used": "n1", "w0": "n2"}


def test_members_that_come_and_go_leave_nothing_in_the_order_of_those_to_be_tried() -> None:
    simulated = Simulated(load(policy("allocate, backfill"), "test"))
    like: Any = {"owner": "job", "request": SMALL, "created": "2026-01-01T00:00:00Z"}
    simulated.see(node("n1", allocatable=amounts(cpu="4", pods="1000")))
    simulated.see(*(mine(f"w{index}", volume_claims=(f"c{index}",), **like) for index in range(30)))
    for _unused in range(8):
        simulated.run_once(lambda: True)
    # From now on the queue is full, so that the job has no turn any more.
    simulated.see(mine("all", request=amounts(cpu="4"), priority=9))
    simulated.run()
    (job,) = (job for job in simulated.scheduler.cache.jobs.by_key.values() if len(job.tasks) > 1)
    assert job.untried is not None
    for index in range(300):
        simulated.see(mine(f"x{index}", volume_claims=(f"d{index}",), **like))
        simulated.run()
        simulated.gone(simulated.named(f"x{index}"))
        simulated.run()
    assert len(job.untried or ()) < 200
    assert len(job.waiting) < 200
