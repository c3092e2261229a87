# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gang of Volcano starts with the least number of each task that its group names in `minTaskMember`."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from placement.model.messages.action import Action, Evict, Submit
from placement.model.objects.pod import Phase, Pod
from placement.model.objects.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from placement.model.objects.workload import VOLCANO
from placement.policy.plugins.configuration import load
from placement_kit.backed import Backed
from placement_kit.builders import amounts, gang, mine, node
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated

MIX = (("ps", 1), ("worker", 2))


def group(min_member: int = 3, **more: Any) -> Any:
    """The group of the gang."""
    return gang("g", min_member, dialect=VOLCANO, **{"min_tasks": MIX, **more})


def member(name: str, task: str, *, minute: int = 0, **more: Any) -> Pod:
    """A member of this task; younger ones come later in the job's order."""
    annotations = (("scheduling.k8s.io/group-name", "g"), ("volcano.sh/task-spec", task))
    return mine(name, annotations=annotations, created=f"2026-01-01T00:{minute:02d}:00Z", **more)


def workers(number: int, **more: Any) -> list[Pod]:
    """Workers, the first the oldest."""
    return [member(f"w{index}", "worker", minute=index, **more) for index in range(number)]


def test_a_gang_begins_with_the_tasks_it_needs_and_not_with_its_oldest_pods() -> None:
    simulated = Simulated()
    simulated.see(node("n1", allocatable=amounts(cpu="3", memory="8Gi", pods="10")), group(), *workers(3))
    simulated.see(member("ps", "ps", minute=30))
    simulated.run()
    assert set(simulated.placements()) == {"ps", "w0", "w1"}


def test_a_gang_that_lacks_a_task_waits_and_its_pods_are_told_for_which() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), group(), *workers(3))
    simulated.run()
    simulated.now += 2
    simulated.run()
    assert not simulated.placements()
    assert simulated.groups()["g"].reason == "NotEnoughTasks"
    said = "spec.minTaskMember: team/g needs 1 pods of task 'ps', 0 can be scheduled"
    assert simulated.conditions() == {"w0": said, "w1": said, "w2": said}
    simulated.see(member("ps", "ps", minute=30))
    simulated.run()
    assert set(simulated.placements()) == {"ps", "w0", "w1", "w2"}


def test_a_gang_does_not_begin_without_a_task_that_fits_nowhere() -> None:
    simulated = Simulated()
    simulated.see(node("n1", allocatable=amounts(cpu="8", memory="8Gi", pods="10")), group(), *workers(4))
    simulated.see(member("ps", "ps", minute=30, request=amounts(cpu="6", memory="9Gi")))
    simulated.run()
    assert not simulated.placements()


def test_a_member_beyond_the_numbers_that_fits_nowhere_is_passed_over() -> None:
    simulated = Simulated()
    simulated.see(node("n1", allocatable=amounts(cpu="8", memory="8Gi", pods="10")), group(4), *workers(3))
    simulated.see(member("ps", "ps", minute=30), member("large", "chief", request=amounts(cpu="9")))
    simulated.run()
    assert set(simulated.placements()) == {"ps", "w0", "w1", "w2"}


def test_a_gang_that_has_lost_a_member_replaces_the_task_that_it_lacks_first() -> None:
    simulated = Simulated()
    simulated.see(node("n1", allocatable=amounts(cpu="3", memory="8Gi", pods="10")), group(2, min_tasks=(("ps", 1),)))
    simulated.see(member("ps", "ps"), *workers(3))
    simulated.run()
    assert set(simulated.placements()) == {"ps", "w0", "w1"}
    simulated.finish("ps", phase=Phase.FAILED)
    simulated.see(member("ps2", "ps", minute=40))
    simulated.run()
    assert set(simulated.placements()) == {"w0", "w1", "ps2"}


