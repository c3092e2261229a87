# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that others have overfilled are told of once, as soon as it lasts, and forgotten when it is over."""

import pytest
from placement.core.overcommitted_nodes import LASTING_SECONDS
from placement.kube.write.executor import told
from placement.model.messages.action import NodeOverfull
from placement.model.objects.pod import Phase
from placement.model.objects.volume import PersistentVolumeClaim, StorageClass
from placement_kit.builders import amounts, mine, node, pod
from placement_kit.simulated import Simulated

SMALL = amounts(cpu="4", memory="8Gi", pods="2")


def placed(*requests: str) -> Simulated:
    """A node and pods that somebody else has put there."""
    simulated = Simulated()
    simulated.see(node("n1", allocatable=SMALL), node("n2", allocatable=SMALL))
    for number, cpu in enumerate(requests):
        simulated.see(pod(f"p{number}", node="n1", phase=Phase.RUNNING, request=amounts(cpu=cpu)))
    return simulated


def after(simulated: Simulated, seconds: float) -> list[NodeOverfull]:
    """What is told in this time."""
    found = []
    end = simulated.now + seconds
    while simulated.now < end:
        simulated.now += 0.5
        found += [action for action in simulated.run() if isinstance(action, NodeOverfull)]
    return found


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        (("3", "2"), "Its pods request 5 of 4 cpu"),
        (("1", "1", "1500m"), "Its pods request 3 of 2 pods"),
        (("3", "1500m", "0"), "Its pods request 4500m of 4 cpu, 3 of 2 pods"),
    ],
)
def test_what_is_requested_beyond_what_there_is_makes_one_event_on_the_node(requests, said):
    simulated = placed(*requests)
    assert [action.message for action in after(simulated, 60)] == [said]
    assert simulated.scheduler.overfull.nodes == ("n1",)


def test_it_is_an_event_on_the_node():
    telling = told(NodeOverfull(uid="u", name="n1", message="words"))
    subject = telling.subject
    assert (subject.kind, subject.name, telling.reason, telling.text) == ("Node", "n1", "Overfull", "words")


def test_a_full_node_is_not_overfull():
    assert not after(placed("3", "1"), 60)


def test_what_passes_soon_is_not_told():
    simulated = placed("3", "2")
    assert not after(simulated, LASTING_SECONDS / 2)
    simulated.gone(simulated.named("p0"))
    assert not after(simulated, 60)


def test_pods_that_are_about_to_leave_have_made_their_room():
    simulated = placed("3", "2")
    simulated.see(pod("p1", node="n1", phase=Phase.RUNNING, request=amounts(cpu="2"), terminating=True))
    assert not after(simulated, 60)


def test_a_pod_that_waits_for_its_volume_is_not_there_yet():
    simulated = Simulated()
    made = StorageClass(uid="c", name="made", version=1, provisioner="csi.example", waits=True)
    claim = PersistentVolumeClaim(uid="data", namespace="team", name="data", version=1, storage_class="made", size=1)
    simulated.see(made, claim, node("n1", allocatable=SMALL))
    simulated.see(mine("waits", volume_claims=("data",), request=amounts(cpu="4")))
    simulated.run()
    assert list(simulated.scheduler.session.provisioning) == ["uid-waits"]
    simulated.see(pod("p1", node="n1", phase=Phase.RUNNING, request=amounts(cpu="4")))
    assert not after(simulated, 60)
    simulated.see(pod("p2", node="n1", phase=Phase.RUNNING, request=amounts(cpu="1")))
    assert [action.message for action in after(simulated, 60)] == ["Its pods request 5 of 4 cpu"]


def test_it_is_told_again_when_it_comes_again_and_nothing_is_placed_there_meanwhile():
    simulated = placed("3", "2")
    assert len(after(simulated, 60)) == 1
    simulated.see(mine("new", request=amounts(cpu="100m")))
    assert not after(simulated, 60)
    assert simulated.placements()["new"] == "n2"
    simulated.see(node("n1", allocatable=amounts(cpu="8", memory="8Gi", pods="10")))
    assert not after(simulated, 60)
    assert simulated.scheduler.overfull.nodes == ()
    simulated.see(node("n1", allocatable=SMALL))
    assert len(after(simulated, 60)) == 1
