# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that shares by placeholders, without a batch system.

A job is its cgroup, as OpenPBS's hook of cgroups makes it, and a call of `nodeshare`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from e2e import playing, workload
from e2e.playing import until
from nodeshare.model.cpu_list import parse_cpus
from testbed import api

ROLES = ("node_runtime", "node_kubelet", "node_share")
CGROUP = "/sys/fs/cgroup"
# A node has all cores of the machine, of which pods may ask for one and a half.
ALL = frozenset(range(os.cpu_count() or 1))
RESERVED = f"{1000 * len(ALL) - 1500}m"
# As pbs_cgroups of OpenPBS: the job's id as it is, below a service that is only a folder.
MAKE_CGROUP = """
cd "$1"
for group in pbs_jobs.service pbs_jobs.service/jobid "pbs_jobs.service/jobid/$2"; do
  mkdir -p "$group"
  if test -e cgroup.controllers; then echo +cpuset > "$group/../cgroup.subtree_control"
  else for file in cpuset.mems cpuset.cpus; do cat "$group/../$file" > "$group/$file"; done
  fi
done
echo "$3" > "pbs_jobs.service/jobid/$2/cpuset.cpus"
"""


class Cgroups(NamedTuple):
    """Where one version has what the fence sets: cpusets, and memory and weight of all pods."""

    cpusets: str
    cpus: str
    memory: str
    weight: str


V1 = Cgroups("cpuset", "cpuset.cpus", "memory/kubepods/memory.limit_in_bytes", "cpu/kubepods/cpu.shares")
V2 = Cgroups(".", "cpuset.cpus.effective", "kubepods/memory.max", "kubepods/cpu.weight")


class Site(playing.Site):
    """One node that shares by placeholders."""

    def __init__(self, bed: api.RunningBed, folder: Path) -> None:
        super().__init__(bed, folder)
        unified = bed.exec("n1", ["test", "-e", f"{CGROUP}/cgroup.controllers"], check=False).rc == 0
        self.cgroups = V2 if unified else V1
        self.set(
            "converged_nodes",
            **playing.IN_CONTAINERS,
            converged_wlm="pbs",
            converged_share_mode="placeholder",
            node_kubelet_config={"systemReserved": {"cpu": RESERVED}},
            node_share_pause_image="localhost/pause:local",
            node_share_deadline=20,
            node_share_limit=60,
            node_share_repair_interval=3600,  # a repair is called, and not awaited
        )

    def play(self, *steps: str, check: bool = True) -> playing.Said:
        return self.run([playing.play("converged_nodes", *steps)], check=check)

    def job(self, job: str, *words: str, cores: str) -> str:
        """A job begins; the one line that says what came of it."""
        self.ask("n1", "sh", "-c", MAKE_CGROUP, "make", f"{CGROUP}/{self.cgroups.cpusets}", job, cores)
        begin = ["nodeshare", "begin", "--wlm=pbs", f"--job={job}", "--run=1", *words]
        return self.bed.exec("n1", begin).err

    def end(self, job: str) -> None:
        self.ask("n1", "nodeshare", "end", "--wlm=pbs", f"--job={job}", "--run=1")

    def placeholders(self) -> dict[str, dict[str, str]]:
        """What each job's pod asks for at the API, by the job's id."""
        words = ("--namespace=kube-system", "--selector=converged.hpc/placeholder=true", "--output=json")
        return {
            json.loads(pod["metadata"]["annotations"]["converged.hpc/lease"])["job"]: pod["spec"]["containers"][0][
                "resources"
            ]["requests"]
            for pod in json.loads(self.kubectl("get", "pods", *words))["items"]
            if "deletionTimestamp" not in pod["metadata"]
        }

    def cores_of_pods(self) -> set[frozenset[int]]:
        """The cpusets of kubepods and of all that is below it, some of which may just go."""
        find = ["find", f"{CGROUP}/{self.cgroups.cpusets}/kubepods", "-name", self.cgroups.cpus]
        return {parse_cpus(line) for line in self.ask("n1", *find, "-exec", "cat", "{}", "+", check=False).split()}

    def processes_of_pods(self) -> list[str]:
        find = ["find", f"{CGROUP}/{self.cgroups.cpusets}/kubepods", "-name", "cgroup.procs"]
        return self.ask("n1", *find, "-exec", "cat", "{}", "+").split()

    def limits(self) -> tuple[int, int]:
        """Bytes of memory and the weight of all pods."""
        memory = self.ask("n1", "cat", f"{CGROUP}/{self.cgroups.memory}")
        return int(memory), int(self.ask("n1", "cat", f"{CGROUP}/{self.cgroups.weight}"))

    def run_pod(self, name: str, cpu: str, priority: int | str, **fields: Any) -> None:
        """Of a class of this site's by its number, or of one of Kubernetes' own by its name."""
        given = priority if isinstance(priority, str) else f"class-{priority}"
        pod = workload.pod(name, priorityClassName=given, **fields)
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        workload.apply(self.bed, pod)
        until(lambda: self.objects("pods")[name].get("status", {}).get("phase") == "Running", f"{name} runs")
