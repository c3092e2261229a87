# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has not seen everything, or has heard nothing for long, decides nothing and says so; a good word is not given."""

import re
import time
import urllib.error
import urllib.request
from types import SimpleNamespace

import pytest
from placement.app.endpoints.web import Web
from placement.app.process.health import healthy, ready
from placement.app.process.wiring import STALE_SECONDS, Assembly
from placement.app.settings.settings import Settings
from placement.app.telemetry.logs import Log

# The machine may stand still: what has just been heard of must not become old while a test looks.
STILL_SECONDS = 600.0


@pytest.fixture
def parts() -> Assembly:
    """A daemon that nobody has started, which has just heard of everything."""
    made = Assembly(Settings(leader_election=False), SimpleNamespace(), unique="x", log=Log())
    for reflector in made.reflectors:
        reflector.health.synced, reflector.health.heard = True, time.monotonic() + STILL_SECONDS
    made.loop.beat = time.monotonic() + STILL_SECONDS
    return made


def health_of(parts: Assembly, name: str):
    return next(item.health for item in parts.reflectors if item.source.name == name)


def test_who_hears_of_everything_decides(parts):
    assert parts.may_decide()
    assert ready(parts) == (True, "ok\n")
    assert healthy(parts) == (True, "ok\n")


@pytest.mark.parametrize("name", ["nodes", "pods", "csinodes"])
def test_a_source_that_is_silent_stops_decisions_until_it_is_heard_again(parts, name):
    health_of(parts, name).heard = time.monotonic() - STALE_SECONDS - 1
    assert parts.silent() == [name]
    assert not parts.may_decide()
    assert ready(parts) == (False, f"{name}: silent\n")
    # Bindings that are on their way may end, and the process is not to be restarted.
    assert parts.may_write()
    assert healthy(parts)[0]
    health_of(parts, name).heard = time.monotonic() + STILL_SECONDS
    assert parts.may_decide()


def test_an_api_that_is_not_served_is_not_missed(parts):
    health = health_of(parts, "csinodes")
    health.absent, health.heard = True, 0.0
    assert parts.may_decide()
    assert ready(parts)[0]


def test_what_has_not_been_listed_is_named_with_its_error(parts):
    health_of(parts, "nodes").synced = health_of(parts, "pods").synced = False
    health_of(parts, "pods").error = "503: no"
    assert not parts.may_decide()
    assert ready(parts) == (False, "nodes: listing\npods: 503: no\n")


def test_a_loop_that_does_not_turn_is_not_healthy(parts):
    parts.loop.beat = time.monotonic() - 31
    good, said = healthy(parts)
    assert not good
    assert re.search(r"has not turned for \d\d+ s", said)


@pytest.mark.parametrize(("good", "status"), [(True, 200), (False, 503)])
def test_a_bad_answer_is_one_for_machines_too(good, status):
    web = Web(("127.0.0.1", 0), {"/readyz": lambda: (good, "so it is\n")})
    web.start()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{web.port}/readyz", timeout=300) as answer:
            found = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            found = error.code, error.read()
    finally:
        web.close()
    assert found == (status, b"so it is\n")
