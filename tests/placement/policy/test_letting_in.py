# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When groups of Volcano's are let in: its Jobs get no pods before, and they may be another scheduler's to let in."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from placement.kube.dialects import BY_NAME
from placement.model.amounts.quantity import Amounts
from placement.model.messages.action import GroupPhase, GroupStatus
from placement.model.objects.pod import Phase, Pod
from placement.model.objects.workload import VOLCANO
from placement.policy.jobs.group_key import VOLCANO_SCHEDULER
from placement.policy.plugins.configuration import Configuration, load
from placement_kit.builders import amounts, gang, node, pod, priority_class
from placement_kit.builders import queue as queue_of
from placement_kit.simulated import OURS, Simulated

PENDING, INQUEUE = GroupPhase.PENDING, GroupPhase.INQUEUE
NONE: Amounts = ()
# As Volcano's controller has it of a quota's words: some of them no node has any of.
SOME = (*amounts(cpu="2"), ("count/pods", 3 * 10**9), ("limits.cpu", 2000), ("pods", 3))
TOO_MUCH = amounts(cpu="200")


def actions(names: str) -> Configuration:
    """A configuration with these."""
    return load(f'actions: "{names}"\ntiers:\n- plugins: [{{name: priority}}, {{name: gang}}]', "t")


ENQUEUE = actions("enqueue, allocate")


def volcano(name: str = "g", members: int = 3, **more: Any) -> Any:
    """A PodGroup of Volcano's."""
    return gang(name, members, dialect=VOLCANO, **more)


def member(name: str, group: str = "g", *, scheduler: str = VOLCANO_SCHEDULER, **more: Any) -> Pod:
    """A pod as Volcano's controller creates it."""
    return pod(name, scheduler_name=scheduler, annotations=(("scheduling.k8s.io/group-name", group),), **more)


def later(simulated: Simulated, seconds: float = 4) -> list[GroupStatus]:
    """What groups are told some seconds later."""
    simulated.now += seconds
    return [action for action in simulated.run() if isinstance(action, GroupStatus)]


def written(status: GroupStatus) -> str:
    """The phase that the API gets."""
    write = BY_NAME[VOLCANO].group_status
    assert write is not None
    phase: str = write(status, "now")["phase"]
    return phase


@pytest.mark.parametrize("pods", [0, 1, 3])
@pytest.mark.parametrize(
    ("names", "queue", "least", "phase", "reason"),
    [
        ("enqueue, allocate", "default", NONE, INQUEUE, None),
        ("enqueue, allocate", "default", SOME, INQUEUE, None),
        ("enqueue, allocate", "default", TOO_MUCH, PENDING, "NotEnqueued"),
        ("enqueue, allocate", "small", SOME, PENDING, "NotEnqueued"),
        ("enqueue, allocate", "closed", NONE, PENDING, "ClosedQueue"),
        ("enqueue, allocate", "nowhere", NONE, PENDING, "UnknownQueue"),
        ("allocate", "default", NONE, INQUEUE, None),
        ("allocate", "default", TOO_MUCH, INQUEUE, None),
        ("allocate", "closed", TOO_MUCH, PENDING, "ClosedQueue"),
        ("allocate", "nowhere", SOME, PENDING, "UnknownQueue"),
    ],
)
def test_a_group_is_let_in_whether_it_has_its_pods_or_not(
    pods: int, names: str, queue: str, least: Amounts, phase: GroupPhase, reason: str | None
) -> None:
    simulated = Simulated(actions(names), scheduler_name=VOLCANO_SCHEDULER)
    simulated.see(node("n1"), *(queue_of(name) for name in ("default", "closed")))
    simulated.see(queue_of("small", capability=amounts(cpu="1")), queue_of("closed", is_open=False))
    simulated.see(volcano(queue=queue, min_resources=least))
    # They fit on no node, so that nothing but the group decides.
    simulated.see(*(member(f"g{index}", request=amounts(cpu="100")) for index in range(pods)))
    simulated.run()
    later(simulated)
    status = simulated.groups()["g"]
    assert status.phase is phase
    assert status.reason == (reason or ("NeverFits" if pods == 3 else "NotEnoughTasks"))
    kept = simulated.scheduler.cache.queue.reserved.get("cpu", 0)
    assert kept == (2000 if phase is INQUEUE and least is SOME and "enqueue" in names and pods < 3 else 0)


