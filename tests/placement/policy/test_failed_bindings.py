# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bindings that the API refuses: when they are tried again, and what is said."""

from dataclasses import replace

from placement.model.messages.action import Action, Bind, Evict
from placement.model.messages.event import BindFailed, EvictRefused
from placement.model.objects.pod import Phase
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, gang, mine, node
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated


def one_node() -> Simulated:
    simulated = Simulated()
    simulated.see(node("n1"))
    return simulated


def test_a_pod_whose_binding_fails_is_tried_again_at_once_and_then_after_longer_and_longer() -> None:
    simulated = one_node()
    simulated.see(mine("p"))
    tried = []
    for _unused in range(200):
        for action in simulated.run_once():
            if isinstance(action, Bind):
                tried.append(simulated.now)
                simulated.scheduler.apply(BindFailed(action.uid, action.node, "webhook says no"))
            else:
                simulated.actions.append(action)
        simulated.now += 0.5
    assert tried == [0.0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 61.5, 91.5]
    assert simulated.conditions()["p"] == "team/p could not be bound to node n1: webhook says no"
    simulated.run()
    simulated.now += 30
    simulated.run()
    assert simulated.placements() == {"p": "n1"}


def test_bindings_that_fail_together_count_as_one() -> None:
    simulated = one_node()
    simulated.see(*(mine(f"p{index}", owner="set") for index in range(4)))
    for action in simulated.run_once():
        assert isinstance(action, Bind)
        simulated.scheduler.apply(BindFailed(action.uid, action.node, "the node is gone"))
    simulated.now += 1
    simulated.run()
    assert len(simulated.placements()) == 4


class Refusing(Simulated):
    """The API refuses the bindings of some pods; what it says of others is carried out."""

    def __init__(self, *names: str, actions: str = "allocate, backfill") -> None:
        super().__init__(load(policy(actions), "test"))
        self.refused = names

    def carry_out(self, action: Action) -> None:
        if isinstance(action, Bind) and action.name in self.refused:
            self.tell(BindFailed(action.uid, action.node, "webhook says no"))
        else:
            super().carry_out(action)

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.run()


def failed(**more: object) -> Refusing:
    """A pod of a group of its own whose binding has failed twice, so that it waits a second for the next try."""
    simulated = Refusing("p")
    simulated.see(node("n1"), gang("g", 1, **more), mine("p", group="g", request=amounts(cpu="3")))
    simulated.run()
    assert simulated.conditions()["p"] == "team/p could not be bound to node n1: webhook says no"
    assert simulated.groups()["g"].reason == "BindingFailed"
    return simulated


def test_what_a_later_try_says_replaces_a_failed_binding() -> None:
    simulated = failed()
    simulated.see(node("n1", unschedulable=True), node("n2", allocatable=amounts(cpu="1", pods="9")))
    simulated.later(60)
    assert simulated.conditions()["p"] == "0/2 nodes are available: 1 too small: cpu, 1 unschedulable"
    assert simulated.groups()["g"].reason == "NotEnoughResources"
    explained = simulated.explain("team", "p")
    assert explained is not None
    assert "unschedulable" in explained.limit


def test_a_queue_that_has_filled_up_replaces_a_failed_binding() -> None:
    simulated = failed()
    simulated.see(mine("q", request=amounts(cpu="4")))
    simulated.run()
    assert simulated.placements() == {"q": "n1"}
    # Until its next try it is the failed binding that it waits for.
    assert "webhook says no" in simulated.conditions()["p"]
    simulated.later(60)
    assert "has all that it deserves" in simulated.conditions()["p"]
    assert simulated.groups()["g"].reason == "QueueOverused"
    # While it waits for its turn later, the failed binding is no news any more.
    assert not simulated.scheduler.session.setbacks


def test_a_binding_that_fails_once_more_replaces_an_older_refusal() -> None:
    simulated = failed()
    simulated.see(node("n1", unschedulable=True))
    simulated.later(60)
    simulated.see(node("n1"))
    simulated.later(60)
    assert simulated.conditions()["p"] == "team/p could not be bound to node n1: webhook says no"


def test_pods_that_request_nothing_wait_for_their_binding_also_in_a_full_queue() -> None:
    simulated = Refusing("p")
    simulated.see(node("n1"), mine("q", request=amounts(cpu="4")), mine("p", request=()))
    simulated.run()
    assert simulated.conditions()["p"] == "team/p could not be bound to node n1: webhook says no"


def test_a_refused_eviction_is_told_as_long_as_it_holds_and_then_that_the_queue_is_full() -> None:
    simulated = Simulated(load(policy("allocate, preempt"), "test"))
    low = mine("low", node="n1", phase=Phase.RUNNING, request=amounts(cpu="4"))
    simulated.see(node("n1"), low)
    simulated.see(mine("high", priority=9, request=amounts(cpu="4")))
    (evict,) = [action for action in simulated.run_once() if isinstance(action, Evict)]
    simulated.tell(EvictRefused(evict.uid, "webhook says no"))
    simulated.run()
    assert "but team/low stays: webhook says no" in simulated.conditions()["high"]
    # No eviction is tried again, because the pod that stays is as urgent by now.
    simulated.see(replace(low, spec=replace(low.spec, priority=9)))
    simulated.now += 60
    simulated.run()
    assert "has all that it deserves" in simulated.conditions()["high"]
