# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fields of groups and queues that demand something: each is served, or refused by its name."""

import json
from dataclasses import replace
from typing import Any

import pytest
from placement.kube.dialects import BY_NAME
from placement.kube.fields.field_error import FieldError
from placement.kube.fields.metadata import Sharing
from placement.kube.write.executor import told
from placement.model.messages.action import Evict, GroupStatus, PodCondition, QueueStatus
from placement.model.objects.pod import Phase
from placement.model.objects.workload import CONVERGED, COSCHEDULING, UPSTREAM, UPSTREAM_ALPHA, VOLCANO, PodGroup, Queue
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, mine, node, pod, priority_class
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated

Json = dict[str, Any]
GANG: Json = {"schedulingPolicy": {"gang": {"minCount": 1}}}
# How a pod names a group of each API.
TIES: dict[str, Json] = {
    UPSTREAM: {"scheduling_group": "g"},
    UPSTREAM_ALPHA: {"scheduling_group": "g"},
    VOLCANO: {"annotations": (("scheduling.k8s.io/group-name", "g"),)},
    COSCHEDULING: {"labels": (("scheduling.x-k8s.io/pod-group", "g"),)},
}
CONSTRAINTS = {"topology": [{"key": "topology.kubernetes.io/rack"}, {"key": "topology.kubernetes.io/zone"}]}
CLAIMS = [{"name": "gpus", "resourceClaimName": "x"}]
BOTH = {"schedulingPolicy": {"gang": {"minCount": 1}, "basic": {}}}
REFUSED = [
    (
        UPSTREAM,
        {**GANG, "schedulingConstraints": CONSTRAINTS},
        "schedulingConstraints.topology",
        "topology.kubernetes.io/rack",
    ),
    (
        UPSTREAM_ALPHA,
        {**GANG, "schedulingConstraints": CONSTRAINTS},
        "schedulingConstraints.topology",
        "kubernetes.io/rack",
    ),
    (UPSTREAM, {**GANG, "disruptionMode": {"all": {}}}, "disruptionMode", "all"),
    (UPSTREAM_ALPHA, {**GANG, "disruptionMode": "PodGroup"}, "disruptionMode", "PodGroup"),
    (UPSTREAM, {**GANG, "resourceClaims": CLAIMS}, "resourceClaims", "gpus"),
    (UPSTREAM_ALPHA, {**GANG, "resourceClaims": CLAIMS}, "resourceClaims", "gpus"),
    (UPSTREAM, {**GANG, "parentCompositePodGroupName": "above"}, "parentCompositePodGroupName", "above"),
    (UPSTREAM, BOTH, "schedulingPolicy", "basic and gang"),
    (UPSTREAM, {**GANG, "preemptionPolicy": "Sometimes"}, "preemptionPolicy", "Sometimes"),
    (UPSTREAM, {"schedulingPolicy": {"gang": {"minCount": 1}, "late": {"by": 3}}}, "schedulingPolicy.late", "by"),
    (UPSTREAM_ALPHA, {"schedulingPolicy": {"elastic": {}}}, "schedulingPolicy.elastic", "{}"),
    (UPSTREAM, {"schedulingPolicy": {"gang": {"minCount": 1, "maxCount": 2}}}, "schedulingPolicy.gang.maxCount", "2"),
    (UPSTREAM, {**GANG, "schedulingConstraints": {"power": "low"}}, "schedulingConstraints.power", "low"),
    (UPSTREAM, {"schedulingPolicy": {"basic": {"maxWait": 5}}}, "schedulingPolicy.basic.maxWait", "5"),
    (
        UPSTREAM,
        {**GANG, "schedulingConstraints": {"topology": [{"key": "zone", "mode": "Preferred"}]}},
        "schedulingConstraints.topology.mode",
        "Preferred",
    ),
    (VOLCANO, {"networkTopology": {"mode": "firm", "highestTierAllowed": 1}}, "networkTopology.mode", "firm"),
    (
        VOLCANO,
        {"networkTopology": {"highestTierName": "rack", "highestTierAllowed": 2}},
        "networkTopology.highestTierAllowed",
        "2",
    ),
    (VOLCANO, {"networkTopology": {"highestTierAllowed": 0}}, "networkTopology.highestTierAllowed", "0"),
    (VOLCANO, {"subGroupPolicy": [{"name": "workers", "subGroupSize": 2}]}, "subGroupPolicy", "workers"),
]
SERVED = [
    (UPSTREAM, {**GANG, "disruptionMode": {"single": {}}, "schedulingConstraints": {}, "resourceClaims": []}),
    (UPSTREAM_ALPHA, {**GANG, "disruptionMode": "Pod", "schedulingConstraints": None}),
    (UPSTREAM, {"schedulingPolicy": {"gang": {"minCount": 1, "maxCount": None}}}),
    (UPSTREAM, {**GANG, "preemptionPolicy": "PreemptLowerPriority", "priority": -(2**31) + 1}),
    (UPSTREAM, {"schedulingPolicy": {"basic": {}}, "workloadRef": {"workloadName": "w"}}),
    (VOLCANO, {"minMember": 1, "networkTopology": {"mode": "soft"}, "subGroupPolicy": []}),
    (COSCHEDULING, {"minMember": 1, "scheduleTimeoutSeconds": 10}),
]