def test_a_group_of_a_queue_that_a_batch_system_backs_is_let_in_and_keeps_no_room_of_ours() -> None:
    simulated = Simulated(ENQUEUE, scheduler_name=VOLCANO_SCHEDULER)
    simulated.see(node("n1"), queue_of("default"), queue_of("hpc", placed_by="pbs"))
    simulated.see(volcano(queue="hpc", min_resources=TOO_MUCH))
    simulated.run()
    assert simulated.groups()["g"].phase is INQUEUE
    assert not simulated.scheduler.cache.queue.reserved


@pytest.mark.parametrize("least", [NONE, SOME])
def test_in_the_life_of_a_job_of_volcanos_its_group_is_never_pending_again(least: Amounts) -> None:
    simulated = Simulated(ENQUEUE, scheduler_name=VOLCANO_SCHEDULER)
    simulated.see(node("n1"), volcano(min_resources=least))
    told: list[str] = []

    def go_on(seconds: float = 4) -> None:
        # Of a gang whose number has changed nothing is said until it seems to stay so.
        for status in later(simulated, seconds) + (later(simulated, seconds) if seconds else []):
            told.append(written(status))
            simulated.see(volcano(min_resources=least, phase=told[-1]))

    go_on(0)
    # At once, and without a complaint: its pods are only now created, one after the other.
    assert told == ["Inqueue"]
    assert not simulated.groups()["g"].reason
    for index in range(3):
        go_on()
        simulated.see(member(f"g{index}", request=amounts(cpu="500m")))
    go_on()
    assert len(simulated.placements()) == 3
    # One fails and is created again by the job's rules, and then all are.
    simulated.finish("g0", phase=Phase.FAILED)
    go_on()
    simulated.gone(simulated.named("g0"))
    go_on()
    simulated.gone(*(simulated.named(f"g{index}") for index in (1, 2)))
    go_on()
    assert told[-1] == "Inqueue"
    simulated.see(*(member(f"h{index}", request=amounts(cpu="500m")) for index in range(3)))
    go_on()
    simulated.finish(*(f"h{index}" for index in range(3)))
    go_on()
    simulated.gone(*(simulated.named(f"h{index}") for index in range(3)))
    go_on()
    assert told[-1] == "Completed"
    assert "Pending" not in told
    # How it ended stays, and no room is kept for what is over.
    assert not any(simulated.scheduler.cache.queue.reserved.values())


def test_a_group_that_has_ended_keeps_no_room_after_a_restart() -> None:
    simulated = Simulated(ENQUEUE, scheduler_name=VOLCANO_SCHEDULER)
    simulated.see(node("n1"), volcano(min_resources=SOME, phase="Completed"))
    simulated.run()
    later(simulated)
    assert not simulated.groups()
    assert not simulated.scheduler.cache.queue.reserved


@pytest.mark.parametrize("closed", [False, True])
def test_a_group_that_was_let_in_stays_in_after_a_restart(closed: bool) -> None:
    simulated = Simulated(ENQUEUE, scheduler_name=VOLCANO_SCHEDULER)
    simulated.see(node("n1"), queue_of("default", is_open=not closed))
    simulated.see(volcano(min_resources=TOO_MUCH, phase="Inqueue"))
    simulated.run()
    later(simulated)
    assert simulated.groups()["g"].phase is INQUEUE


def test_room_is_kept_for_a_group_from_when_it_is_let_in_until_it_is_gone() -> None:
    simulated = Simulated(ENQUEUE, scheduler_name=VOLCANO_SCHEDULER)
    simulated.see(node("n1"), *(pod(f"f{index}", node="n1", request=amounts(cpu="1")) for index in range(2)))
    for name in ("a", "b"):
        simulated.see(volcano(name, min_resources=amounts(cpu="2")))
    simulated.run()
    assert {name: status.phase for name, status in simulated.groups().items()} == {"a": INQUEUE, "b": PENDING}
    assert simulated.groups()["b"].reason == "NotEnqueued"
    simulated.gone(volcano("a"))
    simulated.run()
    assert simulated.groups()["b"].phase is INQUEUE


