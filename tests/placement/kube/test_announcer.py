# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events hold nothing up; where they cannot keep up, Normal ones are shed first, and none is lost without a word."""

import json
import sys
import threading
import time

import pytest
from placement.kube.transport.http1 import Answer
from placement.kube.write.dispatcher import Dispatcher
from placement.kube.write.event_recorder import EventRecorder, Limiter
from placement.kube.write.executor import Executor, Telling
from placement.kube.write.requests import Subject
from placement.kube.write.retrying_client import RetryingClient
from placement.model.messages.action import Bind
from placement_kit.fake_api import ScriptedConnection

ENDING = {
    "message": 'events "x" is forbidden: unable to create new content in namespace team because it is being terminated',
    "details": {"causes": [{"reason": "NamespaceTerminating", "message": "namespace team is being terminated"}]},
}
NO_NAMESPACE = {
    "kind": "Status",
    "code": 404,
    "reason": "NotFound",
    "message": 'namespaces "team" not found',
    "details": {"name": "team", "kind": "namespaces"},
}
NO_RIGHT = {"message": 'events is forbidden: User "system:serviceaccount:x" cannot create resource "events"'}
QUOTA = {
    "message": 'events "x" is forbidden: exceeded quota: few, requested: count/events=1',
    "details": {"causes": None},
}


class Told:
    """An announcer, and what became of what it was to tell."""

    def __init__(self, *, most: int = 1000, rate=lambda: 1e9) -> None:
        self.stop = threading.Event()
        self.lost: list[tuple[str, int]] = []
        self.shed: list[str] = []
        self.now, self.wall_clock = 1_000.0, 1_000_000.0
        self.announcer = EventRecorder(
            Limiter(rate),
            stop=self.stop,
            controller="placement",
            instance="here",
            lost=lambda telling, status: self.lost.append((telling.subject.name, status)),
            shed=lambda telling: self.shed.append(telling.subject.name),
            most=most,
            clock=lambda: self.wall_clock,
            monotonic=lambda: self.now,
        )

    def tell(self, *names: str, warning: bool = False, text: str = "it is so") -> None:
        for name in names:
            subject = Subject(api_version="v1", kind="Pod", namespace="team", name=name, uid=name)
            self.announcer.tell(Telling(subject, "Reason", text, "Scheduling", warning=warning))

    def sender(self, connection) -> RetryingClient:
        return RetryingClient(connection, stop=self.stop, may_write=lambda: True, observe=lambda *_words: None)

    def arrived(self) -> list[str]:
        """The names of those that are told, in their order, to the end."""
        connection = ScriptedConnection(*[(201, b"")] * len(self.announcer))
        self.announcer.finish()
        self.announcer.run(self.sender(connection))
        return [json.loads(body)["regarding"]["name"] for _method, _path, body in connection.asked]


@pytest.mark.parametrize(
    ("answer", "told", "lost"),
    [
        ((201, b""), 1, []),
        ((409, b""), 1, []),
        ((404, NO_NAMESPACE), 1, []),
        ((404, b"<html>not found</html>"), 0, [404]),
        ((403, ENDING), 1, []),
        ((403, NO_RIGHT), 0, [403]),
        ((403, QUOTA), 0, [403]),
        ((403, b"forbidden"), 0, [403]),
        ((422, b""), 0, [422]),
    ],
)
def test_an_event_is_told_or_lost_with_a_word(answer, told, lost):
    case = Told()
    case.tell("it", warning=True)
    case.announcer.finish()
    case.announcer.run(case.sender(ScriptedConnection(answer)))
    assert (case.announcer.told, case.lost) == (told, [("it", status) for status in lost])


def test_warnings_go_first_and_each_kind_in_its_order():
    case = Told()
    case.tell("a", "b")
    case.tell("c", "d", warning=True)
    case.tell("e")
    assert case.arrived() == ["c", "d", "a", "b", "e"]


