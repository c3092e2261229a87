# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the list of faults (tests/mutations) showed to be missing: each test here fails with a fault of that list."""

import itertools
import json
import threading
from collections.abc import Callable

import pytest
from placement.kube.leader_election import LeaderElection, Terms
from placement.kube.transport.http1 import Answer
from placement.kube.write.executor import Executor
from placement.kube.write.retrying_client import RetryingClient
from placement.model.messages.action import Bind, Evict
from placement.model.messages.event import Event, EvictRefused, Undetermined
from placement_kit.fake_api import ScriptedConnection

BIND = Bind(uid="u", namespace="team", name="pod", node="n1")
EVICT = Evict(uid="u", namespace="team", name="pod", reason="Preempted", message="for team/other")
FORBIDDEN = (403, {"kind": "Status", "message": "the right was taken away"})


class Impatient(threading.Event):
    """Every wait is over at once."""

    def wait(self, timeout: float | None = None) -> bool:
        return False


def performed(action: Bind | Evict, *script: tuple[int, dict[str, str]]) -> list[Event]:
    clock = itertools.count()
    sender = RetryingClient(
        ScriptedConnection(*script),
        stop=Impatient(),
        may_write=lambda: True,
        observe=lambda *_unused: None,
        clock=lambda: 10.0 * next(clock),
    )
    performer = Executor(sender, tell=lambda _telling: None, refused=lambda *_unused: None)
    return performer.perform(action)


def test_a_pod_that_cannot_be_read_after_its_binding_was_refused_is_not_taken_for_gone() -> None:
    # It is asked for half a minute, and then the binding is sent again in its turn.
    assert performed(BIND, *[FORBIDDEN] * 10) == [Undetermined(BIND)]


def test_a_pod_that_cannot_be_read_after_its_eviction_was_refused_is_not_taken_for_gone() -> None:
    assert performed(EVICT, *[FORBIDDEN] * 10) == [EvictRefused("u", "the right was taken away")]


class Lease:
    """One Lease with the API's compare-and-set. `before` is done between a candidate's reading and its writing."""

    def __init__(self) -> None:
        self.held = b""
        self.version = 0
        self.before: Callable[[], None] = lambda: None

    def request(self, method: str, path: str, body: bytes = b"", *, content_type: str = "") -> Answer:
        if method == "GET":
            found = Answer(200, self.held) if self.held else Answer(404, b"")
            before, self.before = self.before, lambda: None
            before()
            return found
        wanted = json.loads(body)
        known = json.loads(self.held)["metadata"]["resourceVersion"] if self.held else None
        if wanted["metadata"].get("resourceVersion") != known:
            return Answer(409, b"")
        self.version += 1
        wanted["metadata"]["resourceVersion"] = str(self.version)
        self.held = json.dumps(wanted).encode()
        return Answer(200, b"{}")

    def close(self) -> None:
        """Nothing is open."""


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0


def candidate(name: str, lease: Lease, clock: Clock) -> LeaderElection:
    return LeaderElection(
        Terms(identity=name), lease, stop=threading.Event(), clock=lambda: clock.now, log=lambda *_words: None
    )


@pytest.mark.parametrize("given_back", [False, True])
def test_of_two_that_find_the_lease_free_at_once_one_leads(given_back: bool) -> None:
    lease, clock = Lease(), Clock()
    if given_back:
        former = candidate("former", lease, clock)
        former.try_once()
        former.release()
    first, second = candidate("first", lease, clock), candidate("second", lease, clock)
    lease.before = second.try_once
    first.try_once()
    assert (first.may_write(), second.may_write()) == (False, True)


def test_the_right_to_write_counts_from_the_sending_of_a_renewal_and_not_from_its_answer() -> None:
    lease, clock = Lease(), Clock()
    first = candidate("first", lease, clock)
    first.try_once()
    slow = lease.request

    def request(method: str, path: str, body: bytes = b"", *, content_type: str = "") -> Answer:
        answer = slow(method, path, body, content_type=content_type)
        clock.now += 6.0 if method == "PUT" else 0.0
        return answer

    lease.request = request  # type: ignore[method-assign]
    clock.now = 2.0
    first.try_once()
    clock.now = 11.9
    assert first.may_write()
    clock.now = 12.1
    assert not first.may_write(), "the renewal was sent at 2 s and is good for 10 s"
