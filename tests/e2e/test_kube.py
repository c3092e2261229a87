# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real cluster beside real Slurm: it serves what the collection needs, takes nodes in, and runs pods on them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from e2e import machine
from e2e.playing import processor_seconds, until
from testbed import api
from testbed.api import RunningBed
from testbed.controlplane import admin, audit_log, kubeconfig
from testbed.kube_api import Api, ApiError, Json, condition_is, phase_is
from testbed.kube_audit import read_audit

PODS = "/api/v1/namespaces/default/pods"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
POD_GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
MEMORY = 64 * 1024**2
# Of processor time, here and in the bed's containers; the promise is 10 s on two idle cores.
LOAD_SECONDS = 60.0


def pod(name: str, *command: str, node: str, memory: int = MEMORY) -> Json:
    container = {
        "name": "main",
        "image": "localhost/busybox:local",
        "imagePullPolicy": "Never",
        "command": list(command),
        "resources": {"limits": {"memory": str(memory), "cpu": "250m"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        },
    }


@pytest.fixture
def cluster(bed: RunningBed) -> Iterator[Api]:
    """The API server, asked as its administrator."""
    connection = admin(bed.bed)
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def members(bed: RunningBed) -> RunningBed:
    """The bed, with both of its nodes joined to the cluster."""
    api.command_line("join", bed.bed.name, "n1", "n2", timeout=600)
    return bed


@pytest.fixture
def run_pod(cluster: Api) -> Iterator[Callable[[Json], Json]]:
    """Creates pods, waits until they run or have ended, and removes them after the test."""
    names: list[str] = []

    def create(wanted: Json) -> Json:
        names.append(wanted["metadata"]["name"])
        cluster.create(PODS, wanted)
        settled = phase_is("Running", "Succeeded", "Failed")
        return cluster.wait_for(f"{PODS}/{names[-1]}", settled, timeout=300, what=f"pod {names[-1]} runs")

    yield create
    for name in names:
        cluster.delete(f"{PODS}/{name}", missing_ok=True)
    for name in names:
        cluster.wait_gone(f"{PODS}/{name}", timeout=300)


def test_the_four_programs_are_units_and_the_api_server_is_ready(bed: RunningBed, cluster: Api) -> None:
    assert cluster.get("/readyz") == {"text": "ok"}
    units = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
    assert bed.exec("kube", ["systemctl", "is-active", *units]).out.split() == ["active"] * 4
    assert cluster.get("/version")["gitVersion"] == "v1.36.3"


def test_only_who_asked_for_the_bed_can_read_its_kubeconfig_and_nobody_its_keys(bed: RunningBed) -> None:
    for path in (kubeconfig(bed.bed), audit_log(bed.bed)):
        assert (path.stat().st_mode & 0o777, path.stat().st_uid) == (0o600, bed.bed.uid)
    listed = bed.exec("kube", ["find", "/etc/kubernetes", "-name", "*.key", "-perm", "/077"]).out
    assert listed == ""
    assert bed.exec("kube", ["stat", "-c", "%a", "/etc/kubernetes"]).out == "700\n"


def test_gangs_are_served_by_the_upstream_api(cluster: Api) -> None:
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    cluster.create(POD_GROUPS, group)
    assert cluster.get(f"{POD_GROUPS}/gang")["spec"]["schedulingPolicy"]["gang"]["minCount"] == 3
    cluster.delete(f"{POD_GROUPS}/gang")
    cluster.wait_gone(f"{POD_GROUPS}/gang", timeout=300)


def test_a_validating_admission_policy_refuses_what_it_forbids(cluster: Api) -> None:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-forbidden"},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": "object.metadata.name != 'forbidden'", "message": "not this one"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-forbidden"},
        "spec": {"policyName": "no-forbidden", "validationActions": ["Deny"]},
    }
    cluster.create(POLICIES, policy)
    cluster.create(BINDINGS, binding)
    try:
        assert "not this one" in await_refusal(cluster, timeout=300)
    finally:
        cluster.delete(f"{BINDINGS}/no-forbidden")
        cluster.delete(f"{POLICIES}/no-forbidden")


def await_refusal(cluster: Api, *, timeout: float) -> str:
    """Policies take effect a moment after they are created."""
    deadline = time.monotonic() + timeout
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "forbidden"}}
    while time.monotonic() < deadline:
        try:
            cluster.create("/api/v1/namespaces/default/configmaps?dryRun=All", body)
        except ApiError as error:
            return str(error)
        time.sleep(0.2)
    return "nothing was refused"


def test_a_node_joined_by_hand_runs_pods_while_slurm_runs_jobs_on_it(
    members: RunningBed, run_pod: Callable[[Json], Json]
) -> None:
    running = run_pod(pod("beside-slurm", "sleep", "3600", node="n1"))
    assert (running["status"]["phase"], running["spec"]["nodeName"]) == ("Running", "n1")
    assert members.ssh("ctl", ["srun", "-w", "n1", "hostname"]).out == "n1\n"


def test_joining_a_node_twice_changes_nothing(members: RunningBed, cluster: Api) -> None:
    before = cluster.get("/api/v1/nodes/n1")["metadata"]["uid"]
    api.command_line("join", members.bed.name, "n1", timeout=300)
    after = cluster.get("/api/v1/nodes/n1")
    assert after["metadata"]["uid"] == before
    assert condition_is("Ready")(after)


