# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that answers 429 for a minute, and connections that carry nothing for minutes: nothing is lost."""

import json
import threading
from types import SimpleNamespace

import pytest
from placement.kube.leader_election import LeaderElection, Terms
from placement.kube.transport.http1 import Answer, Connection
from placement.kube.watch.reflector import Reflector, Source
from placement.kube.write.event_recorder import EventRecorder, Limiter
from placement.kube.write.executor import Executor, Telling
from placement.kube.write.requests import Subject
from placement.kube.write.retrying_client import RetryingClient
from placement.model.messages.action import Bind, Evict, PodCondition, SelectNode
from placement.model.messages.event import Relisted
from placement.model.objects.workload import Namespace
from placement_kit.fake_api import SkippingClock, answer, chunked, served

MINUTE = 60.0
TOO_MANY = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "too many requests"}
ACTIONS = [
    Bind(uid="u", namespace="team", name="pod", node="n1"),
    Evict(uid="u", namespace="team", name="pod", reason="Preempted", message="for team/other"),
    PodCondition(uid="u", namespace="team", name="pod", reason="Unschedulable", message="0/3 nodes"),
    SelectNode(uid="c", namespace="team", name="data", node="n1"),
]


class Busy:
    """An API server that answers 429 until a minute is over, and says how long to wait, or does not."""

    def __init__(self, time: SkippingClock, retry_after: float) -> None:
        self._time, self._retry_after = time, retry_after
        self.refused = self.taken = 0

    def close(self) -> None:
        pass

    def request(self, _method, path, _body=b"", **_more) -> Answer:
        if self._time.now < MINUTE:
            self.refused += 1
            return Answer(429, json.dumps(TOO_MANY).encode(), self._retry_after)
        self.taken += 1
        return Answer(200, b'{"metadata": {"resourceVersion": "9"}, "items": []}')

    def lines(self, _path):
        raise StopIteration


@pytest.fixture(params=[0.0, 1.0, 7.0, 3600.0], ids=lambda seconds: f"retry after {seconds:g}")
def busy(request) -> Busy:
    return Busy(SkippingClock(), request.param)


def sender_of(busy: Busy) -> RetryingClient:
    time = busy._time
    return RetryingClient(busy, stop=time, may_write=lambda: True, observe=lambda *_words: None, clock=lambda: time.now)


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_is_carried_out_after_a_minute_of_429_and_the_server_is_not_pressed(busy, action):
    tellings, refusals = [], []
    performer = Executor(sender_of(busy), tell=tellings.append, refused=lambda *words: refusals.append(words))
    assert performer.perform(action) == []
    assert (busy.taken, refusals) == (1, [])
    # Longer and longer apart; never sooner than asked, and asked again after a minute at the latest.
    assert busy.refused <= 1 + MINUTE / max(busy._retry_after, 60 / 20)
    assert busy._time.now < MINUTE + max(10, min(busy._retry_after, 60)) + 1


def test_an_event_is_told_after_a_minute_of_429(busy):
    lost = []
    announcer = EventRecorder(
        Limiter(lambda: 1e9), stop=busy._time, controller="c", instance="i", lost=lost.append, shed=lost.append
    )
    subject = Subject(api_version="v1", kind="Pod", namespace="team", name="pod", uid="u")
    announcer.tell(Telling(subject, "FailedScheduling", "no room", "Scheduling"))
    announcer.finish()
    announcer.run(sender_of(busy))
    assert (announcer.told, lost) == (1, [])


def test_a_list_comes_after_a_minute_of_429(busy):
    events = []
    reflector = Reflector(
        Source("namespaces", Namespace, "/api/v1/namespaces"),
        busy,
        events.extend,
        stop=busy._time,
        log=lambda *_words: None,
        refused=lambda *_words: None,
    )
    with pytest.raises((StopIteration, RuntimeError)):
        reflector.run()
    assert [type(event) for event in events] == [Relisted]
    assert reflector.health.synced


def test_a_leader_ends_for_good_where_429_outlasts_its_time(busy):
    """The election asks as often as ever, and a leader that has not renewed in time does not begin again."""
    server = SimpleNamespace(taken=False)

    def request(method, path, body=b"", **more) -> Answer:
        if not server.taken:
            server.taken = method == "POST"
            return Answer(404 if method == "GET" else 201, b"{}")
        return Busy.request(busy, method, path, body, **more)

    leadership = LeaderElection(
        Terms(identity="me"),
        SimpleNamespace(request=request),
        stop=busy._time,
        clock=lambda: busy._time.now,
        log=lambda *_words: None,
    )
    leadership.try_once()
    assert leadership.may_write()
    leadership.run()
    assert leadership.lost
    # Each two seconds, until ten are over.
    assert busy.refused == 5
    busy._time.now = MINUTE
    leadership.try_once()
    assert not leadership.may_write()


def connection_to(server, timeout: float) -> Connection:
    return Connection(SimpleNamespace(endpoint=server.endpoint), timeout=timeout)


def test_a_request_over_a_connection_that_has_become_silent_is_sent_again_over_another():
    # The first answer comes, then nothing for minutes; the server takes the next connection.
    bind, silence, done = answer(b"{}", 201), None, answer(b"{}", 201)
    with served([bind], [silence], [done]) as server:
        connection = connection_to(server, 0.2)
        sender = RetryingClient(
            connection, stop=threading.Event(), may_write=lambda: True, observe=lambda *_words: None
        )
        performer = Executor(sender, tell=lambda _telling: None, refused=lambda *_words: None)
        assert performer.perform(ACTIONS[0]) == []
        assert performer.perform(ACTIONS[0]) == []
        assert server.connections == 2
        assert [request.partition(b" ")[0] for request in server.requests] == [b"POST"] * 3
        connection.close()


def test_a_watch_over_a_connection_that_has_become_silent_goes_on_from_its_version():
    first = b'{"metadata": {"resourceVersion": "9"}, "items": []}'
    bookmark = b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "12"}}}\n'
    begun = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(bookmark), bookmark)
    with served([answer(first)], [begun, None], [chunked([bookmark])]) as server:
        stop = threading.Event()
        connection = connection_to(server, 0.2)
        reflector = Reflector(
            Source("namespaces", Namespace, "/api/v1/namespaces"),
            connection,
            lambda _events: None,
            stop=stop,
            log=lambda *_words: None,
            refused=lambda *_words: None,
        )
        thread = threading.Thread(target=reflector.run, daemon=True)
        thread.start()
        asked = server.wait_for(3)
        stop.set()
        thread.join(60)
        connection.close()
        assert b"resourceVersion=12" in asked[2]
        assert b"watch=true" in asked[2]
        assert reflector.health.relists == 1
