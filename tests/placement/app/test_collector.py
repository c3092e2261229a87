# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collector comes at rest, and what the scheduler makes is freed without it."""

import gc
import weakref
from collections.abc import Iterator

import pytest
from placement.app.process import gc_control
from placement.app.process.gc_control import Rest
from placement.model.objects.pod import Phase
from placement_kit.builders import gang, mine, node
from placement_kit.simulated import Simulated


class Ring:
    """What only the collector can free."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture
def by_hand() -> Iterator[None]:
    """The collector runs only when it is called."""
    thresholds = gc.get_threshold()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.set_threshold(*thresholds)


def test_pods_that_come_and_go_leave_nothing_for_the_collector(by_hand: None) -> None:
    simulated = Simulated()
    simulated.see(*(node(f"n{index}") for index in range(4)))

    def generation(number: int) -> None:
        simulated.see(gang(f"g{number}", 2))
        names = [f"p{number}-{index}" for index in range(4)]
        simulated.see(*(mine(name, group=f"g{number}") for name in names))
        simulated.run()
        simulated.finish(*names, phase=Phase.SUCCEEDED)
        simulated.gone(*(simulated.named(name) for name in names))
        simulated.run()
        simulated.actions.clear()

    generation(0)
    gc.collect()
    for number in range(1, 10):
        generation(number)
    assert gc.collect() == 0


def test_it_is_due_after_a_rest_and_where_it_is_worth_it(by_hand: None, monkeypatch: pytest.MonkeyPatch) -> None:
    now, old = 0.0, 9
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, old))
    rest = Rest(lambda: now)
    assert not rest.due(idle=True)
    now = 3.0
    assert not rest.due(idle=False)
    assert not rest.due(idle=True)
    now = 6.0
    assert rest.due(idle=True)
    old = 0
    assert not rest.due(idle=True)


def test_old_objects_are_left_alone_while_there_is_work(by_hand: None) -> None:
    gc_control.begin()
    assert gc.get_threshold()[2] > 1_000_000


def test_what_becomes_garbage_after_a_look_is_freed_within_an_hour_of_rest(by_hand: None) -> None:
    now = 0.0
    rest = Rest(lambda: now)
    ring = Ring()
    gone = weakref.ref(ring)
    rest.collect()
    del ring
    now = 3599.0
    rest.collect()
    assert gone() is not None
    now = 3600.0
    rest.collect()
    assert gone() is None
