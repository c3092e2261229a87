# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work in steps: a slice ends at the first step after its time, and the next slice goes on there."""

from collections.abc import Iterator

import pytest
from placement.model.slicing import SliceBudget, SlicedWork, Steps, finish, paced, pauses, to_the_end


def counted(done: list[int], number: int) -> Steps[str]:
    try:
        for index in range(number):
            done.append(index)
            yield
    except GeneratorExit:
        done.append(-1)
        raise
    return "all"


def after(steps: int) -> Iterator[bool]:
    yield from [False] * (steps - 1)
    yield True


def test_a_slice_ends_with_the_step_in_which_it_expires_and_the_next_slice_goes_on() -> None:
    done: list[int] = []
    work = SlicedWork(counted(done, 5))
    first = after(3)
    assert not work.advance(lambda: next(first))
    assert done == [0, 1, 2]
    assert work.advance(lambda: False)
    assert done == [0, 1, 2, 3, 4]


def test_work_that_expires_at_its_last_step_is_done_only_in_the_next_slice() -> None:
    work = SlicedWork(counted([], 1))
    assert not work.advance(lambda: True)
    assert work.advance(lambda: True)


def test_work_that_is_given_up_can_put_back_what_it_has_taken() -> None:
    done: list[int] = []
    work = SlicedWork(counted(done, 5))
    work.advance(lambda: True)
    work.close()
    assert done == [0, -1]


def test_all_steps_at_once_give_the_answer() -> None:
    assert finish(counted([], 3)) == "all"


@pytest.mark.parametrize("at_once", [1, 2, 5, 7])
def test_a_step_ends_with_every_last_item_of_its_number(at_once: int) -> None:
    ends = [item for item, pause in paced(range(1, 16), at_once) if pause]
    assert ends == [number for number in range(1, 16) if number % at_once == 0]


def test_pauses_never_end() -> None:
    pacing = pauses(3)
    assert [next(pacing) for _unused in range(300)].count(True) == 100


def test_a_budget_is_due_once_for_what_all_searches_have_spent() -> None:
    budget = SliceBudget()
    budget.spend(255)
    assert not budget.is_due()
    budget.spend(1)
    assert budget.is_due()
    assert not budget.is_due()


def test_work_that_must_come_to_its_end_does_the_rest_at_once_when_it_is_closed() -> None:
    done: list[int] = []

    def bounded() -> Steps[None]:
        for index in range(4):
            done.append(index)
            yield

    work = SlicedWork(to_the_end(bounded()))
    assert not work.advance(lambda: True)
    assert done == [0]
    work.close()
    assert done == [0, 1, 2, 3]
    assert finish(to_the_end(bounded())) is None
    assert done == [0, 1, 2, 3] * 2
