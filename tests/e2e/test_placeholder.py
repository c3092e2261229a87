# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Share mode `placeholder` with a real kubelet: jobs show as pods of their size, and pods live beside them.

No batch system is here: the test makes a job's cgroup as OpenPBS's hook of cgroups does, and calls `nodeshare` by hand.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from e2e import listing, playing
from e2e.beds import own_bed
from e2e.handover import workload
from e2e.outage import without_api
from e2e.playing import until
from nodeshare.cpuset import parse_cpus
from testbed import api

pytestmark = pytest.mark.seconds(75)

BED = f"placeholder-{os.getpid()}"
ROLES = ("node_runtime", "node_kubelet", "node_share")
RESTORE = ("node_share/restore", "node_kubelet/restore", "node_runtime/restore")
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
NOT_RESTORED = {"unit network-online.target"}


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

    def node(self, *argv: str, check: bool = True) -> str:
        return self.bed.exec("n1", argv, check=check, timeout=120).out

    def job(self, job: str, *words: str, cores: str) -> str:
        """A job begins; the one line that says what came of it."""
        self.node("sh", "-c", MAKE_CGROUP, "make", f"{CGROUP}/{self.cgroups.cpusets}", job, cores)
        begin = ["nodeshare", "begin", "--wlm=pbs", f"--job={job}", "--run=1", *words]
        return self.bed.exec("n1", begin, timeout=120).err

    def end(self, job: str) -> None:
        self.node("nodeshare", "end", "--wlm=pbs", f"--job={job}", "--run=1")

    def pods(self, *options: str) -> dict[str, Any]:
        items = json.loads(self.bed.kubectl("get", "pods", "--output=json", *options))["items"]
        return {pod["metadata"]["name"]: pod for pod in items}

    def placeholders(self) -> dict[str, dict[str, str]]:
        """What each job's pod asks for at the API, by the job's id."""
        found = self.pods("--namespace=kube-system", "--selector=converged.hpc/placeholder=true")
        return {
            json.loads(pod["metadata"]["annotations"]["converged.hpc/lease"])["job"]: pod["spec"]["containers"][0][
                "resources"
            ]["requests"]
            for pod in found.values()
            if "deletionTimestamp" not in pod["metadata"]
        }

    def cores_of_pods(self) -> set[frozenset[int]]:
        """The cpusets of kubepods and of all that is below it."""
        find = ["find", f"{CGROUP}/{self.cgroups.cpusets}/kubepods", "-name", self.cgroups.cpus]
        return {parse_cpus(line) for line in self.node(*find, "-exec", "cat", "{}", "+").split()}

    def limits(self) -> tuple[int, int]:
        """Bytes of memory and the weight of all pods."""
        memory = self.node("cat", f"{CGROUP}/{self.cgroups.memory}")
        return int(memory), int(self.node("cat", f"{CGROUP}/{self.cgroups.weight}"))

    def run_pod(self, name: str, cpu: str, priority: int) -> None:
        pod = workload.pod(name, priorityClassName=f"class-{priority}")
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        workload.apply(self.bed, pod)
        until(lambda: self.pods()[name].get("status", {}).get("phase") == "Running", f"{name} runs")

    def snapshot(self) -> dict[str, object]:
        source = Path(listing.__file__).read_text(encoding="utf-8")
        found: dict[str, object] = json.loads(self.bed.exec("n1", ["python3", "-"], input=source, timeout=120).out)
        return found


@pytest.fixture(scope="module")
def plain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with own_bed(request, BED, "--wlm", "none", "--nodes", "1") as bed:
        yield Site(bed, tmp_path_factory.mktemp("placeholder"))


@pytest.fixture(scope="module")
def site(plain: Site) -> Iterator[Site]:
    """The plain node converted by the roles; and when all is done, plain again."""
    before = plain.snapshot()
    plain.play(*ROLES)
    for value in (1, 9):
        classes = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        plain.bed.kubectl(
            "apply", "--filename=-", input=json.dumps({**classes, "metadata": {"name": f"class-{value}"}})
        )
    yield plain
    plain.job("99.srv", "--cpus=1", "--mem=64MiB", cores="1")
    plain.play(*RESTORE)
    after = plain.snapshot()
    left = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert left <= NOT_RESTORED, sorted(left)