def test_where_there_is_no_room_the_oldest_normal_one_is_shed_and_no_warning():
    case = Told(most=4)
    case.tell("a", "b")
    case.tell("c", "d", warning=True)
    case.tell("e")
    case.tell("f", "g", warning=True)
    # Nothing is left to shed before it.
    case.tell("h")
    assert case.shed == ["a", "b", "e", "h"]
    assert case.arrived() == ["c", "d", "f", "g"]


def test_memory_is_bounded_where_nothing_but_warnings_waits():
    case = Told(most=100)
    case.tell(*(str(number) for number in range(150)), warning=True, text="\N{GRINNING FACE}" + "x" * 100_000)
    assert case.shed == [str(number) for number in range(50)]
    assert len(case.announcer) == 100
    # README.md says how much one takes; a text takes most where a single character needs four bytes.
    waiting = case.announcer._next()
    assert sys.getsizeof(waiting.telling.text) < 4500


def test_half_of_the_room_taken_calls_for_more_than_a_trickle():
    case = Told(most=10)
    case.tell("a", "b", "c", "d")
    assert not case.announcer.behind
    case.tell("e", warning=True)
    assert case.announcer.behind


def test_an_event_that_has_waited_for_a_minute_calls_for_more_than_a_trickle():
    case = Told()
    case.tell("a")
    case.now += 60
    case.tell("b")
    assert not case.announcer.behind
    case.now += 1
    assert case.announcer.behind
    assert case.arrived() == ["a", "b"]
    assert not case.announcer.behind


def test_a_step_of_the_wall_clock_makes_no_event_late():
    case = Told()
    case.tell("a")
    case.wall_clock += 3600
    assert not case.announcer.behind


@pytest.mark.parametrize(("seconds", "behind"), [(300, False), (1, True)])
def test_events_that_wait_after_an_outage_go_on_at_a_trickle_for_a_minute(seconds, behind):
    case = Told()

    class Api:
        """It answers the first Event after an outage, and then all stops."""

        def request(self, *_words, **_more) -> Answer:
            case.now += seconds
            case.stop.set()
            return Answer(201, b"{}")

    case.tell("a", "b")
    case.now += 60
    assert not case.announcer.behind
    case.announcer.run(case.sender(Api()))
    assert (len(case.announcer), case.announcer.behind) == (1, behind)
    case.now += 60
    assert case.announcer.behind is behind
    case.now += 1
    assert case.announcer.behind


def test_bindings_go_on_while_no_event_gets_through():
    case = Told(most=50)
    bound = []

    class Api:
        def request(self, _method, path, *_rest, **_more) -> Answer:
            bound.append(path)
            return Answer(201, b"{}")

    carrier = Dispatcher(
        lambda: Executor(case.sender(Api()), tell=case.announcer.tell, refused=lambda *_words: None),
        lambda _events: None,
        binders=4,
        crashed=lambda error: pytest.fail(str(error)),
    )
    carrier.carry(Bind(uid=str(number), namespace="n", name=str(number), node="n1") for number in range(500))
    carrier.start()
    # No thread tells anything, and yet all come to their end.
    carrier.finish(time.monotonic() + 300)
    assert (len(bound), carrier.binding) == (500, 0)
    assert (len(case.announcer), len(case.shed)) == (50, 450)


def test_threads_that_wait_for_something_to_tell_end_at_the_finish():
    case = Told()
    threads = [threading.Thread(target=case.announcer.run, args=(case.sender(None),)) for _unused in range(4)]
    for thread in threads:
        thread.start()
    case.announcer.finish()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()


def test_nothing_more_is_told_once_everything_stops():
    case = Told()
    case.tell("a", "b", "c")
    case.stop.set()
    case.announcer.finish()
    case.announcer.run(case.sender(ScriptedConnection()))
    assert (case.announcer.told, len(case.announcer)) == (0, 3)
