# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PBS site with a virtual machine as its node, whose jobs stand beside pods: every test takes the next step.

PBS is its double, with a MoM in the machine that runs the hooks there. Kernel, kubelet and pods are real.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from e2e import workload
from e2e.beds import own_bed
from e2e.pbs_site import BESIDE_PODS, PbsSite
from e2e.playing import until
from e2e.vm.site import CGROUPS, MACHINE_SECONDS, NODE, TIMES, MachineHosts
from nodeshare.model.cpu_list import parse_cpus
from testbed.machines import CPUS

pytestmark = pytest.mark.soak

BED = f"vmpbs-{os.getpid()}"
ALL = frozenset(range(CPUS))
PODS = "kubepods.slice"
CORES = 2
SIZE = {"cpu": str(CORES), "memory": str(64 << 20)}
BUSY = ["sh", "-c", "while :; do :; done"]
# PBS's own: logs, jobs and cgroups. The Python library's bytecode of hooks is not here, as the double keeps none.
OF_PBS = ("/var/spool/pbs",)


class MachinePbsSite(MachineHosts, PbsSite):
    """A PBS site that playbooks convert, with one machine as its node."""

    play_seconds = 3000.0

    def have_run_a_job(self) -> None:
        self.end(self.begin())

    def begin(self) -> str:
        """Begin a job of some of the node's processors; return its id once it has them."""
        job = self.qsub("-l", f"select=1:ncpus={CORES}:mem=64mb")
        until(lambda: self.job_state(job) == "R" and len(self.cores_of(job)) == CORES, f"{job} runs", MACHINE_SECONDS)
        return job

    def end(self, job: str) -> None:
        self.ctl(f"qdel {job}", check=False)
        until(lambda: not self.jobs(), f"{job} has ended", MACHINE_SECONDS)

    def cores_of(self, job: str) -> frozenset[int]:
        """Return the processors of a job's cgroup."""
        return parse_cpus(self.node(NODE, f"cat {CGROUPS}/pbs_jobs.service/jobid/{job}/cpuset.cpus", check=False))

    def pods_have(self, cores: frozenset[int]) -> None:
        """Wait until the pods on the node have these processors, by the kernel's answer for each of their processes."""
        until(lambda: self.allowed(PODS) == {cores}, f"pods have {sorted(cores)}", MACHINE_SECONDS)


@pytest.fixture(scope="module")
def plain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MachinePbsSite]:
    """One machine with a MoM, a server, and a control plane."""
    with own_bed(request, BED, "--vm", "--nodes", "1", "--wlm", "pbs") as bed:
        found = MachinePbsSite(bed, tmp_path_factory.mktemp("vmpbs"))
        found.prepare()
        found.set("all", **{**BESIDE_PODS, **TIMES, "node_share_limit": 300})
        yield found


@pytest.fixture(scope="module")
def before(plain: MachinePbsSite) -> dict[str, Any]:
    return plain.look()


@pytest.fixture(scope="module")
def site(plain: MachinePbsSite, before: dict[str, Any]) -> MachinePbsSite:
    """The site after `site.yml`, which has run beside a job, with a pod that takes what it is given."""
    assert before["files"]
    job = plain.begin()
    plain.play("site")
    assert plain.job_state(job) == "R"
    assert plain.leases_of(NODE) == {f"pbs/{job}/1"}
    until(lambda: plain.placeholders(job) == {NODE: SIZE}, "it shows in its size", MACHINE_SECONDS)
    workload.apply(plain, workload.pod("busy", node=NODE, command=BUSY))
    plain.await_pod("busy")
    assert plain.allowed(PODS) == {ALL - plain.cores_of(job)}
    plain.end(job)
    return plain


def test_a_job_has_cores_of_its_own_and_pods_have_all_others_until_it_ends(site: MachinePbsSite) -> None:
    site.pods_have(ALL)
    job = site.begin()
    assert "outcome=accept" in site.begin_of(job, NODE)
    assert site.allowed(PODS) == {ALL - site.cores_of(job)}
    until(lambda: site.placeholders(job) == {NODE: SIZE}, "it shows in its size", MACHINE_SECONDS)
    site.end(job)
    site.pods_have(ALL)
    until(lambda: not site.placeholders(job), "its placeholder goes with it", MACHINE_SECONDS)


def reboot(site: MachinePbsSite) -> None:
    """As an administrator would."""
    site.reboot()


def power_cut(site: MachinePbsSite) -> None:
    """Without a word."""
    booted = site.boot_id()
    site.cut_power()
    assert site.give_power(booted) != booted


@pytest.mark.parametrize("loss", [reboot, power_cut], ids=lambda loss: loss.__name__)
def test_a_boot_under_a_job_leaves_a_node_of_use(site: MachinePbsSite, loss: Callable[[MachinePbsSite], None]) -> None:
    lost = site.begin()
    loss(site)
    site.end(lost)
    until(lambda: not site.leases_of(NODE), "no lease is left", MACHINE_SECONDS)
    site.await_pod("busy")
    site.pods_have(ALL)
    job = site.begin()
    site.pods_have(ALL - site.cores_of(job))
    site.end(job)
    site.pods_have(ALL)


def test_the_way_back_leaves_the_machine_and_pbs_as_they_were(site: MachinePbsSite, before: dict[str, Any]) -> None:
    site.play("restore")
    changed = [line for line, _is_there in site.changes(before) if not any(one in line for one in OF_PBS)]
    assert not changed, "\n".join(changed)
    assert PODS not in site.node(NODE, f"ls {CGROUPS}").split()
    hooks = site.ctl("qmgr -c 'list hook'")
    assert "Hook site\n" in hooks
    assert "Hook converged\n" not in hooks
    site.end(site.begin())
