# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop: slices, questions between events, what has to be one piece, and no hurry when bindings crowd."""

import threading
import time
from collections.abc import Iterable
from itertools import chain, count, repeat

import pytest
from placement.app.loop.loop import Loop, Unanswered
from placement.app.telemetry.metrics import Metrics
from placement.core.scheduler import Decision
from placement.model.messages.action import Bind
from placement.model.messages.event import Deleted
from placement.model.objects.pod import Pod
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
        self.under_way = False
        self.hurries: list[bool] = []
        self.epochs: list[float] = []
        # What was decided, applied and asked, in its order.
        self.order: list[str] = []

    def apply(self, event) -> None:
        self.applied.append(event)
        self.order.append("applied")

    def set_epoch(self, epoch) -> None:
        self.epochs.append(epoch)

    def follow(self) -> bool:
        self.followed += 1
        return False

    def decide(self, now, expired, *, hurry) -> Decision:
        self.decided += 1
        self.order.append("decided")
        self.hurries.append(hurry)
        return self.decisions.pop(0) if self.decisions else Decision((), False)

    def carry(self, actions) -> None:
        self.carried += actions


@pytest.fixture
def part() -> Recorder:
    return Recorder()


def loop_of(part: Recorder, may_decide=lambda: True, **more) -> Loop:
    return Loop(
        part,
        carrier=part,
        metrics=Metrics(),
        may_decide=may_decide,
        decided=lambda _actions: None,
        binders=1,
        slice_seconds=0.005,
        **more,
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
    events = [Deleted(Pod, str(number), number) for number in range(3)]
    loop.put(events[:2])
    loop.put(events[2:])
    run_until(loop, lambda: len(part.carried) == 2)
    assert part.applied == events


def test_without_the_right_to_write_events_are_taken_in_and_nothing_is_decided(part):
    loop = loop_of(part, may_decide=lambda: False)
    loop.put([Deleted(Pod, "a", 1)])
    run_until(loop, lambda: bool(part.applied))
    assert part.decided == 0
    assert part.followed


def test_whoever_begins_to_decide_has_taken_in_all_that_had_come(part):
    loop = loop_of(part)
    loop.slice_seconds = 0.0
    applied_at_first: list[int] = []
    part.decide = lambda _now, _expired, **_more: applied_at_first.append(len(part.applied)) or Decision((), False)
    for number in range(5):
        loop.put([Deleted(Pod, str(number), number)])
    run_until(loop, lambda: bool(applied_at_first))
    assert applied_at_first[0] == 5


def test_a_new_leader_under_load_decides_once_what_had_come_before_is_taken_in(part):
    # Each event that is applied brings another: the inbox is never empty.
    allowed, applied_at_first = [False], []
    loop = loop_of(part, may_decide=lambda: allowed[0])
    loop.slice_seconds = 0.0
    number = count(5)

    def apply(event) -> None:
        Recorder.apply(part, event)
        if len(part.applied) < 200:
            loop.put([Deleted(Pod, str(next(number)), 1)])
        if len(part.applied) == 20:
            # It may decide from now on, with five batches before it.
            allowed[0] = True

    part.apply = apply
    part.decide = lambda _now, _expired, **_more: applied_at_first.append(len(part.applied)) or Decision((), False)
    for index in range(5):
        loop.put([Deleted(Pod, str(index), 1)])
    run_until(loop, lambda: len(part.applied) == 204)
    assert applied_at_first[0] == 25


def test_a_leader_that_begins_again_has_taken_in_what_came_while_another_led(part):
    allowed, counted = [True], []
    loop = loop_of(part, may_decide=lambda: allowed[0])
    loop.slice_seconds = 0.0
    part.decide = lambda _now, _expired, **_more: counted.append(len(part.applied)) or Decision((), False)
    stop = threading.Event()
    thread = threading.Thread(target=loop.run, args=(stop,))
    thread.start()
    until(lambda: counted)
    allowed[0] = False
    until(lambda: part.followed)
    hold, held = threading.Event(), threading.Event()
    loop.put_call(lambda: held.set() or hold.wait(300))
    until(held.is_set)
    for index in range(10):
        loop.put([Deleted(Pod, str(index), 1)])
    allowed[0] = True
    counted.clear()
    hold.set()
    until(lambda: counted)
    stop.set()
    loop.put([])
    thread.join()
    assert counted[0] == 10


def test_while_bindings_crowd_nothing_more_is_decided(part):
    part.binding = 1000
    loop = loop_of(part)
    loop.put([Deleted(Pod, "a", 1)])
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


class Piecemeal(Recorder):
    """Something is under way for so many slices, from the first on; something happens as soon as it is."""

    def __init__(self, slices: int, meanwhile=lambda: None) -> None:
        super().__init__()
        self.slices = slices
        self.meanwhile = meanwhile

    def decide(self, now, expired, *, hurry) -> Decision:
        super().decide(now, expired, hurry=hurry)
        self.slices -= 1
        self.under_way = self.slices > 0
        if self.decided == 1:
            self.meanwhile()
        return Decision((), self.under_way)

    def follow(self) -> bool:
        self.under_way = False
        return super().follow()


def asking(loop: Loop, question, told: list[object]) -> threading.Thread:
    """A thread that asks and notes what it is told; the question is in the inbox."""

    def ask() -> None:
        try:
            told.append(loop.ask(question, timeout=300))
        except Unanswered as error:
            told.append(error)

    before = loop.waiting()
    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: loop.waiting() > before)
    return thread


