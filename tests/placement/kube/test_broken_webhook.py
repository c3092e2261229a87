# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the server fails at for good, as where an admission webhook is broken, holds nobody else up."""

import itertools
import json
import queue
import threading
from time import monotonic

import pytest
from placement.kube.transport.http1 import Answer, NoAnswer
from placement.kube.write.dispatcher import Dispatcher
from placement.kube.write.event_recorder import EventRecorder, Limiter
from placement.kube.write.executor import Executor, Telling
from placement.kube.write.requests import Subject
from placement.kube.write.retrying_client import PATIENCE_SECONDS, RetryingClient
from placement.model.messages.action import Bind, Evict, GroupPhase, GroupStatus, PodCondition
from placement.model.messages.event import BindFailed, EvictRefused, StatusWriteFailed
from placement.model.objects.workload import UPSTREAM
from placement_kit.fake_api import SkippingClock

HOOK = 'Internal error occurred: failed calling webhook "old.volcano.sh": no endpoints available for service "old"'
MANY = 60
# Far more tries than half a minute has: who sends as often does not end.
ENDLESS = 2000


class Endless(Exception):
    """Sent again and again."""


class Site:
    """An API server that answers writes below a path in one way for ever, and takes all others."""

    def __init__(self, *answers: tuple[int, bytes] | None, below: str = "/namespaces/broken/") -> None:
        self._answers, self._below = itertools.cycle(answers), below
        self._lock = threading.Lock()
        self.tries: dict[str, int] = {}
        self.taken: list[str] = []

    def request(self, method: str, path: str, _body: bytes, *, content_type: str = "") -> Answer:
        name = path.rpartition("?")[0] or path
        if method == "GET":
            meta = {"uid": name.rpartition("/")[2], "name": name.rpartition("/")[2], "namespace": "broken"}
            meta["resourceVersion"] = "7"
            return Answer(200, json.dumps({"metadata": meta, "spec": {"containers": []}}).encode())
        with self._lock:
            if self._below not in path:
                self.taken.append(name)
                return Answer(201, b"{}")
            self.tries[name] = self.tries.get(name, 0) + 1
            if self.tries[name] > ENDLESS:
                raise Endless(name)
            answer = next(self._answers)
        if answer is None:
            raise NoAnswer("silence", sent=True)
        return Answer(*answer)


def broken(message: str = HOOK) -> tuple[int, bytes]:
    return 500, json.dumps({"kind": "Status", "status": "Failure", "code": 500, "message": message}).encode()


def sender(site: Site, time: SkippingClock) -> RetryingClient:
    return RetryingClient(
        site, stop=time, may_write=lambda: True, observe=lambda *_unused: None, clock=lambda: time.now
    )


def bind(name: str, namespace: str = "broken") -> Bind:
    return Bind(uid=name, namespace=namespace, name=name, node="n1")


def status(name: str, namespace: str = "broken") -> GroupStatus:
    return GroupStatus(
        uid=name,
        namespace=namespace,
        name=name,
        dialect=UPSTREAM,
        phase=GroupPhase.PENDING,
        scheduled=False,
        reason="Waits",
        message="for room",
    )


class Daemon:
    """A carrier as it is, each of its threads with a clock of its own."""

    def __init__(self, site: Site) -> None:
        self.events: queue.SimpleQueue = queue.SimpleQueue()
        self.crashes, self.refusals = [], []
        self.carrier = Dispatcher(lambda: self._performer(site), self.events.put, crashed=self.crashes.append)

    def _performer(self, site: Site) -> Executor:
        return Executor(
            sender(site, SkippingClock()),
            tell=lambda _telling: None,
            refused=lambda action, number, said: self.refusals.append((action.uid, number, said)),
        )

    def carry(self, *actions) -> list:
        self.carrier.start()
        self.carrier.carry(actions)
        self.carrier.finish(monotonic() + 300)
        assert self.crashes == []
        assert (self.carrier.binding, self.carrier.writing) == (0, 0)
        return [event for _unused in range(self.events.qsize()) for event in self.events.get()]


