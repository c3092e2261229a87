# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the demo says of its pod and of its times."""

from __future__ import annotations

import json
from typing import Any

import pytest
from demo.pod import pod, pod_state
from demo.show import Report


def waiting(reason: str) -> dict[str, Any]:
    return {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": reason}}}]}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}, "Succeeded"),
        ({"phase": "Pending"}, "Pending"),
        (waiting("ContainerCreating"), "Pending"),
        (waiting("ErrImageNeverPull"), "ErrImageNeverPull"),
        ({}, "Unknown"),
    ],
)
def test_a_pods_state_is_its_phase_or_what_it_waits_for(status: dict[str, Any], state: str) -> None:
    assert pod_state(json.dumps({"status": status})) == state


def test_the_pod_is_placed_by_the_scheduler_and_pulls_nothing() -> None:
    spec = pod("n3")["spec"]

    assert spec["nodeSelector"] == {"kubernetes.io/hostname": "n3"}
    assert "nodeName" not in spec
    assert {container["imagePullPolicy"] for container in spec["containers"]} == {"Never"}


def test_the_table_has_every_step_with_its_result_and_the_sum() -> None:
    report = Report(rows=[("Slurm runs a job", "n1 n2", 1.25), ("Down", "nothing left", 2.0)])

    assert report.table().splitlines() == [
        "Slurm runs a job     1.2 s  n1 n2",
        "Down                 2.0 s  nothing left",
        "together             3.2 s",
    ]
