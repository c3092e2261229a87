# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts `status` asks for the batch system and Kubernetes, and what it says of hosts and variables in its sum."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rehearsals.conftest import HOSTS, Rehearsal, Stage

OPEN = {"phase": "open", "way": "", "off": False, "leases": []}
SERVICES = {"kubelet": "active", "converged-controller": "active"}
NODES = {name: {"ready": True, "unschedulable": False} for name in ("n1", "n2")}


def facts(node: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a host with a record, on which nodeshare shows this node."""
    sharing = {"enabled": True, "services": SERVICES, "node": node, "error": ""}
    fact = {"present": True, "roles": ["node_share"], "summary": "held by node_share: 1 path", "sharing": sharing}
    return {"ansible_facts": {"converged_share": fact}}


def site(stage: Stage, folder: Path, **groups: Sequence[str]) -> Rehearsal:
    """Return a site of open nodes: its batch system and Kubernetes answer."""
    rehearsal = Rehearsal(stage, folder, {**HOSTS, **groups})
    rehearsal.answer(facts(OPEN), module="share_facts")
    rehearsal.answer(facts({}), module="share_facts", host="ctl")
    rehearsal.answer({"nodes": NODES}, module="kube_info")
    for module in ("slurm_info", "pbs_info", "torque_info"):
        rehearsal.answer({"nodes": []}, module=module)
    return rehearsal


def asked(said: str) -> dict[str, str]:
    """Return the host that each cluster was asked on, by the task."""
    found = re.findall(r"^TASK \[Ask (\w+)\] \*+\nok: \[(?:\S+ -> )?(\w+)\]", said, re.MULTILINE)
    return dict(found)


@pytest.mark.parametrize(
    ("groups", "hosts"),
    [
        ({"converged_controllers": ["away", "ctl"], "converged_excepted": ["away"]}, ("ctl", "kube")),
        ({"converged_excepted": ["ctl", "kube"]}, ("n1", "n1")),
        ({"converged_controllers": [], "converged_kube": []}, ("n1", "n1")),
    ],
)
@pytest.mark.parametrize(("wlm", "system"), [("slurm", "Slurm"), ("pbs", "PBS"), ("torque", "Torque")])
def test_clusters_are_asked_on_the_first_host_that_is_not_excepted(
    stage: Stage, tmp_path: Path, groups: dict[str, list[str]], hosts: tuple[str, str], wlm: str, system: str
) -> None:
    done = site(stage, tmp_path, **groups).playbook("status", converged_wlm=wlm)
    assert done.passed, done.said
    assert asked(done.said) == {system: hosts[0], "Kubernetes": hosts[1]}, done.said
    assert "nothing needs a look" in done.said


def test_a_wrong_name_of_the_batch_system_is_said_at_the_end(stage: Stage, tmp_path: Path) -> None:
    done = site(stage, tmp_path).playbook("status", converged_wlm="Slurm")
    assert done.passed, done.said
    assert asked(done.said) == {"Kubernetes": "kube"}, done.said
    said = "look at converged_wlm: it is 'Slurm', expected one of slurm, pbs, torque, so no batch system was asked"
    assert said in done.said, done.said


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"failed": True, "msg": "record is damaged"}, "look at n2: its record could not be read: see its error above"),
        ({"unreachable": True, "msg": "Connection refused"}, "look at n2: not reached"),
    ],
)
def test_a_host_that_cannot_read_its_record_is_told_from_one_that_is_away(
    stage: Stage, tmp_path: Path, result: dict[str, Any], said: str
) -> None:
    rehearsal = site(stage, tmp_path)
    rehearsal.answer(result, module="share_facts", host="n2")
    done = rehearsal.playbook("status")
    assert not done.passed
    assert re.findall(r'"(look at .*)"', done.said) == [said], done.said
