# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An action that was given up without an answer leaves nothing behind: its plan is undone, and decided again."""

from dataclasses import replace

import pytest
from placement.model.messages.action import Action, Bind, BindVolume, Evict, GroupStatus, PodCondition, SelectNode
from placement.model.messages.event import Relisted, Unsent
from placement.model.objects.pod import Phase, Pod
from placement.model.objects.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, gang, mine, node
from placement_kit.simulated import Simulated

PREEMPTING = load(
    'actions: "allocate, preempt"\ntiers:\n- plugins: [{name: priority}, {name: gang}, {name: nodeorder}]\n', "test"
)


def give_up(simulated: Simulated, *kinds: type[Action]) -> list[Action]:
    """Decides, and gives up all that is decided of these kinds; the rest is carried out."""
    given_up = []
    for action in simulated.run_once():
        if isinstance(action, kinds):
            given_up.append(action)
            simulated.scheduler.apply(Unsent(action))
        else:
            simulated.carry_out(action)
            simulated.actions.append(action)
    return given_up


def state(simulated: Simulated, name: str) -> str:
    found = simulated.explain("team", name)
    assert found is not None
    return found.state


@pytest.mark.parametrize("relisted", [False, True])
def test_a_pod_whose_binding_was_given_up_is_charged_nowhere_and_bound_at_once(relisted: bool) -> None:
    simulated = Simulated()
    simulated.see(node("n1"))
    simulated.see(mine("a"), mine("full", request=amounts(cpu="4")))
    (binding,) = give_up(simulated, Bind)
    assert state(simulated, binding.name) == "Pending"
    assert not simulated.scheduler.cluster.pods.at_node("n1")
    if relisted:
        simulated.tell(Relisted(Pod, tuple(simulated.pods.values()), simulated.version))
    # Nothing is to blame, so nothing waits.
    simulated.run()
    assert len(simulated.placements()) == 1
    simulated.check()


def test_a_gang_of_which_some_bindings_were_given_up_is_made_whole() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), gang("g", 4), *(mine(f"g{index}", group="g") for index in range(4)))
    bindings = [action for action in simulated.run_once() if isinstance(action, Bind)]
    assert len(bindings) == 4
    for binding in bindings[:2]:
        simulated.carry_out(binding)
    for binding in bindings[2:]:
        simulated.scheduler.apply(Unsent(binding))
    simulated.run()
    assert len(simulated.placements()) == 4


def test_a_gang_whose_bindings_were_given_up_does_not_stay_half_bound_where_its_room_has_gone() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), gang("g", 4), *(mine(f"g{index}", group="g") for index in range(4)))
    bindings = [action for action in simulated.run_once() if isinstance(action, Bind)]
    for binding in bindings[:2]:
        simulated.carry_out(binding)
    for binding in bindings[2:]:
        simulated.scheduler.apply(Unsent(binding))
    simulated.see(node("n1", version=5, allocatable=amounts(cpu="2", memory="8Gi", pods="10")))
    simulated.run()
    simulated.now += 121
    simulated.run()
    assert simulated.placements() == {}


def test_a_victim_whose_eviction_was_given_up_stays_and_is_asked_again() -> None:
    simulated = Simulated(PREEMPTING)
    simulated.see(node("n1"), mine("low", request=amounts(cpu="4"), node="n1", phase=Phase.RUNNING))
    simulated.run()
    simulated.see(mine("high", request=amounts(cpu="4"), priority=100))
    assert [action.name for action in give_up(simulated, Evict)] == ["low"]
    assert state(simulated, "low") == "Running"
    simulated.run()
    assert simulated.placements() == {"high": "n1"}


def test_a_claimant_is_promised_nothing_once_the_evictions_for_it_were_given_up() -> None:
    simulated = Simulated(PREEMPTING)
    simulated.see(node("n1"), mine("low", request=amounts(cpu="4"), node="n1", phase=Phase.RUNNING))
    simulated.run()
    high = mine("high", request=amounts(cpu="4"), priority=100)
    simulated.see(high)
    assert give_up(simulated, Evict)
    simulated.gone(high)
    simulated.run()
    assert simulated.placements() == {"low": "n1"}
    assert not simulated.scheduler.cluster.columns.nominated.any()


def test_a_status_that_was_given_up_is_said_again() -> None:
    simulated = Simulated()
    simulated.see(
        node("n1"), gang("g", 2), *(mine(f"g{index}", group="g", request=amounts(cpu="3")) for index in (0, 1))
    )
    said, again = set(), set()
    for _unused in range(5):
        said |= {(type(action), action.uid) for action in give_up(simulated, PodCondition, GroupStatus)}
        simulated.now += 1
    assert {kind for kind, _uid in said} == {PodCondition, GroupStatus}
    for _unused in range(60):
        again |= {(type(action), action.uid) for action in simulated.run_once()}
        simulated.now += 1
    assert again == said


def test_a_pod_whose_volume_was_not_asked_for_waits_for_a_node_again() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), StorageClass(uid="s", name="s", version=1, provisioner="csi", waits=True))
    claim = PersistentVolumeClaim(uid="c", namespace="team", name="data", version=1, storage_class="s")
    simulated.see(claim, mine("p", volume_claims=("data",)))
    assert [action.node for action in give_up(simulated, SelectNode)] == ["n1"]
    asked = [action for action in simulated.run() if isinstance(action, SelectNode)]
    assert [action.uid for action in asked] == ["c"]


def test_a_pod_whose_volume_was_not_given_to_it_waits_for_a_node_again() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), StorageClass(uid="s", name="s", version=1, waits=True))
    volume = PersistentVolume(uid="v", name="v", version=1, storage_class="s", available=True)
    claim = PersistentVolumeClaim(uid="c", namespace="team", name="data", version=1, storage_class="s")
    simulated.see(volume, claim, mine("p", volume_claims=("data",)))
    (given,) = give_up(simulated, BindVolume)
    assert given.volume == "v"
    again = [action for action in simulated.run() if isinstance(action, BindVolume)]
    assert [replace(action, version=given.version) for action in again] == [given]