def test_room_is_made_for_the_tasks_that_a_gang_needs() -> None:
    simulated = Simulated(load(policy("allocate, preempt"), "test"))
    simulated.see(node("n1", allocatable=amounts(cpu="3", memory="8Gi", pods="10")))
    low = (mine(f"low{index}", node="n1", phase=Phase.RUNNING) for index in range(3))
    simulated.see(*low, group(), *workers(3, priority=9), member("ps", "ps", minute=30, priority=9))
    simulated.run()
    assert sum(isinstance(action, Evict) for action in simulated.actions) == 3
    assert set(simulated.placements()) == {"ps", "w0", "w1"}


def test_a_gang_that_loses_a_task_while_room_is_made_for_it_does_not_begin() -> None:
    simulated = Simulated(load(policy("allocate, preempt"), "test"))
    simulated.see(node("n1", allocatable=amounts(cpu="4", memory="8Gi", pods="10")))
    simulated.see(*(mine(f"low{index}", node="n1", phase=Phase.RUNNING) for index in range(4)))
    simulated.see(group(), *workers(3, priority=9), member("ps", "ps", minute=30, priority=9))
    decided: list[Action] = []
    while sum(isinstance(action, Evict) for action in decided) < 4:
        decided += simulated.run_once()
    simulated.gone(simulated.named("ps"))
    for action in decided:
        simulated.carry_out(action)
    simulated.run()
    assert not simulated.placements()
    simulated.see(member("ps", "ps", minute=40, priority=9))
    simulated.run()
    assert set(simulated.placements()) == {"ps", "w0", "w1", "w2"}


def test_a_gang_that_loses_a_task_while_its_volumes_are_made_does_not_begin() -> None:
    simulated = Simulated()
    simulated.see(StorageClass(uid="class", name="late", version=1, provisioner="csi.example", waits=True))
    claim = PersistentVolumeClaim(uid="claim", namespace="team", name="data", version=1, storage_class="late")
    simulated.see(node("n1"), claim, group(), member("w0", "worker", volume_claims=("data",)))
    simulated.see(*(member(f"w{index}", "worker", minute=index) for index in (1, 2)), member("ps", "ps", minute=30))
    simulated.run()
    assert "uid-ps" in simulated.scheduler.session.provisioning
    simulated.gone(simulated.named("ps"))
    simulated.see(PersistentVolume(uid="volume", name="made", version=1, claim=("team", "data"), claim_uid="claim"))
    simulated.see(replace(claim, volume="made"))
    simulated.run()
    assert not simulated.placements()


def test_a_batch_system_is_not_asked_for_a_gang_that_lacks_a_task() -> None:
    site = Backed()
    site.see(group(2, queue="backed", min_tasks=(("ps", 1),)))
    tied = (("scheduling.k8s.io/group-name", "g"), ("volcano.sh/task-spec", "worker"))
    site.see(*(mine(f"w{index}", annotations=tied) for index in range(2)))
    site.settle()
    assert not [action for action in site.actions if isinstance(action, Submit)]
    site.see(mine("ps", annotations=(tied[0], ("volcano.sh/task-spec", "ps"))))
    site.settle()
    assert set(site.placements()) == {"ps", "w0", "w1"}


@pytest.mark.parametrize("seed", range(40))
def test_no_gang_begins_without_its_tasks_whatever_comes_and_goes(seed: int) -> None:
    draw = random.Random(seed)
    simulated = Simulated(load(policy("allocate, preempt, backfill"), "test"))
    simulated.see(group(4), *(node(f"n{index}", allocatable=amounts(cpu="2", pods="10")) for index in range(2)))
    for number in range(12):
        task = draw.choice(("ps", "worker", "worker", "other"))
        simulated.see(member(f"p{number}", task, minute=number, request=amounts(cpu=draw.choice(("1", "2", "3")))))
        if draw.random() < 0.3:
            simulated.see(mine(f"else{number}", request=amounts(cpu="1")))
        before = set(simulated.placements())
        simulated.run()
        placed = [name for name in simulated.placements() if name.startswith("p")]
        if placed and not before & set(placed):
            tasks = Counter(dict(simulated.named(name).annotations)["volcano.sh/task-spec"] for name in placed)
            assert len(placed) >= 4
            assert tasks["ps"] >= 1
            assert tasks["worker"] >= 2
        simulated.check()