def group(dialect: str, spec: Json, status: Json | None = None) -> PodGroup:
    """A group as the API has it."""
    meta = {"uid": "g", "name": "g", "namespace": "team", "resourceVersion": "7"}
    read = BY_NAME[dialect].read_group
    assert read is not None
    return read(json.dumps({"metadata": meta, "spec": spec, "status": status}).encode(), Sharing())


def queue(spec: Json, dialect: str = VOLCANO) -> Queue:
    """A queue as the API has it."""
    read = BY_NAME[dialect].read_queue
    assert read is not None
    meta = {"uid": "q", "name": "q", "resourceVersion": "7"}
    return read(json.dumps({"metadata": meta, "spec": spec}).encode(), Sharing())


@pytest.mark.parametrize(("dialect", "spec", "field", "found"), REFUSED)
def test_a_group_that_demands_what_is_not_served_is_refused_by_field(
    dialect: str, spec: Json, field: str, found: str
) -> None:
    simulated = Simulated()
    simulated.see(node("n1"), group(dialect, spec), mine("p", **TIES[dialect]))
    simulated.run()
    assert not simulated.placements()
    status = simulated.groups()["g"]
    assert status.reason == "Unsupported"
    assert status.message.startswith(f"spec.{field}: found ")
    assert found in status.message
    assert ", expected " in status.message
    telling = told(status)
    assert telling is not None
    assert telling.text == f"Unsupported: {status.message}"
    assert simulated.conditions() == {"p": status.message}
    # The API gets the same, where it has conditions.
    write = BY_NAME[dialect].group_status
    assert write is not None
    assert f"spec.{field}: found " in json.dumps(write(status, "now"))


@pytest.mark.parametrize(("dialect", "spec"), SERVED)
def test_a_group_that_demands_no_more_than_is_served_starts(dialect: str, spec: Json) -> None:
    simulated = Simulated()
    simulated.see(node("n1"), group(dialect, spec), mine("p", **TIES[dialect]))
    simulated.run()
    assert simulated.placements() == {"p": "n1"}


def test_a_group_of_another_scheduler_may_demand_what_it_likes() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), group(UPSTREAM, {**GANG, "resourceClaims": CLAIMS}), pod("p", scheduling_group="g"))
    simulated.run()
    assert not [action for action in simulated.actions if isinstance(action, GroupStatus | PodCondition)]


def test_a_group_that_stops_to_demand_it_starts() -> None:
    simulated = Simulated()
    hard = group(VOLCANO, {"subGroupPolicy": [{"name": "workers"}]})
    simulated.see(node("n1"), hard, mine("p", **TIES[VOLCANO]))
    simulated.run()
    assert not simulated.placements()
    simulated.see(replace(hard, unsupported=()))
    simulated.run()
    assert simulated.placements() == {"p": "n1"}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("dialect", "spec", "field", "found"),
    [
        (CONVERGED, {"placedBy": "pbs", "matchPolicy": "low"}, "matchPolicy", "low"),
        (CONVERGED, {"backedBy": "pbs", "matchPolicy": "first"}, "matchPolicy", "first"),
        (VOLCANO, {"deserved": {"cpu": "4"}}, "deserved", "4"),
        (
            VOLCANO,
            {"affinity": {"nodeGroupAffinity": {REQUIRED: ["fast"]}}},
            f"affinity.nodeGroupAffinity.{REQUIRED}",
            "fast",
        ),
        (
            VOLCANO,
            {"affinity": {"nodeGroupAntiAffinity": {REQUIRED: ["old"]}}},
            f"affinity.nodeGroupAntiAffinity.{REQUIRED}",
            "old",
        ),
        (VOLCANO, {"extendClusters": [{"name": "far"}]}, "extendClusters", "far"),
        (VOLCANO, {"dequeueStrategy": "fifo"}, "dequeueStrategy", "fifo"),
    ],
)
def test_a_queue_that_demands_what_is_not_served_is_refused_by_field_once_a_job_of_ours_is_in_it(
    dialect: str, spec: Json, field: str, found: str
) -> None:
    simulated = Simulated()
    simulated.see(node("n1"), queue(spec, dialect))
    simulated.run()
    assert not [status for status in simulated.queues().values() if status.reason]
    simulated.see(group(VOLCANO, {"queue": "q", "minMember": 1}), mine("p", **TIES[VOLCANO]))
    simulated.run()
    simulated.now += 2
    simulated.run()
    assert not simulated.placements()
    assert f"spec.{field}: found " in simulated.groups()["g"].message
    (status,) = [one for one in simulated.actions if isinstance(one, QueueStatus) and one.reason]
    assert status.message.startswith(f"spec.{field}: found ")
    assert found in status.message
    assert told(status) is not None


