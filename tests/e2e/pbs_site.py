# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PBS cluster with a hook and a queue of its own, its jobs, and what they leave to pods."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from e2e import workload
from e2e.backed_pods import DAEMON, SLOW, polite
from e2e.handover.sharing import Sharing
from e2e.playing import until
from e2e.site_of import IMAGE
from nodeshare.model.cpu_list import parse_cpus

NODES = {"n1", "n2"}
HOOKS_ON_NODE = "/var/spool/pbs/mom_priv/hooks"
SITE_HOOK = "import pbs\npbs.event().accept()\n"
CGROUPS_HOOK = Path(__file__).parents[1] / "pbs" / "cgroups_hook.py"
CPUSETS = "$(ls -d /sys/fs/cgroup/cpuset 2>/dev/null || echo /sys/fs/cgroup)"
ALL = frozenset(range(os.cpu_count() or 1))
PROOF = {"converged_verify_image": IMAGE, "converged_verify_command": ["sleep", "100000"]}
BESIDE_PODS = {
    "converged_share_mode": "placeholder",
    "node_share_pause_image": "localhost/pause:local",
    "node_share_deadline": 200,
}


class PbsSite(Sharing):
    """A site with a hook and a queue of its own, which no role may touch."""

    def qsub(self, *words: str, user: str = "root", seconds: int = 900) -> str:
        """The id of a job that runs by itself."""
        argv = ["qsub", "-j", "oe", "-o", "/dev/null", *words, "--", "/bin/sleep", str(seconds)]
        return self.bed.exec("ctl", ["runuser", "-u", user, "--", *argv]).out.strip()

    def jobs(self) -> dict[str, dict[str, Any]]:
        """All that have not ended."""
        found: dict[str, dict[str, Any]] = json.loads(self.ctl("qstat -f -F json")).get("Jobs", {})
        return found

    def job_state(self, job: str) -> str:
        answer = json.loads(self.ctl(f"qstat -f -F json {job}", check=False))
        return str(answer.get("Jobs", {}).get(job, {}).get("job_state", ""))

    def exit_status(self, job: str) -> str:
        """Return what the job's script ended with, of a job that PBS has in its history."""
        found = json.loads(self.ctl(f"qstat -x -f -F json {job}"))["Jobs"][job]
        return str(found["Exit_status"])

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
        """Return the user that evicted it."""
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

    def prepare(self) -> None:
        """What the cluster has before it is converted, and the settings of this site."""
        self.set(
            "all",
            pbs_share_queue="pods",
            pbs_share_queue_users=[DAEMON],
            pbs_share_period=20,
            # More than a test needs to get as far as to let a pod leave.
            pbs_share_timeout=280,
            pbs_share_alarm=320,
            node_share_limit=300,
            node_share_controller_period=10,
        )
        self.ctl("qmgr -c 'create hook site' && qmgr -c 'set hook site event = execjob_begin'")
        self.ctl("qmgr -c 'import hook site application/x-python default -'", input=SITE_HOOK)
        self.ctl("qmgr -c 'create queue long' && qmgr -c 'set queue long queue_type = execution'")
        self.have_cgroups()
        self.have_run_a_job()
