# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PBS cluster that is converted and taken back by the playbooks, beside jobs that run meanwhile.

Every test takes the next step: jobs stand beside pods, then nodes are for pods that are jobs. Nodes that are handed
over as a whole are in test_pbs_site_handover.py. The bed's PBS is OpenPBS where it is installed, otherwise its double.
Hooks run on the nodes either way, and kubelets and pods are real.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from e2e import workload
from e2e.backed_pods import DAEMON, GANG, GRACE, NAMESPACE, USER, BackedPods
from e2e.beds import own_bed
from e2e.pbs_site import BESIDE_PODS, HOOKS_ON_NODE, NODES, PROOF, SITE_HOOK, PbsSite
from e2e.playing import until
from e2e.whole_site import differences, look

BED = f"pbs-{os.getpid()}"
SMALL = {"small-n1", "small-n2"}
SIZE = {"cpu": "1", "memory": str(64 << 20)}


def said_of(pod: dict[str, Any]) -> str:
    """Why it has no node."""
    conditions = pod["status"].get("conditions", [])
    return "".join(one.get("message", "") for one in conditions if one["type"] == "PodScheduled")


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PbsSite]:
    """Two plain nodes with a MoM, a server, and a control plane."""
    with own_bed(request, BED, "--wlm", "pbs") as bed:
        found = PbsSite(bed, tmp_path_factory.mktemp("pbs"))
        found.prepare()
        found.set("all", **BESIDE_PODS)
        yield found


@pytest.fixture(scope="module")
def before(site: PbsSite) -> Mapping[str, Mapping[str, object]]:
    return look(site)


# In every change: each module in check mode in tests/pbs/test_modules_on_pbs.py, and the plan of a whole site in the
# demo and in test_torque_site.
@pytest.mark.soak
def test_a_plan_touches_nothing(site: PbsSite, before: Mapping[str, Any]) -> None:
    planned = site.play("site", "--check", "--diff")
    assert "hook converged" in planned.out
    assert differences(before, look(site)) == {}


@pytest.mark.usefixtures("before")
def test_a_conversion_takes_running_jobs_into_account(site: PbsSite) -> None:
    job = site.qsub("-l", "select=1:ncpus=1:mem=64mb:host=n1")
    until(lambda: site.job_state(job) == "R", "the job runs")
    site.play("site")
    assert site.job_state(job) == "R"
    assert site.leases_of("n1") == {f"pbs/{job}/1"}
    assert site.leases_of("n2") == set()
    assert set(site.objects("nodes")) == NODES
    until(lambda: site.placeholders(job) == {"n1": {"cpu": "1", "memory": str(64 << 20)}}, "it shows in its size")
    site.end(job)
    said = site.play("status").out
    assert "; PBS free; Kubernetes Ready" in said, said
    words = ["runuser", "-u", USER, "--", "qsub", "-q", "pods", "--", "/bin/true"]
    assert "Unauthorized Request" in site.bed.exec("ctl", words, check=False).err


# In every change: the roles of a PBS site in molecule's pbs_share, and a whole site in test_torque_site.
@pytest.mark.soak
def test_a_second_run_changes_nothing(site: PbsSite) -> None:
    again = site.play("site")
    assert set(again.changed().values()) == {0}, again.out


@pytest.fixture(scope="module")
def backed(site: PbsSite) -> BackedPods:
    return BackedPods(site)


