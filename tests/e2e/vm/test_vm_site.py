# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Slurm site with a virtual machine as its node, from its conversion to the way back: every test takes the next step.

The node reboots and loses its power under a job and in every phase of a hand-over, which no container can show.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from e2e import workload
from e2e.hosts import TAINT
from e2e.playing import until
from e2e.vm.site import CGROUPS, MACHINE_SECONDS, NODE, TIMES, MachineSite, machine_site

pytestmark = pytest.mark.soak

BED = f"vmsite-{os.getpid()}"
MODULES = {"overlay", "br_netfilter"}
# A phase of a hand-over edits nodeshare's settings by hand, and the way back keeps a site's version of a file of ours.
KEPT = re.compile(
    r"files: /var/lib/converged(/record(/kept(/[0-9a-f]{64}(/etc(/converged(/nodeshare\.json)?)?)?)?)?)? [df] \d+ 0:0 "
)
RESULTS, ADDRESSES = "/var/lib/cni/results", "/var/lib/cni/networks/converged"


@pytest.fixture(scope="module")
def plain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MachineSite]:
    """One machine with Slurm 22.05, a batch controller, and a control plane."""
    with machine_site(request, tmp_path_factory, BED) as found:
        yield found


@pytest.fixture(scope="module")
def before(plain: MachineSite) -> dict[str, Any]:
    """What the machine is before it is converted, without what it loads for every network."""
    return plain.look()


@pytest.fixture(scope="module")
def site(plain: MachineSite, before: dict[str, Any]) -> MachineSite:
    """The site after `site.yml`."""
    assert not before["modules"] & MODULES
    plain.play("site")
    return plain


@pytest.fixture
def tidy(site: MachineSite) -> Iterator[None]:
    """However a test ends, the next one begins with an idle node without pods."""
    yield
    site.tidy()


@pytest.mark.usefixtures("tidy")
def test_a_converted_machine_has_its_modules_and_runs_pods_below_kubepods_slice(site: MachineSite) -> None:
    assert site.modules() >= MODULES
    until(lambda: site.ready() == {NODE}, "the node is ready", MACHINE_SECONDS)
    workload.apply(site, workload.pod("web", node=NODE))
    site.await_pod("web")
    processes = site.pods_processes()
    assert processes
    groups = site.node(NODE, f"cat /proc/{processes[-1]}/cgroup").splitlines()
    assert len(groups) == 1, "cgroup v2 alone"
    assert groups[0].startswith("0::/kubepods.slice/")
    assert site.allowed("kubepods.slice") == {frozenset(range(4))}


@pytest.mark.usefixtures("tidy")
def test_no_pod_has_a_process_beside_a_job_and_pods_return_behind_it(site: MachineSite) -> None:
    workload.apply(site, workload.deployment("web", 1))
    site.await_pod("web")
    job = site.batch("-w", NODE)
    site.until("ctl", f"squeue -h -j {job} -t R -o %N | grep -qx {NODE}", MACHINE_SECONDS)
    assert site.pods_processes() == []
    assert TAINT in site.taints()[NODE]
    group = f"system.slice/{NODE}_slurmstepd.scope/job_{job}"
    until(lambda: bool(site.allowed(group)), "the job's processes run")
    assert site.allowed(group) == {site.cpus(group)}
    site.ctl(f"scancel {job}")
    site.free()
    site.await_pod("web")


def job_holds(site: MachineSite, *words: str) -> str:
    """A job that runs and holds the node; its id."""
    job = site.batch("-w", NODE, "--no-requeue", *words)
    site.until("ctl", f"squeue -h -j {job} -t R -o %N | grep -qx {NODE}", MACHINE_SECONDS)
    until(lambda: site.show(NODE)["phase"] == "held", "the job has the node", MACHINE_SECONDS)
    return job


def assert_of_use_again(site: MachineSite) -> None:
    """The lease of the earlier boot is dropped, and the node takes pods and then jobs, one after the other."""
    until(lambda: not site.leases(NODE), "the lease of the earlier boot is dropped", MACHINE_SECONDS)
    site.ctl("squeue --noheader --format=%A | xargs --no-run-if-empty scancel")
    site.ctl(f"scontrol update nodename={NODE} state=resume", check=False)
    site.free()
    site.await_pod("web")
    assert site.srun("-w", NODE, "hostname", timeout=MACHINE_SECONDS).out == f"{NODE}\n"
    site.free()


