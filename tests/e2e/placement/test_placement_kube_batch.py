# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-batch's own end-to-end list, case by case, under the configuration that kube-batch ran it with.

Most pods take a whole node, so that a cluster of twenty nodes is twenty places. Some cases pause the daemon while they
make their pods, so that it meets them together.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest
from e2e.placement.cluster import NODES, Cluster, Namespace
from e2e.placement.daemon import Daemon
from e2e.playing import until
from placement_kit.kube_batch import policy
from testbed.kube_api import Json

WHOLE = "32"
HALF = NODES // 2
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
PREFERRED, REQUIRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("preferred", "required"))
PRIORITIES = {"kube-batch-high": 1000, "kube-batch-low": 10}


@pytest.fixture(scope="module")
def daemon(cluster: Cluster) -> Iterator[Daemon]:
    """A daemon of these tests alone, and the two priority classes that they use."""
    for name, value in PRIORITIES.items():
        cluster.priority(name, value)
    path = cluster.folder / "kube-batch.yml"
    path.write_text(policy(), encoding="utf-8")
    running = cluster.daemon("kube-batch", policy=str(path), lease_name="kube-batch").start()
    until(running.leads, "it leads")
    yield running
    running.stop()


@contextmanager
def away(daemon: Daemon) -> Iterator[None]:
    """What happens meanwhile it sees all at once; one that was only stopped would decide on the first of its events."""
    daemon.stop()
    try:
        yield
    finally:
        daemon.start()


def make_queues(cluster: Cluster, team: Namespace, **weights: int) -> dict[str, str]:
    """Queues of kube-batch's, by what a test calls them."""
    version = "scheduling.incubator.k8s.io/v1alpha1"
    names = {short: f"{team.name}-{short}" for short in weights}
    for short, weight in weights.items():
        body = {"apiVersion": version, "kind": "Queue", "metadata": {"name": names[short]}, "spec": {"weight": weight}}
        cluster.api.create(f"/apis/{version}/queues", body)
    return names


def evictions(cluster: Cluster, team: Namespace) -> int:
    """How many pods of a test the daemon has asked to leave."""
    asked = (event for event in cluster.audit() if event.namespace == team.name)
    return len({event.name for event in asked if event.resource == "pods/eviction"})


def is_refused(team: Namespace, pod: str) -> bool:
    return team.condition(pod)[0] == "False"


def test_schedule_job(daemon: Daemon, team: Namespace) -> None:
    team.job("job", replicas=NODES, least=2, cpu=WHOLE)
    until(lambda: len(set(team.places().values())) == NODES, "each pod has a node")


