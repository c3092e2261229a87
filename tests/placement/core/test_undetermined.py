# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A binding was refused, and nobody can read the pod: an earlier try whose answer was lost may have landed."""

from dataclasses import replace

from placement.model.messages.action import Action, Bind, Evict
from placement.model.messages.event import BindFailed, Undetermined
from placement.model.objects.pod import Phase
from placement.model.rules.selector import Effect, Taint, Toleration
from placement_kit.builders import amounts, gang, mine, node
from placement_kit.simulated import Simulated


def bindings(actions: list[Action]) -> list[Bind]:
    return [action for action in actions if isinstance(action, Bind)]


def unknown(simulated: Simulated, seconds: int) -> list[Bind]:
    """Bindings that are sent in so many seconds, of which no result can be told."""
    sent = []
    for _unused in range(seconds):
        simulated.now += 1
        for action in simulated.run_once():
            if isinstance(action, Bind):
                sent.append(action)
                simulated.tell(Undetermined(action))
            else:
                assert not isinstance(action, Evict)
                simulated.actions.append(action)
    return sent


def one_pod(**more: object) -> tuple[Simulated, Bind]:
    """A pod that takes a whole node, and has been sent there."""
    simulated = Simulated()
    simulated.see(node("n1"), mine("p", request=amounts(cpu="4"), **more))
    (sent,) = bindings(simulated.run_once())
    simulated.tell(Undetermined(sent))
    return simulated, sent


def test_its_room_is_given_to_no_other_and_the_same_binding_is_sent_again() -> None:
    simulated, sent = one_pod()
    simulated.see(mine("q", request=amounts(cpu="1")))
    again = unknown(simulated, 60)
    assert again == [sent] * len(again)
    assert 3 <= len(again) <= 6


def test_a_pod_that_the_watch_shows_bound_is_charged_once_and_not_bound_again() -> None:
    simulated, sent = one_pod()
    unknown(simulated, 60)
    simulated.see(replace(simulated.named("p"), node=sent.node, phase=Phase.RUNNING), mine("q"))
    for _unused in range(60):
        simulated.now += 1
        assert not bindings(simulated.run())
    assert simulated.scheduler.cluster.columns.free[0, 0] == 0
    simulated.check()


def test_a_pod_that_was_bound_elsewhere_is_charged_there_and_leaves_its_room() -> None:
    simulated, _sent = one_pod()
    simulated.see(replace(node("n2"), version=5), mine("q", request=amounts(cpu="4")))
    simulated.see(replace(simulated.named("p"), node="n2", phase=Phase.RUNNING))
    simulated.run()
    assert simulated.placements() == {"p": "n2", "q": "n1"}
    simulated.check()


def test_a_pod_that_was_deleted_is_not_asked_for_any_more() -> None:
    simulated, _sent = one_pod()
    simulated.gone(simulated.named("p"))
    assert not unknown(simulated, 60)
    simulated.see(mine("q", request=amounts(cpu="4")))
    simulated.run()
    assert simulated.placements() == {"q": "n1"}


def test_who_does_not_decide_any_more_keeps_no_room_for_it_and_does_not_send_it_later() -> None:
    simulated, _sent = one_pod()
    simulated.follow()
    assert simulated.scheduler.cluster.columns.free[0, 0] == 4000
    # Whoever decides meanwhile puts another pod there.
    simulated.see(mine("q", node="n1", request=amounts(cpu="4"), phase=Phase.RUNNING), replace(node("n2"), version=5))
    simulated.now += 600
    simulated.follow()
    simulated.run()
    assert simulated.placements() == {"p": "n2", "q": "n1"}
    simulated.check()


def test_it_is_not_sent_to_a_node_that_is_gone() -> None:
    simulated, _sent = one_pod()
    simulated.gone(node("n1"))
    assert not unknown(simulated, 60)
    simulated.see(replace(node("n2"), version=5))
    simulated.run()
    assert simulated.placements() == {"p": "n2"}


def test_it_is_not_sent_to_a_node_while_that_may_not_have_the_pod() -> None:
    simulated, sent = one_pod()
    simulated.see(replace(node("n1"), version=5, taints=(Taint("batch", "job", Effect.NO_EXECUTE),)))
    assert not unknown(simulated, 60)
    # Whether the pod is there is still not known.
    simulated.see(mine("q", request=amounts(cpu="4"), tolerations=(Toleration(operator="Exists"),)))
    assert not unknown(simulated, 60)
    simulated.see(replace(node("n1"), version=6))
    assert unknown(simulated, 11) == [sent]


def test_a_plan_that_was_made_anew_is_sent_once_at_a_time() -> None:
    simulated, sent = one_pod()
    simulated.tell(BindFailed(sent.uid, sent.node, "refused"))
    assert len(unknown(simulated, 8)) == 1
    for _unused in range(6):
        assert len(unknown(simulated, 10)) == 1


def test_a_binding_that_had_not_landed_succeeds_when_it_is_sent_again() -> None:
    simulated, _sent = one_pod()
    simulated.now += 11
    simulated.run()
    assert simulated.placements() == {"p": "n1"}


def test_a_gang_is_not_taken_for_bound_in_part_while_that_is_not_known() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), gang("g", 4), *(mine(f"g{index}", group="g") for index in range(4)))
    first, *others = bindings(simulated.run_once())
    for binding in others:
        simulated.carry_out(binding)
    simulated.tell(Undetermined(first))
    assert {binding.name for binding in unknown(simulated, 600)} == {first.name}
    assert len(simulated.placements()) == 3
    simulated.see(replace(simulated.named(first.name), node=first.node, phase=Phase.RUNNING))
    assert not any(isinstance(action, Bind | Evict) for action in simulated.run())
    assert len(simulated.placements()) == 4


def test_a_failure_that_comes_after_the_watch_has_shown_the_pod_bound_frees_no_room() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), mine("p", request=amounts(cpu="4")))
    (sent,) = bindings(simulated.run_once())
    simulated.carry_out(sent)
    simulated.tell(BindFailed(sent.uid, sent.node, "already assigned"))
    simulated.see(mine("q"))
    simulated.now += 60
    simulated.run()
    assert simulated.placements() == {"p": "n1"}
    simulated.check()