@pytest.mark.parametrize(
    "spec",
    [{"deserved": {}}, {"affinity": {"nodeGroupAffinity": {PREFERRED: ["fast"]}}}, {"dequeueStrategy": "traverse"}],
)
def test_a_queue_that_demands_no_more_than_is_served_is_used(spec: Json) -> None:
    simulated = Simulated()
    simulated.see(node("n1"), queue(spec), group(VOLCANO, {"queue": "q", "minMember": 1}), mine("p", **TIES[VOLCANO]))
    simulated.run()
    assert simulated.placements() == {"p": "n1"}


@pytest.mark.parametrize("dialect", [UPSTREAM, UPSTREAM_ALPHA])
def test_the_priority_of_an_upstream_group_is_that_of_its_pods_whatever_these_say(dialect: str) -> None:
    simulated = Simulated(load(policy("allocate, preempt"), "test"))
    simulated.see(node("n1"), mine("low", node="n1", phase=Phase.RUNNING, priority=5, request=amounts(cpu="4")))
    simulated.run()
    simulated.see(group(dialect, {**GANG, "priority": 10}), mine("p", request=amounts(cpu="4"), **TIES[dialect]))
    assert [action.name for action in simulated.run() if isinstance(action, Evict)] == ["low"]
    assert simulated.placements() == {"p": "n1"}
    # More of its pods do not change it.
    simulated.see(mine("q", priority=100, request=amounts(cpu="4"), **TIES[dialect]))
    simulated.run()
    (job,) = [job for job in simulated.scheduler.cache.jobs.by_key.values() if job.group is not None]
    assert job.priority == 10


def test_a_priority_that_is_no_number_of_32_bits_is_refused_by_its_field() -> None:
    with pytest.raises(FieldError, match=r"^spec\.priority: 1099511627776 is not of 32 bits$"):
        group(UPSTREAM, {**GANG, "priority": 2**40})


def test_the_priority_of_a_group_goes_before_that_of_its_class() -> None:
    simulated = Simulated()
    spec = {**GANG, "priority": 10, "priorityClassName": "high"}
    simulated.see(priority_class("high", 1000), group(UPSTREAM, spec), mine("p", **TIES[UPSTREAM]))
    simulated.run()
    (job,) = simulated.scheduler.cache.jobs.by_key.values()
    assert (job.priority, job.problem) == (10, None)


def test_nobody_leaves_for_a_group_that_is_not_to_preempt() -> None:
    simulated = Simulated(load(policy("allocate, preempt"), "test"))
    simulated.see(node("n1"), mine("low", node="n1", phase=Phase.RUNNING, request=amounts(cpu="4")))
    simulated.run()
    spec = {**GANG, "priority": 10, "preemptionPolicy": "Never"}
    simulated.see(group(UPSTREAM, spec), mine("p", request=amounts(cpu="4"), **TIES[UPSTREAM]))
    assert not [action for action in simulated.run() if isinstance(action, Evict)]


def test_an_upstream_group_of_either_version_gets_the_condition_that_its_version_has() -> None:
    for dialect, name in ((UPSTREAM, "PodGroupInitiallyScheduled"), (UPSTREAM_ALPHA, "PodGroupScheduled")):
        simulated = Simulated()
        simulated.see(node("n1"), group(dialect, GANG), mine("p", **TIES[dialect]))
        simulated.run()
        write = BY_NAME[dialect].group_status
        assert write is not None
        (condition,) = write(simulated.groups()["g"], "now")["conditions"]
        assert (condition["type"], condition["status"]) == (name, "True")
