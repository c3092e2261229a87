# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A daemon whose loop hangs ends, so that another takes over; one that only waits does not."""

import gc
import signal
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from placement.app import collector, daemon
from placement.app.assembly import Assembly
from placement.app.health import LOOKS, Stuck, Watchdog
from placement.app.logs import Log
from placement.app.settings import Settings


@pytest.fixture
def parts() -> Assembly:
    """A daemon's parts that have nothing to talk to."""
    made = Assembly(Settings(leader_election=False), SimpleNamespace(), unique="x", log=Log())
    made.loop.beat = time.monotonic() - 31
    return made


def test_a_loop_that_hangs_ends_the_process_with_an_error(monkeypatch):
    hang, codes, logged = threading.Event(), [], []
    log = SimpleNamespace(
        info=lambda *_unused, **_more: None, error=lambda text, **more: logged.append((text, more["error"]))
    )

    def end(code: int) -> None:
        codes.append(code)
        hang.set()

    monkeypatch.setattr(daemon, "Credentials", lambda _path: SimpleNamespace())
    monkeypatch.setattr(daemon, "_LEAVE_SECONDS", 0.01)
    monkeypatch.setattr(collector, "begin", lambda: None)
    monkeypatch.setattr(Assembly, "start", lambda parts: parts.loop.put_call(lambda: hang_in(parts)))
    monkeypatch.setattr(Assembly, "finish", lambda _parts, **_unused: None)
    monkeypatch.setattr(signal, "signal", lambda *_unused: None)
    monkeypatch.setattr(gc, "callbacks", [])
    monkeypatch.setattr(sys, "setswitchinterval", lambda _seconds: None)

    def hang_in(parts: Assembly) -> None:
        parts.loop.beat = time.monotonic() - 31
        hang.wait(60)

    made = daemon.Daemon(Settings(leader_election=False, listen="", socket=""), None, log, end=end)
    assert made.run() == daemon.CRASHED
    assert codes == [daemon.CRASHED]
    assert logged[0][0] == "ended by an error"
    assert "Stuck: the loop has not turned for" in logged[0][1]


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


def test_who_is_held_back_by_events_is_not_stuck(parts, monkeypatch):
    monkeypatch.setattr(type(parts.announcer), "full", True)
    assert all(Watchdog(parts, looks=1).look() for _unused in range(3))
    assert parts.switches.crash is None
