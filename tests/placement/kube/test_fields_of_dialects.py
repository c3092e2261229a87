# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each field that an API has in the spec of its groups and queues changes what is read, or is named as of no effect."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import placement
import pytest
import yaml
from placement.kube.dialects import BY_NAME
from placement.kube.fields.metadata import Sharing
from placement.model.objects.workload import (
    CONVERGED,
    COSCHEDULING,
    DIALECTS,
    INCUBATOR,
    SIGS,
    UPSTREAM,
    UPSTREAM_ALPHA,
    VOLCANO,
    PodGroup,
    Queue,
)

Json = dict[str, Any]
NO_EFFECT = object()
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_KUBE_BATCH_GROUP: Json = {"minMember": 3, "queue": "q", "priorityClassName": "high"}
_KUBE_BATCH_QUEUE: Json = {"weight": 3, "capability": {"cpu": "3"}}
_UPSTREAM: Json = {
    "schedulingPolicy": {"gang": {"minCount": 3}},
    "priorityClassName": "high",
    "priority": 3,
    "preemptionPolicy": "Never",
    "schedulingConstraints": {"topology": [{"key": "rack"}]},
    "resourceClaims": [{"name": "gpus"}],
}
# A value that is not the default of each field: what the API servers of these versions accept in a spec.
GROUPS: dict[str, Json] = {
    UPSTREAM: {
        **_UPSTREAM,
        "disruptionMode": {"all": {}},
        "parentCompositePodGroupName": "above",
        "workloadRef": NO_EFFECT,
    },
    UPSTREAM_ALPHA: {**_UPSTREAM, "disruptionMode": "PodGroup", "podGroupTemplateRef": NO_EFFECT},
    INCUBATOR: _KUBE_BATCH_GROUP,
    SIGS: _KUBE_BATCH_GROUP,
    VOLCANO: {
        **_KUBE_BATCH_GROUP,
        "minTaskMember": {"worker": 1},
        "minResources": {"cpu": "3"},
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        "subGroupPolicy": [{"name": "workers"}],
    },
    COSCHEDULING: {"minMember": 3, "minResources": {"cpu": "3"}, "scheduleTimeoutSeconds": NO_EFFECT},
}
QUEUES: dict[str, Json] = {
    INCUBATOR: _KUBE_BATCH_QUEUE,
    SIGS: _KUBE_BATCH_QUEUE,
    VOLCANO: {
        **_KUBE_BATCH_QUEUE,
        "reclaimable": False,
        "extendClusters": [{"name": "far"}],
        "guarantee": {"resource": {"cpu": "3"}},
        "affinity": {"nodeGroupAffinity": {REQUIRED: ["fast"]}},
        "type": NO_EFFECT,
        "parent": "above",
        "deserved": {"cpu": "3"},
        "priority": 3,
        "dequeueStrategy": "fifo",
    },
    CONVERGED: {
        **_KUBE_BATCH_QUEUE,
        "guarantee": {"cpu": "3"},
        "reclaimable": False,
        "parent": "above",
        "open": False,
        "priority": 3,
        "backedBy": "pbs",
        "placedBy": "graph",
        "matchPolicy": "low",
        "namespaces": ["team"],
    },
}
KINDS = {"PodGroup": GROUPS, "Queue": QUEUES}
GUIDE = Path(__file__).parents[3] / "docs/guides/from-kube-batch.md"
CRDS = Path(placement.__file__).parents[1] / "crds/crds.yml"


def read(kind: str, dialect: str, spec: Json) -> PodGroup | Queue:
    """The object as the daemon has it."""
    found = BY_NAME[dialect]
    reader = found.read_group if kind == "PodGroup" else found.read_queue
    assert reader is not None
    meta = {"uid": "x", "name": "x", "namespace": "team" if kind == "PodGroup" else "", "resourceVersion": "7"}
    return reader(json.dumps({"metadata": meta, "spec": spec}).encode(), Sharing())


def fields(*, effective: bool) -> Iterator[tuple[str, str, str]]:
    """Kind, dialect and name of each field that has an effect, or of each that has none."""
    for kind, dialects in KINDS.items():
        for dialect, spec in dialects.items():
            for name, value in spec.items():
                if (value is not NO_EFFECT) is effective:
                    yield kind, dialect, name


@pytest.mark.parametrize(("kind", "dialect", "field"), [*fields(effective=True)])
def test_each_field_of_a_group_and_a_queue_changes_what_is_read(kind: str, dialect: str, field: str) -> None:
    assert read(kind, dialect, {field: KINDS[kind][dialect][field]}) != read(kind, dialect, {})


@pytest.mark.prose
@pytest.mark.parametrize(("_kind", "dialect", "field"), [*fields(effective=False)])
def test_each_field_of_no_effect_is_in_the_guide(_kind: str, dialect: str, field: str) -> None:
    version = dialect.rpartition("/")[2]
    names = {UPSTREAM: f"upstream `{version}`", UPSTREAM_ALPHA: f"upstream `{version}`", VOLCANO: "Volcano"}
    rows = [
        line.rpartition(" | ")[2]
        for line in GUIDE.read_text(encoding="utf-8").splitlines()
        if line.startswith(f"| {names.get(dialect, 'coscheduling')}")
    ]
    assert any(f"`{field}`" in row for row in rows)


@pytest.mark.parametrize(
    ("kind", "dialect", "field"),
    [
        (item["spec"]["names"]["kind"], f"{item['spec']['group']}/{version['name']}", name)
        for item in yaml.safe_load(CRDS.read_text(encoding="utf-8"))["items"]
        for version in item["spec"]["versions"]
        for name in version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    ],
)
def test_the_table_of_this_test_has_each_field_of_the_crds_that_are_shipped(
    kind: str, dialect: str, field: str
) -> None:
    assert field in KINDS[kind][dialect]


def test_the_table_of_this_test_has_each_dialect() -> None:
    assert {*GROUPS, *QUEUES} == {*DIALECTS}
