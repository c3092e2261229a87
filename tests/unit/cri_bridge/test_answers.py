# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answers that cri_bridge gives again: for how long, and what makes them void."""

from __future__ import annotations

import pytest
from cri_bridge.cache.answer_cache import MOST_BYTES, SETTLED_SECONDS, AnswerCache
from cri_bridge.wire.methods import BY_NAME, METHODS, Changes, Kept

LIST, STATUS, IMAGES, VERSION = (BY_NAME[n] for n in ("ListContainers", "ContainerStatus", "ListImages", "Version"))
SECONDS = 1.0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> AnswerCache:
    return AnswerCache(seconds=SECONDS, clock=clock)


def test_an_answer_is_given_again_for_its_seconds_and_to_the_same_question_only(
    cache: AnswerCache, clock: Clock
) -> None:
    cache.keep(cache.asked(LIST, b"all"), b"answer", settled=False)
    clock.now += 0.99
    assert cache.given(LIST, b"all") == b"answer"
    assert cache.given(LIST, b"running") is None
    assert cache.given(STATUS, b"all") is None
    clock.now += 0.01
    assert cache.given(LIST, b"all") is None


@pytest.mark.parametrize(
    ("name", "settled", "lasts"),
    [
        ("ListContainers", True, SETTLED_SECONDS),
        ("PodSandboxStatus", True, SETTLED_SECONDS),
        ("ListContainers", False, SECONDS),
        ("Version", True, SECONDS),
        ("ListContainerStats", True, SECONDS),
        ("ImageFsInfo", True, SECONDS),
    ],
)
def test_only_what_is_settled_lasts(name: str, settled: bool, lasts: float, cache: AnswerCache, clock: Clock) -> None:
    method = BY_NAME[name]
    cache.keep(cache.asked(method, b""), b"answer", settled=settled)
    clock.now += lasts - 0.001
    assert cache.given(method, b"") == b"answer"
    clock.now += 0.002
    assert cache.given(method, b"") is None


def test_a_longer_time_of_the_option_counts_for_all(clock: Clock) -> None:
    cache = AnswerCache(seconds=2 * SETTLED_SECONDS, clock=clock)
    cache.keep(cache.asked(LIST, b""), b"answer", settled=True)
    clock.now += 2 * SETTLED_SECONDS - 1
    assert cache.given(LIST, b"") == b"answer"


@pytest.mark.parametrize(("changes", "gone", "stays"), [(Changes.STATE, LIST, IMAGES), (Changes.IMAGES, IMAGES, LIST)])
def test_a_call_makes_void_what_it_changes_when_it_begins_and_when_it_ends(
    changes: Changes, gone: object, stays: object, cache: AnswerCache
) -> None:
    for step in (lambda: cache.begin(changes), lambda: cache.end(changes, well=True)):
        for method in (LIST, IMAGES):
            cache.keep(cache.asked(method, b""), b"answer", settled=False)
        step()
        assert cache.given(gone, b"") is None  # type: ignore[arg-type]
        assert cache.given(stays, b"") == b"answer"  # type: ignore[arg-type]


def test_an_answer_to_a_question_from_before_a_change_is_not_kept(cache: AnswerCache) -> None:
    asked = cache.asked(LIST, b"")
    cache.forget(Changes.STATE)
    cache.keep(asked, b"before the change", settled=True)
    assert cache.given(LIST, b"") is None


def test_an_answer_in_the_middle_of_a_change_does_not_last(cache: AnswerCache, clock: Clock) -> None:
    cache.begin(Changes.STATE)
    cache.keep(cache.asked(LIST, b""), b"answer", settled=True)
    assert cache.given(LIST, b"") == b"answer"
    clock.now += SECONDS
    assert cache.given(LIST, b"") is None
    cache.end(Changes.STATE, well=True)
    cache.keep(cache.asked(LIST, b""), b"answer", settled=True)
    clock.now += SECONDS
    assert cache.given(LIST, b"") == b"answer"


def test_nothing_lasts_after_a_change_that_failed_since_the_runtime_may_still_be_at_it(
    cache: AnswerCache, clock: Clock
) -> None:
    cache.begin(Changes.STATE)
    cache.end(Changes.STATE, well=False)
    cache.keep(cache.asked(LIST, b""), b"answer", settled=True)
    clock.now += SECONDS
    assert cache.given(LIST, b"") is None
    clock.now += SETTLED_SECONDS
    cache.keep(cache.asked(LIST, b""), b"answer", settled=True)
    clock.now += SECONDS
    assert cache.given(LIST, b"") == b"answer"


def test_after_the_runtime_went_away_nothing_is_left_and_nothing_from_before_is_kept(cache: AnswerCache) -> None:
    asked = cache.asked(VERSION, b"")
    for method in (LIST, IMAGES, VERSION):
        cache.keep(cache.asked(method, b""), b"answer", settled=True)
    cache.clear()
    cache.keep(asked, b"of before", settled=True)
    assert [cache.given(method, b"") for method in (LIST, IMAGES, VERSION)] == [None] * 3
    assert len(cache) == 0


def test_without_seconds_nothing_is_kept(clock: Clock) -> None:
    cache = AnswerCache(seconds=0, clock=clock)
    cache.keep(cache.asked(LIST, b""), b"answer", settled=True)
    assert cache.given(LIST, b"") is None


def test_answers_take_a_bounded_memory_and_old_ones_make_room(cache: AnswerCache, clock: Clock) -> None:
    quarter = bytes(MOST_BYTES // 4 - 1)
    for number in range(8):
        cache.keep(cache.asked(LIST, bytes([number])), quarter, settled=False)
    assert len(cache) == 4
    clock.now += SECONDS
    cache.keep(cache.asked(LIST, b"9"), quarter, settled=False)
    assert len(cache) == 1
    assert cache.given(LIST, b"9") == quarter


def test_every_method_that_may_change_something_makes_answers_void_and_is_never_kept() -> None:
    changing = {method.name: method.changes for method in METHODS if method.changes is not Changes.NOTHING}
    assert changing == {
        "RunPodSandbox": Changes.STATE,
        "StopPodSandbox": Changes.STATE,
        "RemovePodSandbox": Changes.STATE,
        "CreateContainer": Changes.STATE,
        "StartContainer": Changes.STATE,
        "StopContainer": Changes.STATE,
        "RemoveContainer": Changes.STATE,
        "UpdateContainerResources": Changes.STATE,
        "UpdateRuntimeConfig": Changes.STATE,
        "PullImage": Changes.IMAGES,
        "RemoveImage": Changes.IMAGES,
    }
    assert all(BY_NAME[name].kept is Kept.NOT for name in changing)
    # The kubelet must see a runtime that is gone at once, and probes and streams are no state.
    assert all(BY_NAME[name].kept is Kept.NOT for name in ("Status", "ExecSync", "Exec", "Attach", "PortForward"))