def test_a_job_shows_in_its_exact_size_on_both_nodes_and_pods_make_room_and_stay_off_its_cores(
    site: PbsSite, backed: BackedPods
) -> None:
    backed.deploy()
    until(lambda: not site.tainted(), "no node is held as a whole")
    site.run_pods()
    asked_at = time.time()
    job = site.qsub("-l", "select=2:ncpus=1:mem=1gb", "-l", "place=scatter")
    first, second = site.hosts_of(job)
    until(lambda: site.leaving() == {f"large-{node}": GRACE for node in NODES}, "both are asked to leave in their time")
    assert f"pbs/{job}/1" not in site.leases_of(second), "PBS has not begun it there"
    daemon = {"converged:placement:ctl"}
    until(lambda: site.who_asked(f"large-{second}", since=asked_at) == daemon, "the daemon alone has asked it to leave")
    backed.let_go(second)
    until(lambda: f"large-{second}" not in site.objects("pods"), "it leaves by itself")
    backed.let_go(first)
    site.stands_beside_pods(job, {"cpu": "1", "memory": str(1 << 30)})
    until(lambda: site.running_pods() == SMALL, "as many pods as must have made room")
    assert "evicted=" not in site.begin_of(job, second), "the hook finds room"
    backed.keep_waiting()
    assert site.tainted() == set()
    site.end(job)
    assert site.running_pods() == SMALL


def test_beside_pods_the_sharing_is_proved_by_what_stands_there(site: PbsSite) -> None:
    said = site.play("verify", converged_verify_nodes=["n1"], **PROOF)
    assert "stood beside pods on n1" in said.out
    assert "proved" in said.out


def test_a_node_that_pbs_closes_is_closed_to_pods_until_pbs_opens_it(site: PbsSite) -> None:
    site.ctl("pbsnodes -o -C disk n2")
    until(lambda: site.tainted() == {"n2"}, "it is tainted")
    site.ctl("pbsnodes -r -C '' n2")
    until(lambda: site.tainted() == set(), "it is open again")


@pytest.fixture(scope="module")
def scattered(site: PbsSite) -> str:
    """A job that has a core of each node."""
    job = site.qsub("-l", "select=2:ncpus=1:mem=64mb", "-l", "place=scatter")
    site.stands_beside_pods(job, SIZE)
    return job


# In every change: `nodeshare off` and `on` beside a job in test_placeholder, and the playbooks, which ask no batch
# system, in the demo and in test_site_life.
@pytest.mark.soak
def test_the_kill_switch_leaves_jobs_their_place(site: PbsSite, scattered: str) -> None:
    site.play("off")
    assert {site.is_active(node) for node in NODES} == {False}
    assert site.job_state(scattered) == "R"
    site.play("on")
    site.stands_beside_pods(scattered, SIZE)
    for node in NODES:  # a kubelet that was quicker than its runtime starts once more
        until(lambda node=node: site.is_active(node), f"{node} has its kubelet again")


def test_another_share_mode_gives_the_nodes_to_pods_that_are_jobs_and_to_no_others(
    site: PbsSite, scattered: str
) -> None:
    there = site.running_pods()
    assert list(site.jobs()) == [scattered]
    site.set("all", converged_share_mode="backed", pbs_share_queue_users=[DAEMON, USER])
    site.play("site")
    # One whose kubelet has just started again may not be ready for a moment.
    closed = {name: {"converged.hpc/backed"} for name in NODES}
    until(lambda: site.taints() == closed, "all are closed")
    for name, node in site.objects("nodes").items():
        assert node["metadata"]["labels"]["node-restriction.kubernetes.io/converged-batch-node"] == name
        assert node["metadata"]["labels"]["node-restriction.kubernetes.io/converged-share-fence"] == "cores"
    site.stands_beside_pods(scattered, SIZE)
    site.end(scattered)
    workload.apply(site, workload.pod("stray"))
    until(lambda: "untolerated taint" in said_of(site.objects("pods")["stray"]), "the taint keeps it away")
    assert site.running_pods() == there


