# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events make way for bindings that wait for a connection, and for nothing else."""

from types import SimpleNamespace

from placement.app.process.wiring import Assembly
from placement.app.settings.settings import Settings
from placement.app.telemetry.logs import Log
from placement.model.messages.action import Bind


def test_events_are_held_to_a_trickle_only_where_bindings_wait_for_a_connection():
    settings = Settings(leader_election=False, binders=3)
    # Nobody starts it, so no binding is answered.
    parts = Assembly(settings, SimpleNamespace(), unique="x", log=Log())

    def bind(name: str) -> None:
        parts.carrier.carry([Bind(uid=name, namespace="n", name=name, node="n1")])

    for name in "abc":
        bind(name)
        # A steady stream of pods has always some bindings under way.
        assert parts._event_rate() == settings.events_per_second
    bind("d")
    assert parts._event_rate() == settings.events_per_second_busy