def test_schedule_multiple_jobs(daemon: Daemon, team: Namespace) -> None:
    for job in ("a", "b", "c"):
        team.job(job, replicas=NODES // 4, cpu=WHOLE)
    until(lambda: len(team.bound()) == 3 * (NODES // 4), "all jobs run")


def test_gang_scheduling(daemon: Daemon, team: Namespace) -> None:
    team.job("filler", replicas=HALF + 1, cpu=WHOLE)
    until(lambda: len(team.bound("filler")) == HALF + 1, "half of the nodes and one are taken")
    team.job("gang", replicas=HALF, cpu=WHOLE)
    until(lambda: is_refused(team, "gang-0"), "the gang is refused")
    assert team.bound("gang") == set()
    team.finish("filler-0", "Succeeded")
    until(lambda: len(team.bound("gang")) == HALF, "the gang runs whole")


def test_gang_scheduling_full_occupied(daemon: Daemon, team: Namespace) -> None:
    team.job("first", replicas=NODES, cpu=WHOLE)
    until(lambda: len(team.bound("first")) == NODES, "the first gang takes the cluster")
    team.job("second", replicas=NODES, cpu=WHOLE)
    until(lambda: is_refused(team, "second-0"), "the second gang is refused")
    assert len(team.bound("first")) == NODES
    assert team.bound("second") == set()


def test_preemption(cluster: Cluster, daemon: Daemon, team: Namespace) -> None:
    team.job("low", replicas=NODES, least=1, cpu=WHOLE, priorityClassName="kube-batch-low")
    until(lambda: len(team.bound("low")) == NODES, "the low job takes the cluster")
    team.job("high", replicas=HALF, least=1, cpu=WHOLE, priorityClassName="kube-batch-high")
    until(lambda: len(team.bound("high")) == HALF, "the high job runs")
    assert len(team.bound("low")) == NODES - HALF
    assert evictions(cluster, team) == HALF


def test_multiple_preemption(cluster: Cluster, daemon: Daemon, team: Namespace) -> None:
    team.job("low", replicas=NODES, least=1, cpu=WHOLE, priorityClassName="kube-batch-low")
    until(lambda: len(team.bound("low")) == NODES, "the low job takes the cluster")
    for job in ("one", "two"):
        team.job(f"high-{job}", replicas=NODES // 4, cpu=WHOLE, priorityClassName="kube-batch-high")
    until(lambda: len(team.bound("high")) == 2 * (NODES // 4), "both high jobs run")
    assert len(team.bound("low")) == NODES - 2 * (NODES // 4)


def test_a_budget_that_blocks_is_named(cluster: Cluster, daemon: Daemon, team: Namespace) -> None:
    spec = {"minAvailable": NODES, "selector": {"matchLabels": {"app": "low"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep"}, "spec": spec}
    cluster.api.create(f"/apis/policy/v1/namespaces/{team.name}/poddisruptionbudgets", budget)
    team.job("low", replicas=NODES, least=1, cpu=WHOLE, labels={"app": "low"}, priorityClassName="kube-batch-low")
    until(lambda: len(team.bound("low")) == NODES, "the low job takes the cluster")
    team.pod("high", cpu=WHOLE, priorityClassName="kube-batch-high")
    until(lambda: "disruption budget keep" in team.condition("high")[1], "the budget is named")
    assert len(team.bound("low")) == NODES


def test_schedule_best_effort_job(daemon: Daemon, team: Namespace) -> None:
    team.job("filler", replicas=NODES, cpu="32")
    until(lambda: len(team.bound("filler")) == NODES, "no core is free")
    team.job("effort", replicas=3, cpu="")
    until(lambda: len(team.bound("effort")) == 3, "pods that ask for nothing run")


def test_statement(cluster: Cluster, daemon: Daemon, team: Namespace) -> None:
    team.job("low", replicas=NODES, cpu=WHOLE, priorityClassName="kube-batch-low")
    until(lambda: len(team.bound("low")) == NODES, "the low gang takes the cluster")
    # It would fit once some had left, but not whole: nobody is to leave for nothing.
    team.job("high", replicas=NODES + 1, cpu=WHOLE, priorityClassName="kube-batch-high")
    until(lambda: is_refused(team, "high-0"), "the high gang is refused")
    assert evictions(cluster, team) == 0


def test_task_priority(daemon: Daemon, team: Namespace) -> None:
    team.job("filler", replicas=NODES - 2, cpu=WHOLE, priorityClassName="kube-batch-high")
    until(lambda: len(team.bound("filler")) == NODES - 2, "two places are left")
    with away(daemon):
        notes = {"scheduling.k8s.io/group-name": "mixed"}
        team.create("scheduling.incubator.k8s.io/v1alpha1", "PodGroup", "mixed", {"minMember": 2})
        for number in range(3):
            team.pod(f"worker-{number}", cpu=WHOLE, annotations=notes, priorityClassName="kube-batch-low")
        for number in range(2):
            team.pod(f"master-{number}", cpu=WHOLE, annotations=notes, priorityClassName="kube-batch-high")
    until(lambda: team.bound("master") == {"master-0", "master-1"}, "the masters run")
    assert team.bound("worker") == set()


def test_a_task_that_does_not_fit_keeps_no_smaller_one_from_running(daemon: Daemon, team: Namespace) -> None:
    notes = {"scheduling.k8s.io/group-name": "mixed"}
    with away(daemon):
        team.create("scheduling.incubator.k8s.io/v1alpha1", "PodGroup", "mixed", {"minMember": 1})
        team.pod("large", cpu="33", annotations=notes)
        team.pod("small", cpu="1", annotations=notes)
    until(lambda: team.bound() == {"small"}, "the small one runs")


def test_job_priority(daemon: Daemon, team: Namespace) -> None:
    team.job("filler", replicas=NODES, cpu=WHOLE, priorityClassName="kube-batch-high")
    until(lambda: len(team.bound()) == NODES, "the cluster is full")
    team.job("low", replicas=HALF, cpu=WHOLE, priorityClassName="kube-batch-low")
    until(lambda: is_refused(team, "low-0"), "the low job waits")
    team.job("high", replicas=HALF, cpu=WHOLE, priorityClassName="kube-batch-high")
    until(lambda: is_refused(team, "high-0"), "the high job waits")
    with away(daemon):
        for number in range(HALF):
            team.finish(f"filler-{number}", "Succeeded")
    until(lambda: len(team.bound("high")) == HALF, "the high job is the first to run")
    assert team.bound("low") == set()


def test_proportion(cluster: Cluster, daemon: Daemon, team: Namespace) -> None:
    queues = make_queues(cluster, team, three=3, one=1)
    daemon.stop()
    for short, queue in queues.items():
        team.job(short, replicas=NODES, least=1, cpu=WHOLE, queue=queue)
    daemon.start()
    shares = (NODES * 3 // 4, NODES // 4)
    until(lambda: (len(team.bound("three")), len(team.bound("one"))) == shares, "each queue has its share")


def test_reclaim(cluster: Cluster, daemon: Daemon, team: Namespace) -> None:
    queues = make_queues(cluster, team, first=1, second=1)
    team.job("first", replicas=NODES, least=1, cpu=WHOLE, queue=queues["first"])
    until(lambda: len(team.bound("first")) == NODES, "the first queue takes the cluster")
    team.job("second", replicas=NODES, least=1, cpu=WHOLE, queue=queues["second"])
    until(lambda: len(team.bound("second")) == HALF, "the second queue has its half")
    assert len(team.bound("first")) == HALF


def near(labels: dict[str, str], topology: str) -> Json:
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": topology}


def in_zones(*zones: str) -> list[Json]:
    return [{"key": ZONE, "operator": "In", "values": list(zones)}]


def zones_of(cluster: Cluster, team: Namespace, prefix: str = "") -> set[str]:
    zones = {
        node["metadata"]["name"]: node["metadata"]["labels"].get(ZONE, "")
        for node in cluster.api.items("/api/v1/nodes")
    }
    return {zones[node] for node in team.places(prefix).values()}


# What a rule asks for, and what it makes of one measure of where the job's pods are.
RULES: dict[str, tuple[Json, str, set[str] | int]] = {
    "node affinity": (
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": in_zones("zone-3")}]}}},
        "zones",
        {"zone-3"},
    ),
    "preferred node affinity": (
        {"nodeAffinity": {PREFERRED: [{"weight": 100, "preference": {"matchExpressions": in_zones("zone-4")}}]}},
        "zones",
        {"zone-4"},
    ),
    "pod affinity": ({"podAffinity": {REQUIRED: [near({"app": "near"}, ZONE)]}}, "number of zones", 1),
    "preferred pod affinity": (
        {"podAffinity": {PREFERRED: [{"weight": 100, "podAffinityTerm": near({"app": "near"}, HOSTNAME)}]}},
        "number of nodes",
        1,
    ),
}


def spread_of_job(cluster: Cluster, team: Namespace, affinity: Json) -> dict[str, set[str] | int]:
    """Run a job of four pods under a rule, and return the measures of where its pods are."""
    team.job("job", replicas=4, cpu="1", labels={"app": "near"}, affinity=affinity)
    until(lambda: len(team.bound()) == 4, "the job runs")
    zones, nodes = zones_of(cluster, team), set(team.places().values())
    return {"zones": zones, "number of zones": len(zones), "number of nodes": len(nodes)}


@pytest.mark.parametrize("rule", RULES)
def test_affinity(cluster: Cluster, daemon: Daemon, team: Namespace, rule: str) -> None:
    affinity, measure, wanted = RULES[rule]
    assert spread_of_job(cluster, team, affinity)[measure] == wanted


def test_without_a_rule_a_job_is_where_no_rule_would_have_it(cluster: Cluster, daemon: Daemon, team: Namespace) -> None:
    found = spread_of_job(cluster, team, {})
    assert not [rule for rule, (_affinity, measure, wanted) in RULES.items() if found[measure] == wanted], found


def test_least_requested(daemon: Daemon, team: Namespace) -> None:
    # More than half of a node each, so that no two share one; what is left would do for the whole job on any node.
    team.job("filler", replicas=NODES - 1, cpu="17")
    until(lambda: len(set(team.places("filler").values())) == NODES - 1, "all nodes but one are taken by half")
    team.job("job", replicas=3, cpu="1")
    until(lambda: len(team.bound("job")) == 3, "the job runs")
    assert not set(team.places("job").values()) & set(team.places("filler").values())


def test_host_port(daemon: Daemon, team: Namespace) -> None:
    with_port = [
        {
            "name": "main",
            "image": "localhost/none",
            "ports": [{"containerPort": 28080, "hostPort": 28080}],
            "resources": {"requests": {"cpu": "1"}},
        }
    ]
    team.job("job", replicas=NODES + 2, least=NODES, containers=with_port)
    until(lambda: len(set(team.places().values())) == NODES, "each node has one")
    until(lambda: sum(is_refused(team, f"job-{number}") for number in range(NODES + 2)) == 2, "two are told")
    assert len(team.bound()) == NODES


def test_taints(cluster: Cluster, daemon: Daemon, team: Namespace) -> None:
    taint = {"key": f"{team.name}/taken", "effect": "NoSchedule"}
    tainted = [f"load-{number:05d}" for number in range(HALF)]
    for name in tainted:
        cluster.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [taint]}})
    try:
        # Nodes and pods come by watches of their own, in any order: so first wait until the daemon has the last taint.
        # It says once what it knows of a pod that is too large for all nodes.
        probes = count()

        def knows_taint() -> bool:
            probe = f"probe-{next(probes)}"
            team.pod(probe, cpu="33", nodeSelector={"kubernetes.io/hostname": tainted[-1]})
            until(lambda: team.condition(probe)[1], "the daemon has judged the probe")
            return "taint" in team.condition(probe)[1]

        until(knows_taint, "the daemon knows the last taint")
        team.job("plain", replicas=NODES, least=HALF, cpu=WHOLE)
        until(lambda: len(team.bound("plain")) == HALF, "half of the job has the nodes without taint")
        team.job("tolerant", replicas=HALF, cpu=WHOLE, tolerations=[{**taint, "operator": "Exists"}])
        until(lambda: set(team.places("tolerant").values()) == set(tainted), "who tolerates it has the others")
    finally:
        for name in tainted:
            cluster.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
