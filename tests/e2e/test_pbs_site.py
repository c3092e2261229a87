# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PBS cluster that is converted and taken back by the playbooks, beside jobs that run meanwhile.

Every test takes the next step. The bed's PBS is OpenPBS where it is installed, otherwise its double. Hooks run on the
nodes either way, and kubelets and pods are real.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from e2e import workload
from e2e.backed_pods import DAEMON, GANG, GRACE, NAMESPACE, SLOW, USER, BackedPods, polite
from e2e.beds import own_bed
from e2e.handover.sharing import Sharing
from e2e.playing import until
from e2e.site_of import IMAGE
from e2e.whole_site import batch_system, differences, look
from nodeshare.cpuset import parse_cpus

pytestmark = pytest.mark.seconds(650)

BED = f"pbs-{os.getpid()}"
NODES = {"n1", "n2"}
HOOKS_ON_NODE = "/var/spool/pbs/mom_priv/hooks"
SITE_HOOK = "import pbs\npbs.event().accept()\n"
CGROUPS_HOOK = Path(__file__).parents[1] / "pbs" / "cgroups_hook.py"
CPUSETS = "$(ls -d /sys/fs/cgroup/cpuset 2>/dev/null || echo /sys/fs/cgroup)"
ALL = frozenset(range(os.cpu_count() or 1))
SMALL = {"small-n1", "small-n2"}
PROOF = {"converged_verify_image": IMAGE, "converged_verify_command": ["sleep", "100000"]}


class PbsSite(Sharing):
    """A site with a hook and a queue of its own, which nobody may touch."""

    def qsub(self, *words: str, user: str = "root") -> str:
        """The id of a job that runs by itself."""
        argv = ["qsub", "-j", "oe", "-o", "/dev/null", *words, "--", "/bin/sleep", "900"]
        return self.bed.exec("ctl", ["runuser", "-u", user, "--", *argv]).out.strip()

    def jobs(self) -> dict[str, dict[str, Any]]:
        """All that have not ended."""
        found: dict[str, dict[str, Any]] = json.loads(self.ctl("qstat -f -F json")).get("Jobs", {})
        return found

    def job_state(self, job: str) -> str:
        answer = json.loads(self.ctl(f"qstat -f -F json {job}", check=False))
        return str(answer.get("Jobs", {}).get(job, {}).get("job_state", ""))

    def hosts_of(self, job: str) -> list[str]:
        """Those that PBS has chosen, its first one first."""
        until(lambda: "exec_host" in self.jobs()[job], "PBS has chosen")
        return [word.partition("/")[0] for word in self.jobs()[job]["exec_host"].split("+")]

    def leases_of(self, node: str) -> set[str]:
        shown = json.loads(self.node(node, "nodeshare show --json"))
        return {f"{one['wlm']}/{one['job']}/{one['run']}" for one in shown["leases"]}

    def have_cgroups(self) -> None:
        """pbs_cgroups: OpenPBS brings it, switched off, and the double has none."""
        if "Hook pbs_cgroups\n" in self.ctl("qmgr -c 'list hook'"):
            self.ctl("qmgr -c 'set hook pbs_cgroups enabled = true'")
            return
        mount = self.node("n1", f"echo {CPUSETS}").strip()
        self.ctl("qmgr -c 'create hook pbs_cgroups'; qmgr -c 'set hook pbs_cgroups order = 100'")
        self.ctl("qmgr -c 'set hook pbs_cgroups event = \"execjob_begin,execjob_end,execjob_abort\"'")
        config = json.dumps({"mount_path": mount, "cgroup": {"cpuset": {"enabled": True}}})
        for kind, content in (("python", CGROUPS_HOOK.read_text()), ("config", config)):
            self.ctl(f"qmgr -c 'import hook pbs_cgroups application/x-{kind} default -'", input=content)

    def have_run_a_job(self) -> None:
        """A node's first job leaves what stays for good, as pbs_cgroups its folder of jobs."""
        job = self.qsub("-l", "select=2:ncpus=1", "-l", "place=scatter")
        until(lambda: self.job_state(job) == "R", "the first job runs")
        self.ctl(f"qdel {job}")
        until(lambda: not self.jobs(), "it has ended")

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
        """Of a cgroup and all that is below it, some of which may just go; v1 and v2 have them in different files."""
        files = "-name cpuset.effective_cpus -o -name cpuset.cpus.effective"
        lines = self.node(node, f"cd {CPUSETS}; find '{group}' {files} | xargs cat", check=False).split()
        return frozenset().union(*(parse_cpus(line) for line in lines))

    def run_pods(self) -> None:
        """A small one on each node, and a large one that leaves late: a placeholder of one core has no room there."""
        large = [polite(f"large-{node}", f"{len(ALL) * 1000 - 800}m", last=SLOW, node=node) for node in sorted(NODES)]
        small = [polite(f"small-{node}", "100m", last="", node=node) for node in sorted(NODES)]
        workload.apply(self, *large, *small)
        until(lambda: len(self.running_pods()) == len(large + small), "all of them run")

    def who_asked(self, pod: str, *, since: float) -> set[str]:
        """Who has evicted it."""
        found = self.audit(since=since, verb="create", resource="pods/eviction", name=pod)
        return {event.user for event in found if event.code == 201}

    def leaving(self) -> dict[str, int]:
        """In how many seconds, by name."""
        metas = [pod["metadata"] for pod in self.objects("pods").values()]
        return {meta["name"]: meta["deletionGracePeriodSeconds"] for meta in metas if "deletionTimestamp" in meta}

    def begin_of(self, job: str, node: str) -> str:
        """What nodeshare has said there, which it does when all is done."""

        def said() -> list[str]:
            lines = self.node(node, "journalctl --identifier=nodeshare --output=cat").splitlines()
            return [line for line in lines if line.startswith("event=begin ") and job in line]

        until(lambda: len(said()) == 1, f"nodeshare says on {node} that {job} begins")
        return said()[0]

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


