# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that have ended: those of other schedulers are forgotten, our own count in their jobs until they are gone."""

from dataclasses import replace

import pytest
from placement.model.messages.event import Deleted, Relisted, Upserted
from placement.model.messages.refusal import Refusal
from placement.model.objects.pod import Phase, Pod
from placement_kit.builders import amounts, gang, mine, node, pod
from placement_kit.simulated import Simulated

ENDED = [Phase.SUCCEEDED, Phase.FAILED]


def known(simulated: Simulated) -> list[str]:
    return sorted(entry.pod.name for entry in simulated.scheduler.cluster.pods.by_uid.values())


@pytest.mark.parametrize("phase", ENDED)
def test_a_pod_of_another_scheduler_is_forgotten_when_it_has_ended(phase: Phase) -> None:
    simulated = Simulated()
    simulated.see(node("n1"), pod("theirs", node="n1", phase=Phase.RUNNING, request=amounts(cpu="4")), mine("p"))
    simulated.run()
    assert not simulated.placements().get("p")
    simulated.finish("theirs", phase=phase)
    simulated.run()
    assert known(simulated) == ["p"]
    assert simulated.placements() == {"p": "n1"}


@pytest.mark.parametrize("phase", ENDED)
def test_it_does_not_rise_again_by_older_news(phase: Phase) -> None:
    simulated = Simulated()
    running = pod("theirs", node="n1", phase=Phase.RUNNING, version=5)
    for item in (running, replace(running, phase=phase, version=7), replace(running, version=6)):
        simulated.tell(Upserted(item))
    assert known(simulated) == []


# A long list is taken in piece by piece.
@pytest.mark.parametrize("others", [0, 5_000])
def test_a_list_brings_no_ended_pods_of_others_and_ends_those_that_were_known(others: int) -> None:
    simulated = Simulated()
    running = [pod(f"theirs{index}", node="n1", phase=Phase.RUNNING, version=5) for index in range(3)]
    for item in running:
        simulated.tell(Upserted(item))
    ended = [replace(item, phase=Phase.SUCCEEDED, version=7) for item in running[:2]]
    ours = mine("ours", phase=Phase.SUCCEEDED, version=8)
    new = pod("new", phase=Phase.FAILED, version=8)
    more = [pod(f"more{index}", phase=Phase.SUCCEEDED, version=8) for index in range(others)]
    listed = [*ended, running[2], ours, new, *more]
    simulated.tell(Relisted(Pod, listed, 9, (Refusal(kind="Pod", field="x", reason="y"),)))
    simulated.run()
    assert known(simulated) == ["ours", "theirs2"]


def test_members_of_ours_that_have_ended_count_in_their_gang() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), gang("g", 2), mine("g0", group="g"), mine("g1", group="g"))
    simulated.run()
    simulated.finish("g0")
    simulated.see(mine("g2", group="g"))
    simulated.run()
    # The gang is whole by the one that has ended, so a third member starts alone.
    assert known(simulated) == ["g0", "g1", "g2"]
    assert sorted(simulated.placements()) == ["g1", "g2"]


def test_a_member_of_another_scheduler_makes_the_group_foreign_until_it_is_gone() -> None:
    simulated = Simulated()
    theirs = pod("theirs", node="n1", phase=Phase.SUCCEEDED, annotations=(("scheduling.k8s.io/group-name", "g"),))
    simulated.see(node("n1"), gang("g", 1), theirs, mine("g0", group="g"))
    simulated.run()
    assert not simulated.placements().get("g0")
    simulated.tell(Deleted(Pod, theirs.uid, 10_000))
    simulated.run()
    assert simulated.placements() == {"g0": "n1"}
