# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PBS cluster that is converted and taken back by the playbooks, beside jobs that run meanwhile.

Every test takes the next step. The bed's PBS is the double; its hooks run on the nodes, and kubelets and pods are real.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from e2e.beds import own_bed
from e2e.handover import workload
from e2e.handover.sharing import Sharing
from e2e.playing import until
from e2e.site_of import IMAGE
from e2e.whole_site import batch_system, differences, look
from nodeshare.cpuset import parse_cpus

pytestmark = pytest.mark.seconds(240)

BED = f"pbs-{os.getpid()}"
NODES = {"n1", "n2"}
HOOKS_ON_NODE = "/var/spool/pbs/mom_priv/hooks"
SITE_HOOK = "import pbs\npbs.event().accept()\n"
CGROUPS_HOOK = Path(__file__).parents[1] / "pbs" / "cgroups_hook.py"
CPUSETS = "$(ls -d /sys/fs/cgroup/cpuset 2>/dev/null || echo /sys/fs/cgroup)"
ALL = frozenset(range(os.cpu_count() or 1))
SMALL = {"small-n1", "small-n2"}


class PbsSite(Sharing):
    """A site with a hook and a queue of its own, which nobody may touch."""

    def qsub(self, *words: str) -> str:
        """The id of a job that runs by itself."""
        return self.bed.exec("ctl", ["qsub", *words, "--", "/bin/sleep", "900"]).out.strip()

    def job_state(self, job: str) -> str:
        answer = json.loads(self.ctl(f"qstat -x -f -F json {job}", check=False))
        return str(answer.get("Jobs", {}).get(job, {}).get("job_state", ""))

    def leases_of(self, node: str) -> set[str]:
        shown = json.loads(self.node(node, "nodeshare show --json"))
        return {f"{one['wlm']}/{one['job']}/{one['run']}" for one in shown["leases"]}

    def have_cgroups(self) -> None:
        """What pbs_cgroups is in OpenPBS."""
        mount = self.node("n1", f"echo {CPUSETS}").strip()
        self.ctl("qmgr -c 'create hook pbs_cgroups'; qmgr -c 'set hook pbs_cgroups order = 100'")
        self.ctl("qmgr -c 'set hook pbs_cgroups event = \"execjob_begin,execjob_end,execjob_abort\"'")
        for kind, content in (("python", CGROUPS_HOOK.read_text()), ("config", json.dumps({"mount_path": mount}))):
            self.ctl(f"qmgr -c 'import hook pbs_cgroups application/x-{kind} default -'", input=content)

    def placeholders(self, job: str) -> dict[str, dict[str, str]]:
        """By node, what the job's mirror pods ask for at the API."""
        words = ("--namespace=kube-system", "--selector=converged.hpc/placeholder=true", "--output=json")
        found = {}
        for pod in json.loads(self.kubectl("get", "pods", *words))["items"]:
            lease = json.loads(pod["metadata"]["annotations"]["converged.hpc/lease"])
            if lease["job"] == job and "deletionTimestamp" not in pod["metadata"]:
                found[pod["spec"]["nodeName"]] = pod["spec"]["containers"][0]["resources"]["requests"]
        return found

    def cores(self, node: str, group: str) -> frozenset[int]:
        """Of a cgroup and all that is below it; cgroup v1 and v2 have them in different files."""
        files = "-name cpuset.effective_cpus -o -name cpuset.cpus.effective"
        lines = self.node(node, f"cd {CPUSETS}; find '{group}' {files} | xargs cat").split()
        return frozenset().union(*(parse_cpus(line) for line in lines))

    def run_pods(self) -> None:
        """A large and a small one on each node, which leave a placeholder of one core no room."""
        pods = []
        for node in sorted(NODES):
            for name, cpu in (("large", f"{len(ALL) * 1000 - 800}m"), ("small", "100m")):
                pod = workload.pod(f"{name}-{node}", node=node)
                pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
                pods.append(pod)
        workload.apply(self, *pods)
        until(lambda: len(self.running_pods()) == len(pods), "all of them run")

    def stands_beside_pods(self, job: str, size: dict[str, str]) -> None:
        """A job of one core on each node shows there, and pods have all other cores."""
        until(lambda: self.placeholders(job) == dict.fromkeys(NODES, size), "it shows in its size on both nodes")
        for node in NODES:
            taken = self.cores(node, f"pbs_jobs.service/jobid/{job}")
            assert len(taken) == 1
            until(lambda node=node, taken=taken: self.cores(node, "kubepods") == ALL - taken, f"{node} keeps pods off")

    def end(self, job: str) -> None:
        """The job, and all that it had."""
        self.ctl(f"qdel {job}")
        until(lambda: not self.placeholders(job), "the placeholders go with their job")
        for node in NODES:
            until(lambda node=node: self.cores(node, "kubepods") == ALL, f"pods have all cores of {node}")

    def running_pods(self) -> set[str]:
        pods = self.objects("pods").items()
        return {
            name
            for name, pod in pods
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        }


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PbsSite]:
    """Two plain nodes with a MoM, a server, and a control plane."""
    with own_bed(request, BED, "--wlm", "pbs") as bed:
        found = PbsSite(bed, tmp_path_factory.mktemp("pbs"))
        found.set("all", pbs_share_queue="pods", pbs_share_queue_users=["placement"], pbs_share_period=5)
        found.ctl("qmgr -c 'create hook site' && qmgr -c 'set hook site event = execjob_begin'")
        found.ctl("qmgr -c 'import hook site application/x-python default -'", input=SITE_HOOK)
        found.ctl("qmgr -c 'create queue long' && qmgr -c 'set queue long queue_type = execution'")
        found.have_cgroups()
        yield found