def taints_of(node: dict[str, Any]) -> list[str]:
    return [taint["key"] for taint in node["spec"].get("taints", ())]


def said_of(pod: dict[str, Any]) -> str:
    """Why it has no node."""
    conditions = pod["status"].get("conditions", [])
    return "".join(one.get("message", "") for one in conditions if one["type"] == "PodScheduled")


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PbsSite]:
    """Two plain nodes with a MoM, a server, and a control plane."""
    with own_bed(request, BED, "--wlm", "pbs") as bed:
        found = PbsSite(bed, tmp_path_factory.mktemp("pbs"))
        found.set(
            "all",
            pbs_share_queue="pods",
            pbs_share_queue_users=[DAEMON],
            pbs_share_period=5,
            # More than a test needs to get as far as to let a pod leave.
            pbs_share_timeout=280,
            pbs_share_alarm=320,
            node_share_limit=300,
            node_share_controller_period=3,
        )
        found.ctl("qmgr -c 'create hook site' && qmgr -c 'set hook site event = execjob_begin'")
        found.ctl("qmgr -c 'import hook site application/x-python default -'", input=SITE_HOOK)
        found.ctl("qmgr -c 'create queue long' && qmgr -c 'set queue long queue_type = execution'")
        found.have_cgroups()
        found.have_run_a_job()
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
    words = ["runuser", "-u", USER, "--", "qsub", "-q", "pods", "--", "/bin/true"]
    assert "Unauthorized Request" in site.bed.exec("ctl", words, check=False).err


def test_the_sharing_is_proved_with_real_pods_and_a_job_on_both_nodes(site: PbsSite) -> None:
    said = site.play("verify", converged_verify_nodes=sorted(NODES), **PROOF)
    assert "none of these pods ran beside it" in said.out
    assert "proved" in said.out
    assert site.jobs() == {}


def test_a_second_run_has_jobs_beside_pods_and_knows_what_one_has_that_runs_already(site: PbsSite) -> None:
    site.play("restore", "--limit", "n2")
    job = site.qsub("-l", "select=2:ncpus=1:mem=64mb", "-l", "place=scatter")
    until(lambda: site.leases_of("n1") == {f"pbs/{job}/1"}, "a node that it holds, and one of PBS alone")
    site.set(
        "all",
        converged_share_mode="placeholder",
        node_share_pause_image="localhost/pause:local",
        node_share_deadline=200,
    )
    site.play("site")
    assert site.job_state(job) == "R"
    site.stands_beside_pods(job, {"cpu": "1", "memory": str(64 << 20)})
    site.end(job)


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


