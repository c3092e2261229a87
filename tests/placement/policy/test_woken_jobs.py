# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What frees no room on a node, and yet helps jobs that wait: limits, promises, volumes, groups that ask for less."""

from dataclasses import replace
from typing import Any

import pytest
from placement.model.messages.action import Action, BindVolume, Evict
from placement.model.messages.event import BindFailed
from placement.model.objects.pod import Phase
from placement.model.objects.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, gang, mine, near, node, pairs, queue
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated

RUNNING: dict[str, Any] = {"phase": Phase.RUNNING}


class Slow(Simulated):
    """Victims begin to end, and stay."""

    def __init__(self) -> None:
        super().__init__(load(policy("allocate, backfill, preempt"), "test"))

    def carry_out(self, action: Action) -> None:
        """An eviction only begins."""
        if isinstance(action, Evict):
            self.see(replace(self.pods[action.uid], terminating=True))
        else:
            super().carry_out(action)


def test_a_promise_that_waits_for_a_limit_is_kept_when_the_victim_is_gone_behind_its_node() -> None:
    slow = Slow()
    lost = node("n2", allocatable=amounts(cpu="2", memory="8Gi", pods="10"))
    slow.see(queue("a", capability=amounts(cpu="2")), node("n1"), lost)
    slow.see(gang("low", 1, queue="a"), mine("low", group="low", node="n2", request=amounts(cpu="2"), **RUNNING))
    slow.run()
    slow.see(gang("high", 1, queue="a"), mine("high", group="high", priority=9, request=amounts(cpu="2")))
    slow.run()
    slow.gone(lost)
    slow.run()
    # It is in use to the last second, although its node is gone.
    assert slow.placements() == {"low": "n2"}
    slow.gone(slow.named("low"))
    slow.run()
    assert slow.placements() == {"high": "n1"}


def test_of_jobs_that_a_rule_kept_away_the_first_in_the_queue_has_the_first_try() -> None:
    simulated = Simulated()
    apart: dict[str, Any] = {"labels": pairs(app="db"), "anti_affinity": (near("zone", app="db"),)}
    zones = {"n0": "z0", "n2": "z0", "n1": "z1"}
    room = amounts(cpu="8", memory="64Gi", pods="100")
    simulated.see(*(node(name, labels=pairs(zone=zone), allocatable=room) for name, zone in zones.items()))
    simulated.see(mine("full1", node="n1", request=amounts(cpu="8"), **RUNNING))
    simulated.see(mine("full2", node="n2", request=amounts(cpu="7900m"), **RUNNING))
    simulated.see(mine("holder", node="n2", request=amounts(cpu="10m"), **RUNNING, **apart))
    simulated.see(*(mine(f"low{index}", request=amounts(cpu="2"), **apart) for index in range(40)))
    simulated.run()
    simulated.see(mine("high", request=amounts(cpu="2"), priority=100, **apart))
    simulated.run()
    simulated.gone(simulated.named("holder"))
    simulated.run()
    assert simulated.placements().keys() == {"full1", "full2", "high"}


def test_jobs_that_a_rule_kept_away_are_tried_when_other_plugins_order_them_meanwhile() -> None:
    def ordering(*plugins: str) -> Any:
        listed = "".join(f"\n  - name: {name}" for name in plugins)
        return load(f'actions: "allocate, backfill"\ntiers:\n- plugins:{listed}\n', "test")

    simulated = Simulated(ordering("priority", "gang"))
    apart: dict[str, Any] = {"labels": pairs(app="db"), "anti_affinity": (near("zone", app="db"),)}
    simulated.see(node("n1", labels=pairs(zone="z1")), mine("holder", node="n1", **RUNNING, **apart))
    simulated.see(*(mine(f"p{index}", request=amounts(cpu="1"), **apart) for index in range(40)))
    simulated.run()
    simulated.gone(simulated.named("holder"))
    # A slice that ends before all that were woken have been tried.
    while simulated.scheduler.cache.queue.hints.woken.keys() != simulated.scheduler.cache.queue.unschedulable.keys():
        for action in simulated.run_once(lambda: True):
            simulated.carry_out(action)
    simulated.scheduler.configure(ordering("gang"), partial_gang_seconds=60, reserve_after=300)
    simulated.run()
    (name,) = simulated.placements()
    simulated.gone(simulated.named(name))
    simulated.run()
    assert len(simulated.placements()) == 1


def claim(name: str) -> PersistentVolumeClaim:
    """A claim for one of the disks that there are."""
    return PersistentVolumeClaim(
        uid=f"claim-{name}",
        namespace="team",
        name=name,
        version=1,
        storage_class="disks",
        modes=("ReadWriteOnce",),
        size=10,
    )