def test_pods_of_different_nodes_reach_each_other_under_their_own_address(
    members: RunningBed, run_pod: Callable[[Json], Json]
) -> None:
    server = run_pod(pod("server", "busybox", "httpd", "-f", "-vv", "-p", "7000", "-h", "/etc", node="n2"))
    client = run_pod(pod("client", "sleep", "3600", node="n1"))
    theirs, ours = server["status"]["podIP"], client["status"]["podIP"]
    assert (theirs[:9], ours[:9]) == ("10.244.2.", "10.244.1.")
    # A running container need not listen yet.
    fetch = f"until busybox wget -q -O - http://{theirs}:7000/hostname; do sleep 1; done"
    assert members.kubectl("exec", "client", "--", "sh", "-c", fetch) == "server\n"
    until(lambda: f"{ours}]:" in members.kubectl("logs", "server"), "the server has seen the client's own address")


def test_a_pods_memory_limit_is_a_limit_of_the_kernel(members: RunningBed, run_pod: Callable[[Json], Json]) -> None:
    assert members.bed.way.has_limits
    run_pod(pod("limited", "sleep", "3600", node="n1"))
    names = ["-name", "memory.limit_in_bytes", "-o", "-name", "memory.max"]
    find = ["find", "/sys/fs/cgroup", "-path", "*kubepods*", "(", *names, ")", "-exec", "cat", "{}", "+"]
    # Cgroups of other pods may just go.
    assert str(MEMORY) in members.exec("n1", find, check=False).out.split()

    eater = run_pod(pod("eater", "sh", "-c", "busybox tail /dev/zero", node="n1"))
    path = f"{PODS}/eater"
    connection = admin(members.bed)
    connection.wait_for(path, is_killed_for_memory, timeout=300, what="the pod over its limit is killed for that")
    connection.close()
    assert eater["spec"]["nodeName"] == "n1"


def is_killed_for_memory(found: Json) -> bool:
    if found["status"]["phase"] != "Failed":
        return False
    return bool(found["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "OOMKilled")


def test_the_audit_log_tells_who_made_a_pod_and_when_it_was_bound(
    members: RunningBed, run_pod: Callable[[Json], Json]
) -> None:
    run_pod(pod("audited", "true", node="n2"))
    log: Path = audit_log(members.bed)
    (created,) = read_audit(log, verb="create", resource="pods", name="audited")
    assert (created.user, created.code, created.namespace) == ("kubernetes-admin", 201, "default")
    assert created.body is not None
    assert created.body["spec"]["containers"][0]["command"] == ["true"]
    (bound,) = read_audit(log, verb="create", resource="pods/binding", name="audited")
    assert bound.user == "system:kube-scheduler"
    assert bound.body is not None
    assert bound.body["target"]["name"] == "n2"
    assert created.received < bound.received


# In every change ten of them come and go, of kwok, in the next test. bench.bed_times measures 5,000 of both kinds.
@pytest.mark.soak
def test_five_thousand_nodes_for_load_come_at_a_small_cost_and_go_again(bed: RunningBed, cluster: Api) -> None:
    real = {node["metadata"]["name"] for node in cluster.items("/api/v1/nodes")}
    before = processor_seconds() + machine.ask("processor", bed.bed.name)
    told = api.command_line("load", bed.bed.name, "--nodes", "5000").out
    spent = processor_seconds() + machine.ask("processor", bed.bed.name) - before
    try:
        nodes = cluster.items("/api/v1/nodes?labelSelector=converged.hpc/load")
        assert len(nodes) == 5000
        assert all(condition_is("Ready")(node) and not node["spec"].get("taints") for node in nodes)
        assert re.fullmatch(r"5000 plain nodes in [0-9.]+ s\n", told)
        print(f"{told}{spent:.1f} s of processor time")
        assert 1 < spent < LOAD_SECONDS
        again = api.command_line("load", bed.bed.name, check=False)
        assert (again.rc, again.out) == (1, "")
        assert "has nodes for load already; remove them first" in again.err
    finally:
        api.command_line("load", bed.bed.name, "--remove")
    assert {node["metadata"]["name"] for node in cluster.items("/api/v1/nodes")} == real


def test_pods_on_kwok_nodes_run_and_go_without_a_machine(
    bed: RunningBed, cluster: Api, run_pod: Callable[[Json], Json]
) -> None:
    api.command_line("load", bed.bed.name, "--nodes", "10", "--kind", "kwok", timeout=300)
    try:
        running = run_pod(pod("played", "sleep", "3600", node="load-00003"))
        assert (running["status"]["phase"], running["spec"]["nodeName"]) == ("Running", "load-00003")
        cluster.delete(f"{PODS}/played")
        cluster.wait_gone(f"{PODS}/played", timeout=300)
    finally:
        api.command_line("load", bed.bed.name, "--remove", timeout=300)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("join", "{bed}", "n99"), 1, "has no host 'n99'"),
        (("join", "{bed}", "kube"), 1, "kube is the bed's kube host; join one of n1 n2"),
        (("load", "{bed}", "--kind", "fake"), 2, "kind fake: unknown; give one of plain, kwok"),
        (("load", "{bed}", "--nodes", "0"), 2, "0 nodes for load: give a number from 1 to 20000"),
    ],
)
def test_bad_input_gets_one_line_and_changes_nothing(
    bed: RunningBed, arguments: tuple[str, ...], status: int, message: str
) -> None:
    done = api.command_line(*(word.format(bed=bed.bed.name) for word in arguments), check=False)
    assert (done.rc, done.out) == (status, "")
    assert message in done.err
    assert done.err.count("\n") == 1
