# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop: slices, questions between events, and no hurry when bindings crowd."""

import threading
import time

import pytest
from placement.app.loop import Loop, Unanswered
from placement.app.metrics import Metrics
from placement.core.scheduler import Decision
from placement.model.action import Bind
from placement.model.event import Gone
from placement.model.pod import Pod
from placement.state.cluster import Cluster

BIND = Bind(uid="u", namespace="team", name="pod", node="n1")


class Recorder:
    """A scheduler and a carrier that note what they are asked."""

    def __init__(self) -> None:
        self.applied, self.carried = [], []
        self.decisions: list[Decision] = []
        self.binding = 0
        self.cluster = Cluster()
        self.decided = self.followed = 0

    def apply(self, event) -> None:
        self.applied.append(event)

    def follow(self) -> bool:
        self.followed += 1
        return False

    def decide(self, now, expired) -> Decision:
        self.decided += 1
        return self.decisions.pop(0) if self.decisions else Decision((), False)

    def carry(self, actions) -> None:
        self.carried += actions


@pytest.fixture
def part() -> Recorder:
    return Recorder()


def loop_of(part: Recorder, may_decide=lambda: True) -> Loop:
    return Loop(
        part,
        carrier=part,
        metrics=Metrics(),
        may_decide=may_decide,
        decided=lambda _actions: None,
        binders=1,
        slice_seconds=0.005,
    )


def run_until(loop: Loop, holds) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=loop.run, args=(stop,))
    thread.start()
    waiting = threading.Event()
    give_up = time.monotonic() + 300
    while not holds() and time.monotonic() < give_up:
        waiting.wait(0.01)
    stop.set()
    loop.put([])
    thread.join()
    assert holds()


def test_events_are_applied_in_order_and_actions_carried_out(part):
    part.decisions = [Decision((BIND,), True), Decision((BIND,), False)]
    loop = loop_of(part)
    events = [Gone(Pod, str(number), number) for number in range(3)]
    loop.put(events[:2])
    loop.put(events[2:])
    run_until(loop, lambda: len(part.carried) == 2)
    assert part.applied == events


def test_without_the_right_to_write_events_are_taken_in_and_nothing_is_decided(part):
    loop = loop_of(part, may_decide=lambda: False)
    loop.put([Gone(Pod, "a", 1)])
    run_until(loop, lambda: bool(part.applied))
    assert part.decided == 0
    assert part.followed


def test_whoever_begins_to_decide_has_taken_in_all_that_had_come(part):
    loop = loop_of(part)
    loop.slice_seconds = 0.0
    applied_at_first: list[int] = []
    part.decide = lambda _now, _expired: applied_at_first.append(len(part.applied)) or Decision((), False)
    for number in range(5):
        loop.put([Gone(Pod, str(number), number)])
    run_until(loop, lambda: bool(applied_at_first))
    assert applied_at_first[0] == 5


def test_while_bindings_crowd_nothing_more_is_decided(part):
    part.binding = 1000
    loop = loop_of(part)
    loop.put([Gone(Pod, "a", 1)])
    run_until(loop, lambda: bool(part.applied))
    assert part.decided == 0


def test_a_question_is_answered_and_its_error_is_the_askers(part):
    loop = loop_of(part)
    stop = threading.Event()
    thread = threading.Thread(target=loop.run, args=(stop,))
    thread.start()
    try:
        assert loop.ask(lambda: 7) == 7
        with pytest.raises(KeyError):
            loop.ask(lambda: {}["x"])
    finally:
        stop.set()
        loop.put([])
        thread.join()


def test_a_loop_that_does_not_turn_leaves_no_one_waiting(part):
    with pytest.raises(Unanswered):
        loop_of(part).ask(lambda: 7, timeout=0.05)