def test_a_deployment_a_gang_and_half_a_core_run_as_jobs_of_their_user_beside_a_job(
    site: PbsSite, backed: BackedPods
) -> None:
    backed.apply()
    until(lambda: set(backed.running()) == {"web", "half", *GANG}, "all their containers run")
    nodes, jobs = backed.running(), site.jobs()
    hosts = {job["Job_Name"].split("-")[0]: job["exec_host"] for job in jobs.values()}
    assert {name: host.partition("/")[0] for name, host in hosts.items()} == {
        "web": nodes["web"],
        "half": nodes["half"],
        "gang": nodes["gang-0"],
    }
    assert {nodes[name] for name in GANG} == {nodes["gang-0"]}
    whose = {
        (job["Job_Owner"].partition("@")[0], job["Account_Name"], job["project"], job["queue"], job["job_state"])
        for job in jobs.values()
    }
    assert whose == {(USER, "phys-2026", NAMESPACE, "pods", "R")}
    assert [job["Resource_List"]["ncpus"] for job in jobs.values()] == [1, 1, 1]
    seen = site.bed.exec("ctl", ["runuser", "-u", USER, "--", "qstat"]).out
    assert all(name.partition(".")[0] in seen for name in jobs)
    assert {line.split()[1].split("-")[0] for line in seen.splitlines()[2:]} == {"web", "half", "gang"}

    ordinary = site.qsub("-l", "select=1:ncpus=1:mem=64mb", user="ops")
    until(lambda: list(site.placeholders(ordinary).values()) == [{"cpu": "1", "memory": str(64 << 20)}], "it shows")
    assert {lease for node in NODES for lease in site.leases_of(node)} == {f"pbs/{ordinary}/1"}
    assert backed.running() == nodes


@pytest.mark.soak
def test_an_administrator_ends_pods_by_their_job_and_a_job_ends_when_its_last_container_has(
    site: PbsSite, backed: BackedPods
) -> None:
    jobs = {job["Job_Name"].split("-")[0]: name for name, job in site.jobs().items()}
    site.ctl(f"qdel {jobs['gang']}")
    until(lambda: not set(GANG) & set(backed.pods()), "the gang leaves with its job")
    assert set(GANG) <= backed.farewells()
    until(lambda: "JobEnded" in backed.events("gang-0"), "the pods are told why")

    node = backed.running()["half"]
    assert backed.is_slow_there(node)
    site.kubectl("delete", "pod", "half", f"--namespace={NAMESPACE}", "--wait=false")
    until(lambda: "half" in backed.farewells(), "its container has been asked to end")
    # The daemon has seen that, too, once it has seen what was asked of it later.
    site.kubectl("delete", "deployment", "web", f"--namespace={NAMESPACE}", "--wait=false")
    until(lambda: jobs["web"] not in site.jobs(), "the job of the Deployment's pod ends")
    assert backed.is_slow_there(node)
    assert jobs["half"] in site.jobs()
    backed.let_go(node)
    until(lambda: jobs["half"] not in site.jobs(), "the job ends, too")
    assert not backed.is_slow_there(node)


def test_without_pods_no_job_of_theirs_is_left(site: PbsSite, backed: BackedPods) -> None:
    for node in NODES:
        backed.let_go(node)
    backed.clear()
    until(lambda: len(site.jobs()) == 1, "no pod has a job any more, and the ordinary one goes on")
    backed.take_back()


def test_the_way_back_leaves_pbs_and_its_nodes_as_they_were_and_jobs_alone(
    site: PbsSite, before: Mapping[str, Any]
) -> None:
    (job,) = site.jobs()
    said = site.play("restore")
    assert site.job_state(job) == "R"
    site.ctl(f"qdel {job}")
    assert said.out.count("things are as they were") == len(NODES) + 1
    assert differences(before, look(site)) == {}
    for node in NODES:
        until(
            lambda node=node: "converged" not in site.node(node, f"ls {HOOKS_ON_NODE}"), f"{node} has no hook of ours"
        )
        assert site.node(node, f"cat {HOOKS_ON_NODE}/site.PY") == SITE_HOOK
    job = site.qsub("-l", "select=2:ncpus=1", "-l", "place=scatter")
    until(lambda: site.job_state(job) == "R", "jobs start as before")
    site.ctl(f"qdel {job}")
