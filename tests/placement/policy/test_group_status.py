# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What groups are told in the course of their lives, by a scheduler that has seen it all and by one that has not."""

import json
from typing import Any

import pytest
from placement.kube.dialects import BY_NAME
from placement.kube.fields.metadata import Sharing
from placement.model.messages.action import Action, GroupPhase, GroupStatus, PodCondition, QueueStatus
from placement.model.messages.event import Object, StatusWriteFailed
from placement.model.objects.pod import Phase
from placement.model.objects.workload import COSCHEDULING, INCUBATOR, UPSTREAM, UPSTREAM_ALPHA, VOLCANO
from placement_kit.builders import amounts, gang, mine, node, pod
from placement_kit.builders import queue as queue_of
from placement_kit.simulated import Simulated


@pytest.mark.parametrize(
    ("dialect", "name"), [(UPSTREAM, "PodGroupInitiallyScheduled"), (UPSTREAM_ALPHA, "PodGroupScheduled")]
)
@pytest.mark.parametrize(("status", "phase"), [("True", "Running"), ("False", "Pending"), ("Unknown", "Pending")])
def test_the_upstream_condition_says_whether_a_group_has_had_its_nodes(
    dialect: str, name: str, status: str, phase: str
) -> None:
    written = {
        "metadata": {"uid": "u1", "name": "g", "namespace": "team", "resourceVersion": "7"},
        "status": {"conditions": [{"type": "Other", "status": "True"}, {"type": name, "status": status}]},
    }
    read = BY_NAME[dialect].read_group
    assert read is not None
    assert read(json.dumps(written).encode(), Sharing()).phase == phase


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.FAILED])
def test_a_group_that_had_its_nodes_is_not_told_otherwise_after_a_restart(phase: Phase) -> None:
    simulated = Simulated()
    simulated.see(node(), gang("g", 3, dialect=UPSTREAM, phase="Running"))
    simulated.see(*(mine(f"g{index}", scheduling_group="g", node="n1", phase=phase) for index in range(2)))
    simulated.see(mine("g2", scheduling_group="g", node="n1", phase=Phase.FAILED))
    for _unused in range(3):
        simulated.now += 4
        simulated.run()
    assert simulated.groups()["g"].scheduled


def test_a_group_that_never_had_its_nodes_is_told_so() -> None:
    simulated = Simulated()
    simulated.see(node(), gang("g", 6, dialect=UPSTREAM))
    simulated.see(*(mine(f"g{index}", scheduling_group="g") for index in range(6)))
    simulated.run()
    assert not simulated.groups()["g"].scheduled


@pytest.mark.parametrize(
    ("dialect", "member"),
    [(INCUBATOR, {"annotations": (("scheduling.k8s.io/group-name", "g"),)}), (UPSTREAM, {"scheduling_group": "g"})],
)
def test_a_group_of_another_scheduler_is_for_that_one_to_speak_of(dialect: str, member: dict[str, Any]) -> None:
    simulated = Simulated()
    simulated.see(node(), *(pod(f"g{index}", scheduler_name="its-own", **member) for index in range(2)))
    for phase in ("", "Pending", "Running"):
        simulated.see(gang("g", 2, dialect=dialect, phase=phase))
        simulated.now += 4
        simulated.run()
    assert not simulated.groups()


def ended(*phases: Phase) -> Simulated:
    """A group of two whose pods have run and ended."""
    simulated = Simulated()
    simulated.see(node(), gang("g", 2))
    simulated.see(*(mine(f"g{index}", group="g") for index in range(len(phases))))
    simulated.run()
    for index, phase in enumerate(phases):
        simulated.now += 4
        simulated.run()
        assert simulated.groups()["g"].phase is GroupPhase.RUNNING
        simulated.finish(f"g{index}", phase=phase)
    for _unused in range(2):
        # Others might come in their place.
        simulated.now += 4
        simulated.run()
    return simulated


