# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end has one deadline for all of it, and the lease is given back within it; a lapse ends the process."""

import json
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from placement.app.process import daemon, gc_control, wiring
from placement.app.process.wiring import Assembly
from placement.app.settings.settings import Settings
from placement.app.telemetry.logs import Log
from placement.kube.transport.http1 import Answer, NoAnswer
from placement.model.messages.action import Bind
from placement.model.messages.event import Unsent

# What hangs in these tests hangs for longer than any of them may take.
LONG_SECONDS = 300.0


class Api:
    """An API server for everything that a daemon asks; some of it hangs."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.lease: dict | None = None
        self.version = 1
        # Parts of paths for which no answer comes.
        self.hangs: tuple[str, ...] = ()
        self.hanging = 0
        self.bound: list[str] = []
        self.events = 0

    def connection(self, _credentials, *, timeout: float) -> "Connection":
        return Connection(self)

    def request(self, method: str, path: str, body: bytes) -> Answer:
        if any(part in path for part in self.hangs):
            self.hanging += 1
            self.over.wait(LONG_SECONDS)
            raise NoAnswer("silence", sent=True)
        if "/leases" in path:
            return self._lease(method, body)
        if path.partition("?")[0].endswith("/binding"):
            self.bound.append(path)
            return Answer(201, b"{}")
        if "/events" in path:
            self.events += 1
            return Answer(201, b"{}")
        return Answer(200, b'{"metadata": {"resourceVersion": "5"}, "items": []}')

    def _lease(self, method: str, body: bytes) -> Answer:
        if method == "GET":
            return Answer(404, b"") if self.lease is None else Answer(200, json.dumps(self.lease).encode())
        self.version += 1
        self.lease = json.loads(body)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return Answer(200, b"{}")

    @property
    def holder(self) -> str:
        return "" if self.lease is None else self.lease["spec"]["holderIdentity"]


class Connection:
    """One connection to it."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def close(self) -> None:
        pass

    def request(self, method: str, path: str, body: bytes = b"", *, content_type: str = "") -> Answer:
        return self._api.request(method, path, body)

    def lines(self, _path: str):
        yield []
        self._api.over.wait(LONG_SECONDS)


@pytest.fixture
def api(monkeypatch):
    made = Api()
    monkeypatch.setattr(wiring, "Connection", made.connection)
    yield made
    made.over.set()


def until(holds) -> None:
    give_up = time.monotonic() + LONG_SECONDS
    while not holds():
        assert time.monotonic() < give_up, "it does not come"
        time.sleep(0.01)


def leading(api: Api, **settings) -> Assembly:
    """The parts of a daemon that leads, without its loop."""
    chosen = Settings(retry_period=0.1, listen="", socket="", **settings)
    parts = Assembly(chosen, SimpleNamespace(), unique="x", log=Log("error"))
    parts.start()
    until(parts.may_decide)
    return parts


def bindings(number: int) -> tuple[Bind, ...]:
    return tuple(Bind(uid=f"u{index}", namespace="n", name=f"p{index}", node="n1") for index in range(number))


def test_a_daemon_that_ends_in_peace_gives_the_lease_back_after_its_last_write(api):
    parts = leading(api)
    parts.carrier.carry(bindings(100))
    until(lambda: parts.carrier.binding == 0)
    parts.finish(until=time.monotonic() + LONG_SECONDS)
    assert (len(api.bound), api.events, api.holder) == (100, 100, "")
    assert not parts.may_write()


# All bindings hang: joining their threads one after another for a second each would take most of a minute.
@pytest.mark.parametrize("hangs", [("/binding",), ("/binding", "/events"), ("/events",)], ids=" ".join)
def test_the_lease_is_given_back_within_the_deadline_though_other_requests_hang(api, hangs):
    parts = leading(api)
    api.hangs = hangs
    parts.carrier.carry(bindings(60))
    until(lambda: api.hanging >= (48 if "/binding" in hangs else 4))
    begun = time.monotonic()
    parts.finish(until=begun + 3)
    assert time.monotonic() - begun < 20
    assert api.holder == ""
    assert not parts.may_write()