@pytest.mark.parametrize("ends", ["deleted", "not bound"])
def test_a_volume_that_is_free_again_helps_jobs_with_other_claims_on_other_nodes(ends: str) -> None:
    simulated = Simulated()
    disk: dict[str, Any] = {"storage_class": "disks", "modes": ("ReadWriteOnce",), "size": 10}
    simulated.see(
        StorageClass(uid="class", name="disks", version=1, provisioner="kubernetes.io/no-provisioner", waits=True)
    )
    simulated.see(PersistentVolume(uid="volume", name="disk", version=1, available=True, **disk))
    simulated.see(*(node(f"n{cpu}", allocatable=amounts(cpu=cpu, memory="8Gi", pods="10")) for cpu in "24"))
    simulated.see(claim("first"), claim("second"), mine("block", node="n4", request=amounts(cpu="4"), **RUNNING))
    simulated.see(mine("a", priority=5, request=amounts(cpu="1"), volume_claims=("first",)))
    (action,) = [action for action in simulated.run_once() if isinstance(action, BindVolume)]
    assert (action.name, action.node) == ("a", "n2")
    simulated.gone(simulated.named("block"))
    simulated.run()
    simulated.see(mine("b", request=amounts(cpu="3"), volume_claims=("second",)))
    simulated.run()
    if ends == "deleted":
        simulated.gone(simulated.named("a"))
    else:
        simulated.scheduler.cache.jobs.tasks["uid-a"].job.failures = 3
        simulated.tell(BindFailed("uid-a", "n2", "webhook says no"))
    decided = [action for _unused in range(9) for action in simulated.run_once() if isinstance(action, BindVolume)]
    assert [(action.name, action.node) for action in decided] == [("b", "n4")]


def sites_queues() -> Simulated:
    """A queue with a limit of two cores for the two below it, one without a limit, and a job that has those cores."""
    simulated = Simulated(load(policy("allocate, backfill"), "test"))
    simulated.see(node("n1"), node("n2"), queue("org", capability=amounts(cpu="2")))
    simulated.see(queue("a", parent="org"), queue("b", parent="org"), queue("c"))
    simulated.see(gang("x", 1, queue="a"), mine("x", group="x", request=amounts(cpu="2")))
    simulated.see(gang("g", 1, queue="b"), mine("g", group="g", request=amounts(cpu="1")))
    simulated.run()
    assert simulated.placements().keys() == {"x"}
    return simulated


@pytest.mark.parametrize("moved", ["g", "x"])
def test_a_job_that_leaves_a_limit_is_tried_and_so_are_those_that_it_leaves_room_for(moved: str) -> None:
    simulated = sites_queues()
    simulated.see(gang(moved, 1, queue="c"))
    simulated.run()
    assert simulated.placements().keys() == {"x", "g"}


def test_a_gang_that_asks_for_fewer_is_tried() -> None:
    simulated = Simulated()
    simulated.see(*(node(f"n{index}") for index in range(2)), gang("g", 3))
    simulated.see(*(mine(f"g{index}", group="g", request=amounts(cpu="3")) for index in range(3)))
    simulated.run()
    assert simulated.placements() == {}
    simulated.see(gang("g", 2))
    simulated.run()
    assert len(simulated.placements()) == 2


def test_room_that_a_gang_needs_no_more_helps_others() -> None:
    slow = Slow()
    for name, memory in (("r", "16Gi"), ("v", "8Gi"), ("q", "4Gi")):
        slow.see(node(name, allocatable=amounts(cpu="4", memory=memory, pods="10")))
    small = {"memory": "1Gi"}
    slow.see(gang("low", 1), mine("low", group="low", node="v", request=amounts(cpu="4"), **RUNNING))
    slow.see(mine("on-q", node="q", priority=100, request=amounts(cpu="4", **small), **RUNNING))
    slow.see(mine("on-r", node="r", priority=100, request=amounts(cpu="2", **small), **RUNNING))
    slow.run()
    members = (mine(f"g{index}", group="g", priority=9, request=amounts(cpu="2", **small)) for index in range(2))
    slow.see(gang("g", 2), *members)
    slow.run()
    slow.see(mine("j", request=amounts(cpu="2", memory="8Gi")))
    slow.run()
    assert "j" not in slow.placements()
    # The gang has all of that node, and needs nothing of the others.
    slow.gone(slow.named("on-q"))
    slow.run()
    assert {name: slow.placements()[name] for name in ("g0", "g1", "j")} == {"g0": "q", "g1": "q", "j": "r"}
