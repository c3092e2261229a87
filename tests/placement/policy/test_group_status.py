# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What groups are told in the course of their lives, by a scheduler that has seen it all and by one that has not."""

import json

import pytest
from placement.kube.dialects import BY_NAME
from placement.kube.metadata import Sharing
from placement.model.pod import Phase
from placement.model.workload import UPSTREAM
from placement_kit.builders import gang, mine, node
from placement_kit.simulated import Simulated


@pytest.mark.parametrize(("status", "phase"), [("True", "Running"), ("False", ""), ("Unknown", "")])
def test_the_upstream_condition_says_whether_a_group_has_had_its_nodes(status: str, phase: str) -> None:
    written = {
        "metadata": {"uid": "u1", "name": "g", "namespace": "team", "resourceVersion": "7"},
        "status": {
            "conditions": [{"type": "Other", "status": "True"}, {"type": "PodGroupScheduled", "status": status}]
        },
    }
    read = BY_NAME[UPSTREAM].read_group
    assert read is not None
    assert read(json.dumps(written).encode(), Sharing()).phase == phase


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.FAILED])
def test_a_group_that_had_its_nodes_is_not_told_otherwise_after_a_restart(phase: Phase) -> None:
    simulated = Simulated()
    simulated.see(node(), gang("g", 3, dialect=UPSTREAM, phase="Running"))
    simulated.see(*(mine(f"g{index}", scheduling_group="g", node="n1", phase=phase) for index in range(2)))
    simulated.see(mine("g2", scheduling_group="g", node="n1", phase=Phase.FAILED))
    for _unused in range(3):
        simulated.now += 4
        simulated.run()
    assert simulated.groups()["g"].scheduled


def test_a_group_that_never_had_its_nodes_is_told_so() -> None:
    simulated = Simulated()
    simulated.see(node(), gang("g", 6, dialect=UPSTREAM))
    simulated.see(*(mine(f"g{index}", scheduling_group="g") for index in range(6)))
    simulated.run()
    assert not simulated.groups()["g"].scheduled