def test_the_lease_is_given_back_as_soon_as_the_api_is_back(api):
    parts = leading(api)
    lease, tries = api._lease, []

    def away(method: str, body: bytes) -> Answer:
        tries.append(method)
        if len(tries) == 5:
            api._lease = lease
        raise NoAnswer("away", sent=False)

    until(lambda: api.holder == parts.identity)
    parts.switches.close()
    parts._electing.join(LONG_SECONDS)
    api._lease = away
    parts.finish(until=time.monotonic() + LONG_SECONDS)
    assert (len(tries), api.holder) == (5, "")


def test_the_end_comes_in_time_though_nothing_answers_any_more(api):
    parts = leading(api)
    api.hangs = ("/",)
    parts.carrier.carry(bindings(60))
    # One of them is the election's.
    until(lambda: api.hanging >= 49)
    begun = time.monotonic()
    parts.finish(until=begun + 3)
    assert time.monotonic() - begun < 20
    # It runs out by itself.
    assert api.holder == parts.identity


def test_bindings_that_wait_at_the_end_are_not_sent_and_come_back(api):
    parts = leading(api, binders=1)
    given_up = []
    parts.loop.put = given_up.extend
    api.hangs = ("/binding",)
    parts.carrier.carry(bindings(10))
    until(lambda: api.hanging == 1)
    parts.switches.close()
    api.hangs = ()
    api.over.set()
    parts.finish(until=time.monotonic() + LONG_SECONDS)
    assert api.bound == []
    assert sorted(event.action.name for event in given_up if isinstance(event, Unsent)) == sorted(
        f"p{index}" for index in range(10)
    )


# As a process of its own, which is to end at once.
START = """
import atexit, sys
from types import SimpleNamespace
from placement.app import cli
atexit.register(print, "the interpreter cleans up")
cli.Daemon = lambda *_unused: SimpleNamespace(run=lambda: print("it ran") or 3)
sys.exit(cli.main(["run", "--settings", sys.argv[1]]))
"""


def test_the_process_ends_without_taking_memory_from_threads_that_still_run(tmp_path):
    settings = tmp_path / "settings.yml"
    settings.write_text("binders: 1\n")
    done = subprocess.run(
        [sys.executable, "-c", START, str(settings)],
        env={"PYTHONPATH": ":".join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "it ran\n")


def test_a_leader_whose_lease_has_lapsed_sends_nothing_more_and_its_process_ends(api, monkeypatch):
    """What comes back of its actions is of no matter then: the next process reads everything anew."""
    monkeypatch.setattr(wiring, "Credentials", SimpleNamespace, raising=False)
    monkeypatch.setattr(daemon, "Credentials", lambda _path: SimpleNamespace())
    monkeypatch.setattr(daemon.signal, "signal", lambda *_unused: None)
    monkeypatch.setattr(daemon.gc, "callbacks", [])
    monkeypatch.setattr(daemon.sys, "setswitchinterval", lambda _seconds: None)
    monkeypatch.setattr(gc_control, "begin", lambda: None)
    logged = []
    log = SimpleNamespace(**{level: lambda text, **more: logged.append(text) for level in ("info", "warning", "error")})
    settings = Settings(retry_period=0.1, lease_duration=4, renew_deadline=2, listen="", socket="")
    made = daemon.Daemon(settings, None, log, end=lambda _code: pytest.fail("it has to end by itself"))
    parts = made._parts
    codes = []
    process = threading.Thread(target=lambda: codes.append(made.run()))
    process.start()
    until(parts.may_decide)
    # From now on renewals fail.
    renew, api._lease = api._lease, lambda _method, _body: Answer(503, b"")
    until(lambda: not parts.may_write())
    # The API is back at once: that changes nothing.
    api._lease = renew
    parts.carrier.carry(bindings(300))
    process.join(LONG_SECONDS)
    assert codes == [daemon.DEPOSED]
    assert api.bound == []
    assert not parts.may_write()
    assert "ended: the lease was lost" in logged
    assert api.holder == ""
