# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leader election with a clock of our own: never two at once, as long as clocks run at nearly one rate."""

import json
import threading
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placement.kube.leader_election import LeaderElection, Terms
from placement.kube.transport.http1 import Answer, NoAnswer


class LeaseServer:
    """One Lease, with the API's compare-and-set."""

    def __init__(self) -> None:
        self.lease: dict | None = None
        self.version = 0
        self.down = False
        # A write is carried out and its answer lost.
        self.loses_answers = False
        # What happens while a write is under way.
        self.meanwhile: Callable[[], None] = lambda: None

    def close(self) -> None:
        pass

    def request(self, method: str, path: str, body: bytes = b"", *, content_type: str = "") -> Answer:
        if self.down:
            raise NoAnswer("down", sent=False)
        if method == "GET":
            return Answer(404, b"") if self.lease is None else Answer(200, json.dumps(self.lease).encode())
        self.meanwhile()
        wanted = json.loads(body)
        known = self.lease["metadata"]["resourceVersion"] if self.lease else None
        if wanted["metadata"].get("resourceVersion") != known:
            return Answer(409, b"")
        self.version += 1
        wanted["metadata"]["resourceVersion"] = str(self.version)
        self.lease = wanted
        if self.loses_answers:
            raise NoAnswer("lost", sent=True)
        return Answer(200, b"{}")


class Candidate:
    """A daemon that looks at the lease when it is told to."""

    def __init__(self, name: str, server: LeaseServer) -> None:
        self.now = 0.0
        self.leadership = LeaderElection(
            Terms(identity=name),
            server,
            stop=threading.Event(),
            clock=lambda: self.now,
            log=lambda *_words: None,
        )

    def look(self) -> None:
        if not self.leadership.lost:
            self.leadership.try_once()

    @property
    def leads(self) -> bool:
        return self.leadership.may_write()


def test_the_first_takes_the_lease_and_the_second_waits_its_whole_time():
    server = LeaseServer()
    first, second = Candidate("a", server), Candidate("b", server)
    first.look()
    second.look()
    assert (first.leads, second.leads) == (True, False)
    second.now = 14.9
    second.look()
    assert not second.leads
    second.now = 15.1
    second.look()
    assert second.leads


def test_who_cannot_renew_stops_before_anybody_else_may_begin():
    server = LeaseServer()
    first = Candidate("a", server)
    first.look()
    server.down = True
    first.now = 9.9
    first.look()
    assert first.leads
    first.now = 10.0
    assert not first.leads


def test_who_finds_another_in_its_place_does_not_come_back():
    server = LeaseServer()
    first, second = Candidate("a", server), Candidate("b", server)
    first.look()
    second.look()
    second.now = 15.1
    second.look()
    first.look()
    assert first.leadership.lost
    assert not first.leads


def test_a_renewal_whose_answer_was_lost_gives_no_time():
    server = LeaseServer()
    first = Candidate("a", server)
    first.look()
    server.loses_answers = True
    first.now = 8.0
    first.look()
    first.now = 10.0
    assert not first.leads


def test_a_lease_that_was_given_back_is_taken_at_once():
    server = LeaseServer()
    first, second = Candidate("a", server), Candidate("b", server)
    first.look()
    second.look()
    first.leadership.release()
    second.look()
    assert (first.leads, second.leads) == (False, True)


def test_a_renewal_that_is_sent_after_the_deadline_revives_nothing():
    server = LeaseServer()
    first = Candidate("a", server)
    first.look()
    server.down = True
    for first.now in (2.0, 4.0, 6.0, 8.0):
        first.look()
    server.down = False
    # The fifth try comes a little late, and no thread has asked for the right to write meanwhile.
    first.now = 10.05
    first.look()
    assert (first.leads, first.leadership.lost) == (False, True)
    assert server.version == 1


@pytest.mark.parametrize("another_asks", [True, False])
def test_a_renewal_that_is_answered_after_the_deadline_revives_nothing(another_asks):
    server = LeaseServer()
    first = Candidate("a", server)
    first.look()
    first.now = 9.9

    def late() -> None:
        first.now = 10.1
        if another_asks:
            assert not first.leads

    server.meanwhile = late
    first.look()
    assert server.version == 2
    assert (first.leads, first.leadership.lost) == (False, True)


def test_a_lapse_that_one_thread_has_seen_is_one_for_all():
    server = LeaseServer()
    first = Candidate("a", server)
    first.look()
    first.now = 10.0
    assert not first.leads
    # A clock that another thread has read a little earlier.
    first.now = 9.9
    assert not first.leads
    assert first.leadership.lost


def test_a_lease_that_has_lapsed_is_given_back_so_that_the_next_one_need_not_wait():
    server = LeaseServer()
    first, second = Candidate("a", server), Candidate("b", server)
    first.look()
    first.now = 10.0
    assert not first.leads
    first.leadership.release()
    second.look()
    assert second.leads


def test_the_lease_of_another_is_left_alone_at_the_end():
    server = LeaseServer()
    first, second = Candidate("a", server), Candidate("b", server)
    first.look()
    second.look()
    second.now = first.now = 15.1
    second.look()
    first.leadership.release()
    assert second.leads
    second.look()
    assert second.leads


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from(["look", "ask", "pause", "cut", "mend", "lose", "keep"]), st.floats(0.0, 9.0)
    ),
    max_size=60,
)


@settings(max_examples=2 * settings().max_examples)
@given(steps=STEPS, late=st.floats(0.0, 12.0))
def test_the_right_to_write_never_comes_back_in_any_history(steps, late):
    server = LeaseServer()
    candidates = [Candidate(name, server) for name in "abc"]
    asked: list[list[bool]] = [[], [], []]

    def ask() -> None:
        for candidate, answers in zip(candidates, asked, strict=True):
            answers.append(candidate.leads)

    def meanwhile() -> None:
        for candidate in candidates:
            candidate.now += late
        ask()

    server.meanwhile = meanwhile
    for index, step, seconds in steps:
        match step:
            case "look":
                candidates[index].leadership.try_once()
            case "ask":
                ask()
            case "pause":
                for candidate in candidates:
                    candidate.now += seconds
            case "cut" | "mend":
                server.down = step == "cut"
            case "lose" | "keep":
                server.loses_answers = step == "lose"
    ask()
    for answers in asked:
        changes = sum(before != after for before, after in zip([False, *answers], answers, strict=False))
        assert changes <= 2


@settings(max_examples=2 * settings().max_examples)
@given(steps=STEPS, offsets=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3))
def test_no_two_lead_at_once_in_any_history(steps, offsets):
    server = LeaseServer()
    candidates = [Candidate(name, server) for name in "abc"]
    for candidate, offset in zip(candidates, offsets, strict=True):
        candidate.now = offset
    for index, step, seconds in steps:
        match step:
            case "look":
                candidates[index].look()
            case "pause":
                for candidate in candidates:
                    candidate.now += seconds
            case "cut":
                server.down = True
            case "mend":
                server.down = False
            case "lose":
                server.loses_answers = True
            case "keep":
                server.loses_answers = False
        assert sum(candidate.leads for candidate in candidates) <= 1
