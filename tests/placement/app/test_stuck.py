# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A daemon whose loop hangs ends, so that another takes over; one that only waits does not."""

import gc
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import pytest
from placement.app.process import daemon, gc_control
from placement.app.process.health import LOOKS, Stuck, Watchdog
from placement.app.process.wiring import Assembly
from placement.app.settings.settings import Settings
from placement.app.telemetry.logs import Log


@pytest.fixture
def parts() -> Assembly:
    """A daemon's parts that have nothing to talk to."""
    made = Assembly(Settings(leader_election=False), SimpleNamespace(), unique="x", log=Log())
    made.loop.beat = time.monotonic() - 31
    return made


class Hanging:
    """A daemon whose loop hangs until the process would end, and the codes with which it would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Callable[..., None]) -> None:
        self.over, self.codes = threading.Event(), []
        monkeypatch.setattr(daemon, "Credentials", lambda _path: SimpleNamespace())
        monkeypatch.setattr(daemon, "_LEAVE_SECONDS", 0.01)
        monkeypatch.setattr(daemon, "_LAST_WORD_SECONDS", 0.01)
        monkeypatch.setattr(daemon, "Watchdog", partial(Watchdog, looks=2))
        monkeypatch.setattr(gc_control, "begin", lambda: None)
        monkeypatch.setattr(Assembly, "start", lambda parts: parts.loop.put_call(lambda: self._hang_in(parts)))
        monkeypatch.setattr(Assembly, "finish", lambda _parts, **_unused: None)
        monkeypatch.setattr(signal, "signal", lambda *_unused: None)
        monkeypatch.setattr(gc, "callbacks", [])
        monkeypatch.setattr(sys, "setswitchinterval", lambda _seconds: None)
        log = SimpleNamespace(info=lambda *_unused, **_more: None, error=error)
        settings = Settings(leader_election=False, listen="", socket="")
        self.daemon = daemon.Daemon(settings, None, log, end=self._end)

    def _end(self, code: int) -> None:
        self.codes.append(code)
        self.over.set()

    def _hang_in(self, parts: Assembly) -> None:
        parts.loop.beat = time.monotonic() - 31
        self.over.wait(60)


def test_a_loop_that_hangs_ends_the_process_with_an_error(monkeypatch):
    logged = []
    made = Hanging(monkeypatch, lambda text, **more: logged.append((text, more["error"])))
    monkeypatch.setattr(daemon, "_LAST_WORD_SECONDS", 60)
    assert made.daemon.run() == daemon.CRASHED
    assert made.codes == [daemon.CRASHED]
    assert logged[0][0] == "ended by an error"
    assert "Stuck: the loop has not turned for" in logged[0][1]


def test_a_loop_that_hangs_in_the_log_ends_the_process_all_the_same(monkeypatch):
    ended_meanwhile: list[bool] = []
    made = Hanging(monkeypatch, lambda *_unused, **_more: ended_meanwhile.append(made.over.wait(30)))
    assert made.daemon.run() == daemon.CRASHED
    assert made.codes[0] == daemon.CRASHED
    assert ended_meanwhile[0]


def test_settings_that_the_loop_has_no_room_for_are_taken_later(monkeypatch):
    made = Hanging(monkeypatch, lambda *_unused, **_more: None).daemon
    monkeypatch.setattr(daemon, "_ROOM_SECONDS", 0.01)
    new = Settings(leader_election=False, listen="", socket="", slice_milliseconds=3)
    found = [new, None]
    made._watched = SimpleNamespace(changed=lambda: found.pop(0))
    loop = made._parts.loop
    while loop.put_call(lambda: None, 0.0):
        pass
    made._reload()
    assert made._parts.settings is not new
    while loop._next(0.0):
        pass
    made._reload()
    assert made._parts.settings is new
    assert loop.waiting() == 1
    found.append(None)
    made._reload()
    assert loop.waiting() == 1


def test_a_machine_that_stood_still_gives_the_loop_time_to_turn(parts):
    dog = Watchdog(parts)
    for _unused in range(LOOKS - 1):
        assert not dog.look()
    parts.loop.beat = time.monotonic() + 600
    assert dog.look()
    parts.loop.beat = time.monotonic() - 31
    for _unused in range(LOOKS - 1):
        dog.look()
    assert parts.switches.crash is None
    dog.look()
    assert isinstance(parts.switches.crash, Stuck)
    assert parts.switches.closing.is_set()