@pytest.fixture(scope="module")
def before(site: PbsSite) -> Mapping[str, Mapping[str, object]]:
    return look(site)


def test_a_plan_touches_nothing_and_a_conversion_takes_running_jobs_into_account(
    site: PbsSite, before: Mapping[str, Any]
) -> None:
    planned = site.play("site", "--check", "--diff")
    assert "hook converged" in planned.out
    assert batch_system(site) == before["batch"]

    job = site.qsub("-l", "select=1:ncpus=1:host=n1")
    until(lambda: site.job_state(job) == "R", "the job runs")
    site.play("site")
    assert site.job_state(job) == "R"
    assert site.leases_of("n1") == {f"pbs/{job}/1"}
    assert site.leases_of("n2") == set()
    assert set(site.objects("nodes")) == NODES
    site.ctl(f"qdel {job}")
    again = site.play("site")
    assert set(again.changed().values()) == {0}, again.out
    said = site.play("status").out
    assert "; PBS free; Kubernetes Ready" in said, said
    words = ["runuser", "-u", "alice", "--", "qsub", "-q", "pods", "--", "/bin/true"]
    assert "Unauthorized Request" in site.bed.exec("ctl", words, check=False).err


def test_the_sharing_is_proved_with_real_pods_and_a_job_on_both_nodes(site: PbsSite) -> None:
    pod = {"converged_verify_image": IMAGE, "converged_verify_command": ["sleep", "100000"]}
    said = site.play("verify", converged_verify_nodes=sorted(NODES), **pod)
    assert "proved" in said.out
    assert json.loads(site.ctl("qstat -f -F json")).get("Jobs", {}) == {}


def test_a_second_run_has_jobs_beside_pods_and_knows_what_one_has_that_runs_already(site: PbsSite) -> None:
    site.play("restore", "--limit", "n2")
    job = site.qsub("-l", "select=2:ncpus=1:mem=64mb", "-l", "place=scatter")
    until(lambda: site.leases_of("n1") == {f"pbs/{job}/1"}, "a node that it holds, and one of PBS alone")
    site.set(
        "all",
        converged_share_mode="placeholder",
        node_share_pause_image="localhost/pause:local",
        node_share_deadline=20,
    )
    site.play("site")
    assert site.job_state(job) == "R"
    site.stands_beside_pods(job, {"cpu": "1", "memory": str(64 << 20)})
    site.end(job)


def test_a_job_shows_in_its_exact_size_on_both_nodes_and_pods_make_room_and_stay_off_its_cores(site: PbsSite) -> None:
    until(lambda: not site.tainted(), "no node is held as a whole")
    site.run_pods()
    job = site.qsub("-l", "select=2:ncpus=1:mem=1gb", "-l", "place=scatter")
    site.stands_beside_pods(job, {"cpu": "1", "memory": str(1 << 30)})
    until(lambda: site.running_pods() == SMALL, "as many pods as must have made room")
    assert site.tainted() == set()
    site.end(job)
    assert site.running_pods() == SMALL


def test_the_kill_switch_leaves_jobs_their_place(site: PbsSite) -> None:
    job = site.qsub("-l", "select=2:ncpus=1:mem=64mb", "-l", "place=scatter")
    size = {"cpu": "1", "memory": str(64 << 20)}
    site.stands_beside_pods(job, size)
    site.play("off")
    assert {site.is_active(node) for node in NODES} == {False}
    assert site.job_state(job) == "R"
    site.play("on")
    site.stands_beside_pods(job, size)
    assert {site.is_active(node) for node in NODES} == {True}


def test_the_way_back_leaves_pbs_and_its_nodes_as_they_were_and_jobs_alone(
    site: PbsSite, before: Mapping[str, Any]
) -> None:
    (job,) = json.loads(site.ctl("qstat -f -F json"))["Jobs"]
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