def test_the_roles_change_nothing_twice_and_the_kubelet_has_a_directory_that_is_roots(site: Site) -> None:
    assert site.play(*ROLES).changed() == {"n1": 0}
    assert site.node("stat", "--format=%a %U", "/var/lib/converged/placeholders").split() == ["700", "root"]


def test_jobs_show_as_pods_of_their_exact_size_and_pods_stay_off_their_cores(site: Site) -> None:
    memory, weight = site.limits()
    line = site.job(
        "15[1].pbs-srv", "--cpus=1", "--mem=102400kb", "--cgroup=pbs_jobs.service/jobid/15[1].pbs-srv", cores="1"
    )
    assert "outcome=accept lease=new placed=1" in line, line
    assert site.placeholders() == {"15[1].pbs-srv": {"cpu": "1", "memory": str(100 << 20)}}
    assert site.cores_of_pods() == {ALL - {1}}
    capped, lighter = site.limits()
    assert 0 <= capped - (memory - (100 << 20)) < 1 << 16, "but for whole pages"
    assert lighter == weight * (len(ALL) - 1) // len(ALL)
    site.run_pod("beside", "200m", 1)
    assert site.cores_of_pods() == {ALL - {1}}, "a pod that came later, too"
    site.end("15[1].pbs-srv")
    assert (site.cores_of_pods(), site.limits()) == ({ALL}, (memory, weight))
    until(lambda: not site.placeholders(), "the placeholder goes with its job")
    site.bed.kubectl("delete", "pod", "beside", "--now")


def test_pods_make_room_by_priority_and_no_more_of_them_than_must(site: Site) -> None:
    for name, cpu, priority in (("low", "600m", 1), ("high", "400m", 9)):
        site.run_pod(name, cpu, priority)
    line = site.job("16.srv", "--cpus=1", "--mem=64MiB", cores="0")
    assert re.search(r"outcome=accept .*evicted=1 placed=1 ", line), line
    pods = site.pods()
    assert pods["high"]["status"]["phase"] == "Running"
    assert "low" not in pods or "deletionTimestamp" in pods["low"]["metadata"]
    assert site.cores_of_pods() == {ALL - {0}}
    site.end("16.srv")
    site.bed.kubectl("delete", "pod", "high", "--now")


def test_without_the_api_a_job_has_its_place_all_the_same(site: Site) -> None:
    with without_api(site.bed):
        line = site.job("17.srv", "--cpus=1", "--mem=64MiB", cores="1")
        assert re.search('outcome=accept .*reason="1 held by placeholders"', line), line
        assert site.cores_of_pods() == {ALL - {1}}
        site.end("17.srv")
        assert site.cores_of_pods() == {ALL}
    assert not site.placeholders()


def test_a_kubelet_that_lets_nothing_in_is_reported_and_a_kill_switch_leaves_jobs_their_place(site: Site) -> None:
    site.node("systemctl", "kill", "--signal=STOP", "kubelet")
    try:
        line = site.job("18.srv", "--cpus=1", "--mem=64MiB", cores="1")
    finally:
        site.node("systemctl", "kill", "--signal=CONT", "kubelet")
    assert re.search(r'outcome=accept .*reason="the kubelet has not admitted lease-pbs-18-srv-', line), line
    assert site.cores_of_pods() == {ALL - {1}}
    site.node("nodeshare", "repair")
    assert site.placeholders() == {"18.srv": {"cpu": "1", "memory": str(64 << 20)}}
    site.node("nodeshare", "off")
    assert site.node("systemctl", "is-active", "kubelet", check=False).strip() == "inactive"
    site.node("nodeshare", "on")
    until(
        lambda: "18.srv" in site.placeholders() and site.cores_of_pods() == {ALL - {1}}, "the job has its place again"
    )
    site.end("18.srv")