def test_the_kill_switch_leaves_jobs_their_place(site: PbsSite) -> None:
    job = site.qsub("-l", "select=2:ncpus=1:mem=64mb", "-l", "place=scatter")
    size = {"cpu": "1", "memory": str(64 << 20)}
    site.stands_beside_pods(job, size)
    site.play("off")
    assert {site.is_active(node) for node in NODES} == {False}
    assert site.job_state(job) == "R"
    site.play("on")
    site.stands_beside_pods(job, size)
    for node in NODES:  # a kubelet that was quicker than its runtime starts once more
        until(lambda node=node: site.is_active(node), f"{node} has its kubelet again")


def test_a_third_run_gives_the_nodes_to_pods_that_are_jobs_and_to_no_others(site: PbsSite) -> None:
    (job,), there = site.jobs(), site.running_pods()
    site.set("all", converged_share_mode="backed", pbs_share_queue_users=[DAEMON, USER])
    site.play("site")
    # One whose kubelet has just started again may not be ready for a moment.
    closed = {name: ["converged.hpc/backed"] for name in NODES}
    until(lambda: {name: taints_of(node) for name, node in site.objects("nodes").items()} == closed, "all are closed")
    for name, node in site.objects("nodes").items():
        assert node["metadata"]["labels"]["node-restriction.kubernetes.io/converged-batch-node"] == name
        assert node["metadata"]["labels"]["node-restriction.kubernetes.io/converged-share-fence"] == "cores"
    site.stands_beside_pods(job, {"cpu": "1", "memory": str(64 << 20)})
    site.end(job)
    workload.apply(site, workload.pod("stray"))
    until(lambda: "untolerated taint" in said_of(site.objects("pods")["stray"]), "the taint keeps it away")
    assert site.running_pods() == there


def test_a_deployment_a_gang_and_half_a_core_run_as_jobs_of_their_user_beside_a_job(
    site: PbsSite, backed: BackedPods
) -> None:
    backed.apply()
    until(lambda: set(backed.running()) == {"web", "half", *GANG}, "all their containers run")
    nodes, jobs = backed.running(), site.jobs()
    hosts = {job["Job_Name"].rpartition("_")[2].split("-")[0]: job["exec_host"] for job in jobs.values()}
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

    ordinary = site.qsub("-l", "select=1:ncpus=1:mem=64mb", user="ops")
    until(lambda: list(site.placeholders(ordinary).values()) == [{"cpu": "1", "memory": str(64 << 20)}], "it shows")
    assert {lease for node in NODES for lease in site.leases_of(node)} == {f"pbs/{ordinary}/1"}
    assert backed.running() == nodes


def test_an_administrator_ends_pods_by_their_job_and_a_job_ends_when_its_last_container_has(
    site: PbsSite, backed: BackedPods
) -> None:
    jobs = {job["Job_Name"].rpartition("_")[2].split("-")[0]: name for name, job in site.jobs().items()}
    site.ctl(f"qdel {jobs['gang']}")
    until(lambda: not set(GANG) & set(backed.pods()), "the gang leaves with its job")
    assert set(GANG) <= backed.farewells()
    until(lambda: "JobEnded" in backed.events("gang-0"), "they are told why")

    node = backed.running()["half"]
    assert backed.is_slow_there(node)
    site.kubectl("delete", "pod", "half", f"--namespace={NAMESPACE}", "--wait=false")
    until(lambda: "half" in backed.farewells(), "its container has been asked to end")
    time.sleep(3)
    assert backed.is_slow_there(node)
    assert jobs["half"] in site.jobs()
    backed.let_go(node)
    until(lambda: jobs["half"] not in site.jobs(), "the job ends, too")
    assert not backed.is_slow_there(node)
    assert jobs["web"] in site.jobs()
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
