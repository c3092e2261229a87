# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Crowds of gangs that fit nowhere: whoever fits is bound although something changes all the time."""

import pytest
from placement.core.scheduler import Scheduler
from placement.model.action import Action, Bind
from placement.model.event import Gone, Seen
from placement.model.pod import Phase, Pod
from placement.policy.configuration import load
from placement_kit.builders import amounts, gang, mine, node, pod, priority_class, queue
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated

GANGS = 700
# Tries that a slice has time for.
TRIES = 40


class Crowded:
    """One node with one core left, and gangs of two cores that came before everybody else."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(load(policy("allocate"), "test"), scheduler_name="placement")
        self.see(node("n1", allocatable=amounts(cpu="8", pods="5000")), priority_class("high", 10))
        self.see(pod("large", node="n1", request=amounts(cpu="7"), phase=Phase.RUNNING))
        self.see(*(pod(f"end{index}", node="n1", request=(), phase=Phase.RUNNING) for index in range(300)))
        for index in range(GANGS):
            self.see(gang(f"g{index}", 1, created="2026-01-01T00:00:00Z"))
            self.see(mine(f"g{index}", group=f"g{index}", request=amounts(cpu="2")))
        self.ended = 0
        while self.scheduler.decide(0.0, lambda: False).more:
            pass

    def see(self, *items: object) -> None:
        for item in items:
            self.scheduler.apply(Seen(item))

    def end(self, name: str = "") -> None:
        """A pod ends: whoever did not fit may fit now."""
        self.scheduler.apply(Gone(Pod, f"uid-{name or f'end{self.ended}'}", 99))
        self.ended += not name

    def slice(self) -> tuple[Action, ...]:
        left = iter(range(TRIES))
        return self.scheduler.decide(0.0, lambda: next(left, None) is None).actions


def bound(actions: tuple[Action, ...]) -> list[str]:
    return [action.name for action in actions if isinstance(action, Bind)]


def test_a_pod_that_fits_is_bound_although_pods_end_in_every_slice() -> None:
    crowded = Crowded()
    crowded.end()
    crowded.slice()
    crowded.see(mine("small", created="2026-01-02T00:00:00Z"))
    for _unused in range(100):
        crowded.end()
        if bound(crowded.slice()) == ["small"]:
            return
    raise AssertionError("later pods are never tried")


@pytest.mark.parametrize("slices", [0, 1, 5, 15, 20, 25, 30])
def test_room_goes_to_who_is_first_although_others_have_not_been_tried(slices: int) -> None:
    crowded = Crowded()
    crowded.see(gang("first", 1, priority_class="high"), mine("first", group="first", request=amounts(cpu="4")))
    crowded.slice()
    crowded.end()
    for _unused in range(slices):
        assert not bound(crowded.slice())
    crowded.end("large")
    found: list[str] = []
    for _unused in range(100):
        found += bound(crowded.slice())
    assert (found[0], len(found)) == ("first", 3)


def test_those_that_nobody_can_leave_for_are_not_put_in_order_again_for_every_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulated = Simulated(load(policy(), "test"))
    simulated.see(queue("default"), node("n1"), pod("large", node="n1", request=amounts(cpu="4"), phase=Phase.RUNNING))
    for index in range(20):
        simulated.see(gang(f"g{index}", 1), mine(f"g{index}", group=f"g{index}", priority=index))
    simulated.run()
    ordered, rules = [], simulated.scheduler.session.rules
    order = rules.job_order
    monkeypatch.setattr(rules, "job_order", lambda job, total: ordered.append(job) or order(job, total))
    simulated.see(pod("elsewhere", node="n2", phase=Phase.RUNNING))
    simulated.run()
    assert not ordered
    simulated.finish("large")
    simulated.run()
    assert ordered
    assert len(simulated.placements()) == 5