def test_a_group_without_pods_gets_in_where_enqueue_is_taken_out_of_the_actions() -> None:
    simulated = Simulated(ENQUEUE, scheduler_name=VOLCANO_SCHEDULER)
    simulated.see(node("n1"), volcano(min_resources=TOO_MUCH))
    simulated.run()
    assert simulated.groups()["g"].phase is PENDING
    simulated.scheduler.configure(actions("allocate"), partial_gang_seconds=60, reserve_after=300.0)
    simulated.run()
    assert simulated.groups()["g"].phase is INQUEUE


@pytest.mark.parametrize("least", [NONE, SOME, TOO_MUCH])
@pytest.mark.parametrize("queue", ["default", "nowhere"])
def test_before_it_has_pods_a_group_is_for_the_scheduler_that_volcanos_jobs_name(queue: str, least: Amounts) -> None:
    simulated = Simulated(ENQUEUE)
    simulated.see(node("n1"))
    for phase in ("", "Pending", "Inqueue", "Unknown", "Running"):
        simulated.see(volcano(queue=queue, min_resources=least, phase=phase))
        simulated.run()
        later(simulated)
    # Nor do its pods make it ours, coming and going; and no room is kept for it.
    simulated.see(member("g0"))
    later(simulated)
    simulated.gone(simulated.named("g0"))
    later(simulated)
    assert not simulated.groups()
    assert not simulated.scheduler.cache.queue.reserved
    assert not simulated.scheduler.cache.queue.gated


def test_a_group_whose_pods_have_named_us_stays_ours_when_they_are_gone() -> None:
    simulated = Simulated(ENQUEUE)
    simulated.see(node("n1"), volcano(members=2), member("g0", scheduler=OURS))
    simulated.run()
    assert [status.phase for status in later(simulated)] == [INQUEUE]
    simulated.gone(simulated.named("g0"))
    simulated.see(volcano(members=2, phase="Inqueue"))
    later(simulated)
    assert simulated.groups()["g"].phase is INQUEUE
    # One of this name that comes in its place is another's again.
    simulated.gone(volcano())
    before = simulated.groups()["g"]
    simulated.see(replace(volcano(), uid="another"))
    assert not later(simulated)
    assert simulated.groups()["g"] is before


def test_a_pod_of_ours_that_is_gone_before_anything_is_said_leaves_a_group_of_anothers() -> None:
    simulated = Simulated(ENQUEUE)
    simulated.see(node("n1"), volcano(min_resources=TOO_MUCH), member("g0", scheduler=OURS))
    simulated.scheduler.cache.sync()
    simulated.gone(simulated.named("g0"))
    simulated.see(node("n2", allocatable=amounts(cpu="400")))
    simulated.run()
    assert not later(simulated)
    assert not any(simulated.scheduler.cache.queue.reserved.values())


def numbers() -> Iterator[str]:
    """Names in their own order."""
    return (f"g{number:02}" for number in count())


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 2, 3, 5]), st.integers(0, 2), st.sampled_from("ab"), st.integers(0, 2), st.booleans()
        ),
        min_size=1,
        max_size=12,
    )
)
def test_pods_make_no_difference_to_who_is_let_in(groups: list[tuple[int, int, str, int, bool]]) -> None:
    with_pods, without = (Simulated(ENQUEUE, scheduler_name=VOLCANO_SCHEDULER) for _unused in range(2))
    for simulated in (with_pods, without):
        simulated.see(queue_of("a", capability=amounts(cpu="2")), queue_of("b"))
        simulated.see(*(priority_class(f"p{value}", value) for value in range(3)))
        # All room is in pieces, so nobody who is let in can begin.
        for index in range(8):
            simulated.see(node(f"n{index}"), pod(f"f{index}", node=f"n{index}", request=amounts(cpu="3")))
    for name, (asked, priority, queue, pods, last) in zip(numbers(), groups, strict=False):
        least = amounts(cpu=str(asked)) if asked else ()
        group = volcano(name, 2, queue=queue, priority_class=f"p{priority}", min_resources=least)
        with_pods.see(*(member(f"{name}-{index}", name, request=amounts(cpu="4")) for index in range(pods)), group)
        without.see(group)
        if last:
            with_pods.run()
            without.run()
    for simulated in (with_pods, without):
        simulated.run()
        later(simulated)
    phases, others = ({name: status.phase for name, status in of.groups().items()} for of in (with_pods, without))
    assert phases == others
    assert len(phases) == len(groups)
    assert with_pods.scheduler.cache.queue.gated.keys() == without.scheduler.cache.queue.gated.keys()