@pytest.mark.usefixtures("tidy")
def test_a_reboot_under_a_job_ends_the_job_and_gives_the_node_back_by_itself(site: MachineSite) -> None:
    workload.apply(site, workload.deployment("web", 1))
    site.await_pod("web")
    job = job_holds(site)
    site.reboot()
    assert site.modules() >= MODULES, "modules are loaded at every boot"
    # Slurm knows by the boot time of a node that is a machine that the job is lost, without being told.
    site.until("ctl", f"! squeue -h -j {job} -t R,CG 2>/dev/null | grep -q .", MACHINE_SECONDS)
    assert_of_use_again(site)


def taking(site: MachineSite) -> None:
    """A job waits for a pod that does not heed its end."""
    workload.apply(site, workload.pod("deaf", node=NODE, command=workload.DEAF, grace=600))
    site.await_pod("deaf")
    site.batch("-w", NODE, "--no-requeue")
    until(lambda: TAINT in site.taints()[NODE], "the node is being taken", MACHINE_SECONDS)
    assert site.pods_processes() != [], "the pods had left already"


def held(site: MachineSite) -> None:
    """A job has the node."""
    job_holds(site)


def giving_back(site: MachineSite) -> None:
    """The job is over, and the node lingers for another one."""
    site.settings(linger=600)
    job = job_holds(site)
    site.ctl(f"scancel {job}")
    until(lambda: not site.leases(NODE), "the lease is over", MACHINE_SECONDS)
    assert site.show(NODE)["phase"] != "open", "the node was given back already"


def leaving(site: MachineSite) -> set[str]:
    """Pods that are deleted and still there."""
    return {name for name, pod in site.objects("pods").items() if "deletionTimestamp" in pod["metadata"]}


@pytest.mark.usefixtures("tidy")
@pytest.mark.parametrize("phase", [taking, held, giving_back], ids=lambda phase: phase.__name__)
def test_a_power_cut_in_a_hand_over_leaves_a_node_of_use(
    site: MachineSite, phase: Callable[[MachineSite], None]
) -> None:
    workload.apply(site, workload.deployment("web", 1))
    site.await_pod("web")
    booted = site.boot_id()
    try:
        phase(site)
        site.cut_power()
        assert site.give_power(booted) != booted
    finally:
        site.settings(linger=TIMES["node_share_linger"])
    if "deaf" in site.objects("pods"):
        site.kubectl("delete", "pod", "deaf", "--grace-period=0", "--force", "--wait=false")
    assert_of_use_again(site)
    until(lambda: not leaving(site), "no pod stays in Terminating", MACHINE_SECONDS)


@pytest.mark.usefixtures("tidy")
def test_a_pod_ends_and_gives_its_address_back_although_a_power_cut_emptied_what_cni_wrote(site: MachineSite) -> None:
    workload.apply(site, workload.deployment("web", 1))
    site.await_pod("web")
    booted, before_cut = site.boot_id(), set(site.objects("pods"))
    # A power cut empties what is not on the disk yet. Here nothing depends on when the disk was written.
    find = f"find {RESULTS} {ADDRESSES} -type f -size +0"
    emptied = site.node(NODE, f"{find} -print -exec truncate --size=0 {{}} +; sync")
    assert f"{RESULTS}/converged-" in emptied
    assert re.search(rf"^{ADDRESSES}/[0-9.]+$", emptied, re.MULTILINE), "a pod has an address"
    site.cut_power()
    assert site.give_power(booted) != booted
    site.kubectl("delete", "pods", "--all", "--wait=false")
    until(lambda: not before_cut & set(site.objects("pods")), "no pod stays in Terminating", MACHINE_SECONDS)
    site.await_pod("web")
    damaged = f"find {RESULTS} -name 'converged-*' -empty; find {ADDRESSES} -name '[0-9]*' -empty"
    assert site.node(NODE, damaged) == ""


def test_the_way_back_unloads_the_modules_and_leaves_the_machine_as_it_was(
    site: MachineSite, before: dict[str, Any]
) -> None:
    site.play("restore")
    assert site.modules() & MODULES == set()
    changed = [line for line, is_there in site.changes(before) if not (is_there and KEPT.fullmatch(line))]
    assert not changed, "\n".join(changed)
    assert "kubepods.slice" not in site.node(NODE, f"ls {CGROUPS}").split()
    assert site.srun("-w", NODE, "hostname", timeout=MACHINE_SECONDS).out == f"{NODE}\n"
