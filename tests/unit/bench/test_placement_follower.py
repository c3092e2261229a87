# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What benchmarks of the daemon read from the API server's audit log."""

from __future__ import annotations

import json
from pathlib import Path

from bench._placement_cases import NAMESPACE
from bench._placement_cluster import Follower


def write(log: Path, *names: str) -> None:
    with log.open("a", encoding="utf-8") as stream:
        for name in names:
            reference = {"resource": "pods", "subresource": "binding", "namespace": NAMESPACE, "name": name}
            said = {"verb": "create", "objectRef": reference, "responseStatus": {"code": 201}}
            times = dict.fromkeys(("requestReceivedTimestamp", "stageTimestamp"), "2026-01-01T00:00:00.000000Z")
            event = {**said, **times, "stage": "ResponseComplete", "user": {"username": "daemon"}}
            stream.write(json.dumps(event) + "\n")


def test_no_binding_is_missed_where_the_api_server_begins_a_new_log(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    write(log, "before-us")
    follower = Follower(log)
    write(log, "a", "b")
    assert follower.read() == 2
    write(log, "c")
    log.rename(tmp_path / "audit-2026.log")
    assert follower.read() == 1, "it has no new name yet"
    write(log, "d")
    assert follower.read() == 1, "it is shorter than the one before"
    write(log, "e")
    follower.read()
    assert [event.name for event in follower.binds] == ["a", "b", "c", "d", "e"]
