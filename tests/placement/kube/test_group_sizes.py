# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gang's size goes from the API's JSON to the answer as it was written."""

import json

import pytest
from placement.kube.decode.decoder import Decoder
from placement.kube.watch.watched_resources import sources
from placement.model.objects.workload import PodGroup
from placement_kit.builders import mine, node
from placement_kit.simulated import Simulated

GROUPS = {source.name: source for source in sources()}["podgroups.scheduling.incubator.k8s.io/v1alpha1"]


@pytest.mark.parametrize("size", [2**31, 2**62, 0, -(2**62)])
def test_a_size_that_no_group_can_have_is_answered_by_the_name_of_its_field(size: int) -> None:
    written = {
        "metadata": {"uid": "u1", "name": "g", "namespace": "team", "resourceVersion": "7"},
        "spec": {"minMember": size},
    }
    group = Decoder({PodGroup: GROUPS.reader}).decode_object(PodGroup, json.dumps(written).encode())
    simulated = Simulated()
    simulated.see(node("n1"), group, mine("g0", group="g"), mine("other"))
    simulated.run()
    assert simulated.conditions()["g0"] == f"spec.minMember: {size} is not a number of pods from 1"
    assert simulated.groups()["g"].reason == "InvalidGroup"
    assert simulated.placements() == {"other": "n1"}