def until(holds) -> None:
    give_up = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < give_up, "it does not come"
        time.sleep(0.01)


@pytest.mark.parametrize("binding", [0, 1000])
def test_events_and_questions_wait_in_the_inbox_until_what_is_under_way_is_over(binding: int) -> None:
    part, threads, told = Piecemeal(20), [], []
    loop = loop_of(part)

    def meanwhile() -> None:
        # However many bindings are under way: who brings their answers may be waiting for room in the inbox.
        part.binding = binding
        loop.put([Deleted(Pod, "a", 1), Deleted(Pod, "b", 2)])
        threads.append(asking(loop, lambda: part.order.append("asked") or 7, told))

    part.meanwhile = meanwhile
    run_until(loop, lambda: bool(told))
    threads[0].join()
    assert told == [7]
    assert part.order[:23] == ["decided"] * 20 + ["applied"] * 2 + ["asked"]
    assert part.hurries[:20] == [False] + [True] * 19


def test_whoever_must_not_decide_any_more_takes_back_what_is_under_way_before_anything_is_applied() -> None:
    part, allowed = Piecemeal(20), [True]
    loop = loop_of(part, may_decide=lambda: allowed[0])
    part.apply = lambda _event: part.order.append(f"applied, under way: {part.under_way}")

    def meanwhile() -> None:
        allowed[0] = False
        loop.put([Deleted(Pod, "a", 1)])

    part.meanwhile = meanwhile
    run_until(loop, lambda: len(part.order) > 1)
    assert part.order == ["decided", "applied, under way: False"]


def test_what_has_come_meanwhile_is_taken_in_slice_by_slice() -> None:
    part, ticks = Recorder(), count()
    # Each look at the clock costs a millisecond.
    loop = loop_of(part, clock=lambda: next(ticks) / 1000)
    events = [Deleted(Pod, str(number), number) for number in range(500)]
    loop.put(events[:400])
    loop.put(events[400:])
    part.follow = lambda: part.order.append("followed") or False
    run_until(loop, lambda: len(part.applied) == len(events))
    assert part.applied == events
    runs = "".join("x" if word == "applied" else " " for word in part.order).split()
    assert max(len(run) for run in runs) <= 10


def test_an_error_in_what_is_under_way_is_nobody_s_answer() -> None:
    part, threads, told = Piecemeal(20), [], []
    loop = loop_of(part)

    def fail(_now, _expired, *, hurry) -> Decision:
        raise KeyError("in the statement")

    def meanwhile() -> None:
        threads.append(asking(loop, lambda: 7, told))
        part.decide = fail

    part.meanwhile = meanwhile
    with pytest.raises(KeyError, match="in the statement"):
        loop.run(threading.Event())
    threads[0].join()
    assert [type(answer) for answer in told] == [Unanswered]


def test_nobody_waits_for_a_loop_that_has_ended(part) -> None:
    loop = loop_of(part)
    stop, done = threading.Event(), []
    stop.set()

    def bring() -> None:
        for number in range(1000):
            loop.put([Deleted(Pod, str(number), number)])
        done.append(True)

    thread = threading.Thread(target=bring, daemon=True)
    thread.start()
    until(lambda: loop.waiting() == 256)
    assert not done
    loop.run(stop)
    until(lambda: done)
    assert loop.waiting() == 0
    loop.put_call(lambda: None)
    with pytest.raises(Unanswered, match="about to end"):
        loop.ask(lambda: 7)


class Clocks:
    """Ten seconds pass from one look at the monotonic clock to the next; none, or some, after a look at the wall's."""

    def __init__(self, held_up: Iterable[float]) -> None:
        self.now = 0.0
        self.read_at: list[float] = []
        # The wall clock is set between two readings.
        self._walls = count(1_000_000, 7_200)
        self._held_up = iter(held_up)
        self._next = 10.0

    def monotonic(self) -> float:
        self.now += self._next
        self._next = 10.0
        return self.now

    def wall(self) -> float:
        self.read_at.append(self.now)
        self._next = next(self._held_up)
        return float(next(self._walls))


@pytest.mark.parametrize("leads", [True, False])
def test_the_wall_clock_is_read_now_and_then_with_and_without_the_right_to_decide(part, leads):
    clocks = Clocks(repeat(0.001))
    loop = loop_of(part, may_decide=lambda: leads, clock=clocks.monotonic, wall=clocks.wall)
    run_until(loop, lambda: len(part.epochs) > 3)
    first, second, *_unused = clocks.read_at
    assert 30 <= second - first <= 60
    assert part.epochs[:2] == [1_000_000 - first, 1_007_200 - second]


def test_a_reading_of_the_wall_clock_does_not_count_if_the_thread_was_held_up_meanwhile(part):
    clocks = Clocks(chain([2.0, 0.5], repeat(0.001)))
    loop = loop_of(part, clock=clocks.monotonic, wall=clocks.wall)
    run_until(loop, lambda: len(part.epochs) > 0)
    assert part.epochs[0] == 1_014_400 - clocks.read_at[2]