@pytest.mark.parametrize(
    ("phases", "written"),
    [
        ("ss", {VOLCANO: "Completed", COSCHEDULING: "Finished", INCUBATOR: "Running"}),
        ("ssf", {VOLCANO: "Completed", COSCHEDULING: "Finished", INCUBATOR: "Running"}),
        ("sf", {VOLCANO: "Pending", COSCHEDULING: "Failed", INCUBATOR: "Pending"}),
    ],
)
def test_every_api_gets_its_own_word_for_how_a_group_has_ended(phases: str, written: dict[str, str]) -> None:
    simulated = ended(*(Phase.SUCCEEDED if letter == "s" else Phase.FAILED for letter in phases))
    status = simulated.groups()["g"]
    for dialect, phase in written.items():
        write = BY_NAME[dialect].group_status
        assert write is not None
        assert write(status, "now")["phase"] == phase


def test_how_a_group_has_ended_stays_when_its_pods_are_cleared_away() -> None:
    simulated = ended(Phase.SUCCEEDED, Phase.SUCCEEDED)
    simulated.see(gang("g", 2, phase="Completed"))
    simulated.gone(simulated.named("g0"), simulated.named("g1"))
    before = simulated.groups()["g"]
    for _unused in range(3):
        simulated.now += 4
        simulated.run()
    assert simulated.groups()["g"] is before


def said(simulated: Simulated, kind: Any, after: float = 0.0) -> list[Action]:
    """What of this kind is said some seconds later."""
    simulated.now += after
    return [action for action in simulated.run() if isinstance(action, kind)]


def told(simulated: Simulated, *items: Object) -> list[Action]:
    """What groups are told once no more of their pods seem to come."""
    simulated.see(*items)
    return said(simulated, GroupStatus) + said(simulated, GroupStatus, 4)


def test_a_group_is_told_again_until_that_is_written() -> None:
    simulated = Simulated()
    (first,) = told(simulated, node(), gang("g", 2))
    assert isinstance(first, GroupStatus)
    for _unused in range(3):
        simulated.tell(StatusWriteFailed(first.uid))
        assert said(simulated, GroupStatus, 29) == []
        assert said(simulated, GroupStatus, 2) == [first]
    assert said(simulated, GroupStatus, 100) == []


def test_a_group_that_had_its_nodes_before_its_status_was_lost_keeps_them() -> None:
    simulated = Simulated()
    simulated.see(node(), gang("g", 2), *(mine(f"g{index}", group="g") for index in range(2)))
    simulated.run()
    simulated.finish("g0", phase=Phase.FAILED)
    told(simulated)
    last = simulated.groups()["g"]
    assert last.scheduled
    simulated.tell(StatusWriteFailed(last.uid))
    assert said(simulated, GroupStatus, 31) == [last]


def test_what_waits_and_its_queue_are_told_again() -> None:
    simulated = Simulated()
    simulated.see(node(), queue_of("default"), mine("p", request=amounts(cpu="999")))
    simulated.run()
    pod_told = next(action for action in simulated.actions if isinstance(action, PodCondition))
    queue_told = simulated.queues()["default"]
    said(simulated, QueueStatus, 4)
    simulated.tell(StatusWriteFailed(pod_told.uid))
    simulated.tell(StatusWriteFailed(queue_told.uid))
    assert said(simulated, PodCondition | QueueStatus, 29) == []
    again = said(simulated, PodCondition | QueueStatus, 2)
    assert [(type(action), action.uid) for action in again] == [
        (PodCondition, pod_told.uid),
        (QueueStatus, queue_told.uid),
    ]


def test_nothing_is_kept_for_who_is_gone() -> None:
    simulated = Simulated()
    (first,) = told(simulated, node(), gang("g", 2))
    assert isinstance(first, GroupStatus)
    simulated.tell(StatusWriteFailed(first.uid))
    simulated.gone(gang("g", 2))
    assert said(simulated, GroupStatus, 31) == []
    assert not simulated.scheduler._reporter._unsaid
    assert not simulated.scheduler.cache.queue.dirty


def test_many_are_told_again_a_few_at_a_time() -> None:
    simulated = Simulated()
    first = told(simulated, node(), *(gang(f"g{number}", 2) for number in range(30)))
    assert len(first) == 30
    for status in first:
        assert isinstance(status, GroupStatus)
        simulated.tell(StatusWriteFailed(status.uid))
    simulated.now += 30
    turns = [said(simulated, GroupStatus, 1) for _unused in range(8)]
    assert [len(turn) for turn in turns] == [4] * 7 + [2]
    assert [status for turn in turns for status in turn] == first
