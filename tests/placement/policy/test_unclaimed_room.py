# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room that enqueue keeps for groups that get no pods: for how long, and what comes then."""

from dataclasses import replace
from typing import Any

from placement.model.messages.action import GroupPhase
from placement.model.objects.pod import Pod
from placement.model.objects.workload import VOLCANO, PodGroup
from placement.policy.actions.enqueue import CLAIM_SECONDS
from placement.policy.jobs.group_key import VOLCANO_SCHEDULER
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, gang, node, pod
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated


def volcanos() -> Simulated:
    """One node, and enqueue before allocate."""
    simulated = Simulated(load(policy("enqueue, allocate, backfill"), "test"), scheduler_name=VOLCANO_SCHEDULER)
    simulated.see(node("n1"))
    return simulated


def group(name: str, cores: str, *, min_member: int = 1, **more: Any) -> Any:
    """A group of Volcano's that needs so many cores."""
    return gang(name, min_member, dialect=VOLCANO, min_resources=amounts(cpu=cores), **more)


def member(name: str, of: str, cores: str = "1") -> Pod:
    """A pod of a group."""
    names = (("scheduling.k8s.io/group-name", of),)
    return pod(name, scheduler_name=VOLCANO_SCHEDULER, annotations=names, request=amounts(cpu=cores))


def phases(simulated: Simulated) -> dict[str, GroupPhase | None]:
    return {name: status.phase for name, status in simulated.groups().items()}


def report(simulated: Simulated) -> None:
    """The API has what groups were told."""
    for name, status in simulated.groups().items():
        known = simulated.scheduler.cluster.objects.find(PodGroup, name, "team")
        assert known is not None
        simulated.see(replace(known, phase=str(status.phase)))


def later(simulated: Simulated, seconds: float) -> None:
    """So much time passes, with a look every ten seconds."""
    end = simulated.now + seconds
    while simulated.now < end:
        simulated.now = min(end, simulated.now + 10.0)
        simulated.run()


def test_room_that_is_kept_for_a_group_without_pods_is_free_again_after_a_while() -> None:
    simulated = volcanos()
    simulated.see(group("empty", "4", created="2026-01-01T00:00:00Z"))
    simulated.run()
    report(simulated)
    simulated.see(group("real", "1", created="2026-01-01T00:00:01Z"), member("r0", "real"))
    later(simulated, CLAIM_SECONDS - 10)
    assert not simulated.placements()
    later(simulated, 20)
    assert simulated.placements() == {"r0": "n1"}
    assert phases(simulated) == {"empty": GroupPhase.PENDING, "real": GroupPhase.RUNNING}


def test_a_group_whose_room_has_lapsed_comes_after_all_others_and_is_let_in_when_there_is_room() -> None:
    simulated = volcanos()
    simulated.see(group("empty", "4", created="2026-01-01T00:00:00Z"))
    simulated.run()
    report(simulated)
    simulated.see(*(group(f"real{index}", "4", created=f"2026-01-01T00:00:0{index}Z") for index in (1, 2)))
    later(simulated, CLAIM_SECONDS + 10)
    report(simulated)
    assert phases(simulated)["real1"] == GroupPhase.INQUEUE
    for name in ("real1", "real2"):
        simulated.see(member(name, name, "4"))
        later(simulated, 10)
        report(simulated)
        assert simulated.placements() == {name: "n1"}
        assert phases(simulated)["empty"] == GroupPhase.PENDING
        simulated.finish(name)
        later(simulated, 10)
        report(simulated)
    assert phases(simulated)["empty"] == GroupPhase.INQUEUE


def test_room_is_kept_for_a_group_that_has_its_pods_however_long_they_wait() -> None:
    simulated = volcanos()
    simulated.see(node("n2"), *(pod(f"theirs{name}", node=name, request=amounts(cpu="2")) for name in ("n1", "n2")))
    # Four cores are free, and nowhere all of them.
    simulated.see(group("large", "4"), member("l0", "large", "4"))
    simulated.run()
    report(simulated)
    later(simulated, 3 * CLAIM_SECONDS)
    assert phases(simulated) == {"large": GroupPhase.INQUEUE}
    assert simulated.scheduler.cache.queue.reserved.get("cpu") == 4000


def test_room_of_a_gang_that_gets_too_few_pods_lapses_too() -> None:
    simulated = volcanos()
    simulated.see(group("partial", "4", min_member=2), member("p0", "partial", "2"))
    simulated.run()
    report(simulated)
    simulated.see(group("real", "4"), member("r0", "real", "4"))
    later(simulated, CLAIM_SECONDS + 20)
    assert simulated.placements() == {"r0": "n1"}


def test_a_new_policy_without_enqueue_does_not_wait_for_room_to_lapse() -> None:
    simulated = volcanos()
    simulated.see(group("empty", "4"))
    simulated.run()
    simulated.scheduler.configure(
        load(policy("allocate, backfill"), "test"), partial_gang_seconds=120.0, reserve_after=300.0
    )
    simulated.run()
    simulated.now += 2 * CLAIM_SECONDS
    # Nothing has happened, so there is nothing to decide.
    assert not simulated.decide().more
    assert not simulated.scheduler.session.unclaimed
