# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of several cores beside pods, on four processors and two NUMA nodes: which run where, by the kernel's answer.

The node shares by placeholders, with a real kubelet. A job is its cgroup, as OpenPBS's hook of cgroups makes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from e2e import workload
from e2e.beds import own_bed
from e2e.placeholder_site import MAKE_CGROUP
from e2e.playing import IN_MACHINES, play, until
from e2e.vm.site import CGROUPS, MACHINE_SECONDS, NODE, MachineHosts
from testbed.api import RunningBed
from testbed.machines import CPUS

pytestmark = pytest.mark.soak

# Variables are whole seconds.
SECONDS = int(MACHINE_SECONDS)
BED = f"vmcores-{os.getpid()}"
ALL = frozenset(range(CPUS))
ROLES = ("node_runtime", "node_kubelet", "node_share")
BUSY = ["sh", "-c", "while :; do :; done"]
# The processors on which running processes of a cgroup were found, in so many looks. One that sleeps has the number of
# the processor that it was on last, which may be before the fence.
FOUND = """
for look in $(seq 20); do
  for pid in $(find "$1" -name cgroup.procs -exec cat {} + 2>/dev/null); do
    sed 's/.*) //' /proc/$pid/stat 2>/dev/null | awk '$1 == "R" { print $37 }'
  done
  sleep 0.2
done | sort -u
"""
JOB = "pbs_jobs.service/jobid"


class CoresSite(MachineHosts):
    """One machine that shares by placeholders, without a batch system."""

    def __init__(self, bed: RunningBed, folder: Path) -> None:
        super().__init__(bed, folder)
        self.set(
            "converged_nodes",
            **{**IN_MACHINES, **dict.fromkeys(("node_kubelet_timeout", "node_kubelet_ready_timeout"), SECONDS)},
            converged_wlm="pbs",
            converged_share_mode="placeholder",
            node_kubelet_config={"systemReserved": {"cpu": "500m"}},
            node_share_pause_image="localhost/pause:local",
            node_share_deadline=60,
            node_share_limit=240,
            node_share_repair_interval=3600,  # a repair is called, and not awaited
        )

    @contextmanager
    def job(self, job: str, cores: str, *, busy: int) -> Iterator[str]:
        """Run a job with busy processes, and end it; yield the line that says what came of its begin."""
        try:
            yield self.begin(job, cores, busy=busy)
        finally:
            self.end(job)

    def begin(self, job: str, cores: str, *, busy: int) -> str:
        """Begin a job with busy processes; return the line that says what came of it."""
        self.ask(NODE, "sh", "-c", MAKE_CGROUP, "make", CGROUPS, job, cores)
        group = f"{CGROUPS}/{JOB}/{job}"
        count = len(cores.split(","))
        begin = ["nodeshare", "begin", "--wlm=pbs", f"--job={job}", "--run=1", f"--cpus={count}", "--mem=64MiB"]
        said = self.bed.exec(NODE, [*begin, f"--cgroup={JOB}/{job}"], timeout=MACHINE_SECONDS).err
        # 0 is the process that writes; systemd would make "$" of "$$".
        task = f"echo 0 > {group}/cgroup.procs; exec timeout 3600 {' '.join(BUSY[:2])} '{BUSY[2]}'"
        for number in range(busy):
            self.ask(NODE, "systemd-run", "--quiet", f"--unit=job-{job}-{number}", "sh", "-c", task)
        # Each task is two processes, `timeout` and what it runs; systemd-run does not wait for either.
        procs = f"cat {group}/cgroup.procs"
        until(lambda: len(self.node(NODE, procs).split()) == 2 * busy, f"all tasks of {job} run", MACHINE_SECONDS)
        return said

    def end(self, job: str) -> None:
        """End the job's processes and the job."""
        self.node(NODE, f"systemctl stop 'job-{job}-*'; nodeshare end --wlm=pbs --job={job} --run=1")

    def found_on(self, group: str) -> frozenset[int]:
        """Return the processors on which processes of a cgroup were seen to run."""
        said = self.bed.exec(NODE, ["sh", "-c", FOUND, "found", f"{CGROUPS}/{group}"], timeout=MACHINE_SECONDS).out
        return frozenset(map(int, said.split()))

    def run_pod(self, name: str) -> None:
        """A pod that takes what it is given."""
        workload.apply(self, workload.pod(name, node=NODE, command=BUSY))
        until(lambda: bool(workload.ready(self, name)), f"{name} runs", MACHINE_SECONDS)


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoresSite]:
    """One machine and a control plane; the machine converted by the roles."""
    with own_bed(request, BED, "--vm", "--nodes", "1", "--wlm", "none") as bed:
        found = CoresSite(bed, tmp_path_factory.mktemp("cores"))
        found.run([play("converged_nodes", *ROLES)])
        until(lambda: found.ready() == {NODE}, "the node is ready", MACHINE_SECONDS)
        found.run_pod("busy")
        yield found


