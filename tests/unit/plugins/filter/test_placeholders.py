# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a proof finds what stands for its job."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.filter.placeholders import placeholders


def pod(node: str, lease: dict[str, Any] | None, **requests: str) -> dict[str, Any]:
    annotations = (
        {} if lease is None else {"converged.hpc/lease": json.dumps({"cores": 1, "exclusive": False, **lease})}
    )
    containers = [{"resources": {"requests": requests} if requests else {}}]
    return {"metadata": {"annotations": annotations}, "spec": {"nodeName": node, "containers": containers}}


def test_of_all_pods_those_of_the_job_that_stay_count() -> None:
    leaving = pod("n3", {"job": "1.srv"}, cpu="1")
    leaving["metadata"]["deletionTimestamp"] = "now"
    pods = [pod("n1", {"job": "1.srv"}, cpu="1", memory="64"), pod("n2", {"job": "2.srv"}), pod("n2", None), leaving]
    assert placeholders(pods, "1.srv") == {"n1": {"cpu": "1", "memory": "64"}}


@pytest.mark.parametrize(
    ("lease", "cpu", "is_right"),
    [
        ({"cores": 2}, "2", True),
        ({"cores": 2}, "1", False),
        ({"cores": 2, "exclusive": True}, "16", True),
        ({"cores": None}, "16", True),
        ({"cores": 2}, "", True),
    ],
)
def test_it_has_the_cores_of_the_job_there(lease: dict[str, Any], cpu: str, is_right: bool) -> None:
    pods = [pod("n1", {"job": "1.srv", **lease}, **({"cpu": cpu} if cpu else {}))]
    if is_right:
        assert set(placeholders(pods, "1.srv")) == {"n1"}
        return
    with pytest.raises(AnsibleFilterError, match=r"node n1: job 1.srv has 2 cores, and stands with cpu 1"):
        placeholders(pods, "1.srv")