def test_bindings_that_fail_for_good_let_others_through_and_are_held():
    site = Site(broken())
    daemon = Daemon(site)
    events = daemon.carry(*(bind(f"p{number}") for number in range(MANY)), bind("good", "team"))
    assert site.taken == ["/api/v1/namespaces/team/pods/good/binding"]
    failed = [event for event in events if isinstance(event, BindFailed)]
    assert sorted(event.uid for event in failed) == sorted(f"p{number}" for number in range(MANY))
    assert {event.message for event in failed} == {HOOK}


def test_statuses_and_evictions_that_fail_for_good_let_others_through_and_are_told():
    site = Site(broken())
    daemon = Daemon(site)
    conditions = [PodCondition(uid=f"c{n}", namespace="broken", name="c", reason="R", message="m") for n in range(8)]
    evictions = [Evict(uid=f"e{n}", namespace="broken", name=f"e{n}", reason="R", message="m") for n in range(8)]
    good = [status(f"good{number}", "team") for number in range(32)]
    events = daemon.carry(*(status(f"g{number}") for number in range(MANY)), *conditions, *evictions, *good)
    assert len(site.taken) == len(good)
    assert {uid for uid, number, _said in daemon.refusals if number == 500} == set(
        [f"g{number}" for number in range(MANY)] + [f"c{n}" for n in range(8)] + [f"e{n}" for n in range(8)]
    )
    assert sum(isinstance(event, EvictRefused) for event in events) == len(evictions)
    # What has landed is not said again.
    lost = sorted(event.uid for event in events if isinstance(event, StatusWriteFailed))
    assert lost == sorted([f"g{number}" for number in range(MANY)] + [f"c{n}" for n in range(8)])


def test_a_status_that_lands_late_or_is_refused_for_what_it_says_is_not_lost():
    for answers in ([broken()] * 3 + [(200, b"{}")], [broken(), (422, b"{}")], [(403, b"{}")], [(404, b"{}")]):
        performer = Executor(
            sender(Site(*answers), SkippingClock()), tell=lambda _telling: None, refused=lambda *_unused: None
        )
        assert performer.perform(status("g")) == []


def test_events_that_fail_for_good_let_others_through_and_are_counted():
    site, time, lost = Site(broken()), SkippingClock(), []
    announcer = EventRecorder(
        Limiter(lambda: 1000.0),
        stop=time,
        controller="c",
        instance="i",
        lost=lambda telling, number: lost.append((telling.subject.name, number)),
        shed=lambda _telling: None,
    )
    for namespace in ["broken"] * 4 + ["team"]:
        subject = Subject(api_version="v1", kind="Pod", namespace=namespace, name=namespace, uid=namespace)
        announcer.tell(Telling(subject, "FailedScheduling", "no room", "Scheduling"))
    announcer.finish()
    announcer.run(sender(site, time))
    assert lost == [("broken", 500)] * 4
    assert announcer.told == 1


def test_it_is_patient_with_the_first_and_less_so_with_what_comes_after_it():
    time = SkippingClock()
    site = Site(broken())
    writer = sender(site, time)
    performer = Executor(writer, tell=lambda _telling: None, refused=lambda *_unused: None)
    spent = []
    for name in ("p1", "p2", "p3"):
        begun = time.now
        performer.perform(bind(name))
        spent.append(time.now - begun)
    assert PATIENCE_SECONDS <= spent[0] < 2 * PATIENCE_SECONDS
    assert max(spent[1:]) < PATIENCE_SECONDS / 5
    assert min(site.tries.values()) > 1


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([(503, b"{}")], id="overloaded"),
        pytest.param([(502, broken()[1])], id="a proxy's"),
        pytest.param([(504, broken()[1])], id="too slow"),
        pytest.param([(429, broken()[1])], id="too many"),
        pytest.param([None], id="silence"),
        pytest.param([broken(), None, None, None], id="silence in between"),
        pytest.param([(500, b"<html>")], id="not the API server"),
        pytest.param([(500, b"")], id="empty"),
        pytest.param([broken("etcdserver: request timed out")], id="its store is away"),
        pytest.param([broken("rpc error: code = Unavailable desc = transport is closing")], id="its store is gone"),
    ],
)
def test_what_everybody_suffers_from_is_waited_for_as_ever(answers):
    performer = Executor(
        sender(Site(*answers), SkippingClock()), tell=lambda _telling: None, refused=lambda *_unused: None
    )
    with pytest.raises(Endless):
        performer.perform(bind("p"))
