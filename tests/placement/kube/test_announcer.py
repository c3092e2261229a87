# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No Event is lost without a word."""

import threading

import pytest
from placement.kube.announcer import Announcer, Limiter
from placement.kube.performer import Telling
from placement.kube.requests import Subject
from placement.kube.sender import Sender
from placement_kit.fake_api import ScriptedConnection

ENDING = {
    "message": 'events "x" is forbidden: unable to create new content in namespace team because it is being terminated',
    "details": {"causes": [{"reason": "NamespaceTerminating", "message": "namespace team is being terminated"}]},
}
NO_RIGHT = {"message": 'events is forbidden: User "system:serviceaccount:x" cannot create resource "events"'}
QUOTA = {
    "message": 'events "x" is forbidden: exceeded quota: few, requested: count/events=1',
    "details": {"causes": None},
}


@pytest.mark.parametrize(
    ("answer", "told", "lost"),
    [
        ((201, b""), 1, []),
        ((409, b""), 1, []),
        ((404, b""), 1, []),
        ((403, ENDING), 1, []),
        ((403, NO_RIGHT), 0, [403]),
        ((403, QUOTA), 0, [403]),
        ((403, b"forbidden"), 0, [403]),
        ((422, b""), 0, [422]),
    ],
)
def test_an_event_is_told_or_lost_with_a_word(answer, told, lost):
    stop, statuses = threading.Event(), []
    announcer = Announcer(
        Limiter(lambda: 100.0),
        stop=stop,
        controller="placement",
        instance="here",
        lost=lambda _telling, status: statuses.append(status),
    )
    subject = Subject(api_version="v1", kind="Pod", namespace="team", name="it", uid="u")
    announcer.tell(Telling(subject, "FailedScheduling", "no room", "Scheduling"))
    announcer.finish()
    announcer.run(Sender(ScriptedConnection(answer), stop=stop, may_write=lambda: True, observe=lambda *_words: None))
    assert (announcer.told, statuses) == (told, lost)