@pytest.mark.parametrize("cores", ["2,3", "1", "0,1,3"], ids=["a NUMA node", "one", "three"])
def test_pods_and_a_job_never_share_a_processor(site: CoresSite, cores: str) -> None:
    taken = frozenset(map(int, cores.split(",")))
    assert site.allowed("kubepods.slice") == {ALL}
    with site.job("31.srv", cores, busy=len(taken)) as said:
        assert "outcome=accept" in said, said
        assert site.cpus("kubepods.slice") == ALL - taken
        assert site.allowed("kubepods.slice") == {ALL - taken}
        assert site.allowed(f"{JOB}/31.srv") == {taken}
        assert site.found_on("kubepods.slice") <= ALL - taken
        assert site.found_on(f"{JOB}/31.srv") <= taken
    assert site.allowed("kubepods.slice") == {ALL}


def test_two_jobs_on_both_numa_nodes_leave_pods_what_neither_has(site: CoresSite) -> None:
    with site.job("33.srv", "2,3", busy=2):
        with site.job("32.srv", "0", busy=1):
            assert site.allowed("kubepods.slice") == {frozenset({1})}
        assert site.allowed("kubepods.slice") == {frozenset({0, 1})}
    assert site.allowed("kubepods.slice") == {ALL}


@pytest.mark.parametrize("how", ["restart", "kill --signal=KILL"])
def test_a_kubelet_that_starts_again_gives_pods_no_core_of_a_job(site: CoresSite, how: str) -> None:
    with site.job("34.srv", "2,3", busy=2):
        began = site.started_at(NODE, "kubelet")
        site.node(NODE, f"systemctl {how} kubelet")
        until(lambda: site.started_at(NODE, "kubelet") > began, "it has started again", MACHINE_SECONDS)
        site.run_pod("later")
        assert site.allowed("kubepods.slice") == {frozenset({0, 1})}
        site.kubectl("delete", "pod", "later", "--now")
    assert site.allowed("kubepods.slice") == {ALL}


def test_a_power_cut_under_a_job_gives_pods_all_processors_again(site: CoresSite) -> None:
    site.begin("35.srv", "2,3", busy=2)
    booted = site.boot_id()
    site.cut_power()
    assert site.give_power(booted) != booted
    site.node(NODE, "nodeshare repair")
    until(lambda: '"leases": []' in site.node(NODE, "nodeshare show --json"), "the lease is dropped", MACHINE_SECONDS)
    until(lambda: bool(site.pods_processes()), "the pod runs again", MACHINE_SECONDS)
    until(lambda: site.allowed("kubepods.slice") == {ALL}, "pods have all processors", MACHINE_SECONDS)


def test_the_way_back_leaves_no_cgroup_of_pods(site: CoresSite) -> None:
    site.kubectl("delete", "pod", "busy", "--now")
    site.run([play("converged_nodes", *(f"{role}/restore" for role in reversed(ROLES)))])
    assert not [name for name in site.node(NODE, f"ls {CGROUPS}").split() if name.startswith("kubepods")]
    assert site.modules() & {"overlay", "br_netfilter"} == set()
