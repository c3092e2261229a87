# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with a kernel of its own, as short as may be: what it has, and what the fence sets.

Containers of one host cannot show this: they share its modules, its two processors and its version of cgroups.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.beds import own_bed
from e2e.playing import IN_MACHINES, play, until
from e2e.vm.site import CGROUPS, NODE, MachineHosts
from testbed import machines
from testbed.machines import CPUS
from testbed.paths import bed_dir

BED = f"vm-{os.getpid()}"
MODULES = {"overlay", "br_netfilter"}
# What they depend on, and what `nft` loads when it is asked for its tables.
DEPENDENCIES = {"bridge", "stp", "llc", "nf_tables", "nfnetlink", "libcrc32c", "crc32c_intel"}
BRIDGED = "/proc/sys/net/bridge/bridge-nf-call-iptables"
# The role without packages, files and units: only the kernel is of interest, and an installation takes a minute.
ONLY_THE_KERNEL = {"node_runtime_packages": [], "_node_runtime_files": [], "_node_runtime_units": []}
ALL = frozenset(range(CPUS))
NODESHARE = Path(__file__).parents[3] / "roles/node_share/files/nodeshare"
LIBRARY = "/usr/local/lib/converged"
SETTINGS = {
    "node": NODE,
    "mode": "placeholder",
    "services": ["kubelet.service"],
    "return_unit": "",
    "housekeeping_cpus": "0",
}
JOB_MIB = 64


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MachineHosts]:
    """One machine with Slurm, and a batch controller beside it."""
    with own_bed(request, BED, "--vm", "--nodes", "1", "--no-kube") as bed:
        found = MachineHosts(bed, tmp_path_factory.mktemp("vm"))
        found.set("converged_nodes", **IN_MACHINES)
        yield found
    if not bed_dir(BED).exists():
        assert (machines.pid_of(BED, NODE), machines.taps(BED)) == (None, []), "`down` has left something"


def test_a_machine_has_a_kernel_of_its_own_with_cgroup_v2_alone_and_two_numa_nodes(site: MachineHosts) -> None:
    mounts = [line.split() for line in site.node(NODE, "cat /proc/mounts").splitlines()]
    assert [words[1] for words in mounts if words[2].startswith("cgroup")] == [CGROUPS]
    assert {"cpuset", "cpu", "memory", "pids"} <= set(site.node(NODE, f"cat {CGROUPS}/cgroup.controllers").split())
    assert site.node(NODE, "cat /sys/devices/system/node/node[0-9]/cpulist").split() == ["0-1", "2-3"]
    assert site.boot_id() != Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    assert {"Sockets=2", "CoresPerSocket=2", "CPUTot=4"} <= set(site.ctl("scontrol show node n1").split())


# In every change: what the role asks for in test_conversion.py, and that modules are loaded and unloaded in
# unit/plugins/module_utils/_record/test_any_history.py.
@pytest.mark.soak
def test_the_role_loads_the_modules_of_the_kernel_and_the_way_back_unloads_them(site: MachineHosts) -> None:
    before = site.modules()
    assert not before & MODULES, "a module that is there already shows nothing"
    site.run([play("converged_nodes", "node_runtime")], **ONLY_THE_KERNEL)
    assert site.modules() >= MODULES
    assert site.node(NODE, f"cat {BRIDGED}") == "1\n"
    site.run([play("converged_nodes", "node_runtime/restore")])
    # What br_netfilter depends on stays: it may be the site's by now.
    assert site.modules() - before <= DEPENDENCIES


@pytest.fixture
def nodeshare(site: MachineHosts) -> None:
    """The program, without the roles around it: a kubelet takes minutes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(NODESHARE, "nodeshare", filter=lambda one: None if "__pycache__" in one.name else one)
    place = f"mkdir -p {LIBRARY} /etc/converged /run/converged-placeholders && tar -x -C {LIBRARY}"
    site.bed.exec(NODE, ["sh", "-c", place], input=packed.getvalue())
    site.node(NODE, "cat > /etc/converged/nodeshare.json", input=json.dumps(SETTINGS))


@pytest.mark.usefixtures("nodeshare")
def test_pods_keep_off_the_cores_and_the_memory_of_a_job_by_the_kernels_own_answer(site: MachineHosts) -> None:
    site.node(NODE, f"echo +cpuset +memory > {CGROUPS}/cgroup.subtree_control")
    site.node(NODE, "systemd-run --quiet --slice=kubepods-burstable.slice --unit=e2e-pod sleep 3600")
    assert site.allowed("kubepods.slice") == {ALL}, "a pod has all processors"
    job = site.ctl("cd /tmp; sbatch --parsable -w n1 -n1 -c2 -o /dev/null --wrap 'sleep 3600'").strip()
    group = f"system.slice/{NODE}_slurmstepd.scope/job_{job}"
    until(lambda: bool(site.node(NODE, f"ls -d {CGROUPS}/{group}/step_batch", check=False)), "the job runs")
    taken = site.cpus(group)
    assert len(taken) == 2
    assert taken in ({0, 1}, {2, 3}), "Slurm has given a NUMA node of its own"

    words = ["--wlm=slurm", f"--job={job}", "--run=0"]
    begun = site.nodeshare("begin", *words, "--cpus=2", f"--mem={JOB_MIB}MiB", f"--cgroup={group}")
    assert "outcome=accept" in begun, begun
    assert site.cpus("kubepods.slice") == ALL - taken
    assert site.allowed("kubepods.slice") == {ALL - taken}, "the pod that ran already, too"
    site.node(NODE, "systemd-run --quiet --slice=kubepods-besteffort.slice --unit=e2e-later sleep 3600")
    assert site.allowed("kubepods.slice") == {ALL - taken}, "and one that comes later"
    assert site.allowed(group) == {taken}
    limit = int(site.node(NODE, f"cat {CGROUPS}/kubepods.slice/memory.max"))
    total = int(site.node(NODE, "sed -n 's/MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo")) * 1024
    assert 0 <= limit - (total - JOB_MIB * 1024**2) < 1 << 16, "but for whole pages"

    site.ctl(f"scancel {job}")
    site.nodeshare("end", *words)
    assert site.allowed("kubepods.slice") == {ALL}
    assert site.node(NODE, f"cat {CGROUPS}/kubepods.slice/memory.max") == "max\n"


# It is about the bed alone. What comes of a boot is proved in every change by payloads/test_returning, test_placing
# and test_disks. In soak power is cut on all other machines.
@pytest.mark.soak
def test_a_machine_that_loses_its_power_boots_another_kernel_and_takes_jobs_again(site: MachineHosts) -> None:
    site.node(NODE, "echo kept > /root/written; sync; echo lost > /run/volatile")
    before = site.boot_id()
    site.cut_power()
    assert site.give_power(before) != before
    assert site.node(NODE, "cat /root/written; ls /run/volatile || true", check=False) == "kept\n"
    site.until("ctl", "sinfo -h -o %T | grep -qx idle")
    assert site.srun("-w", NODE, "hostname").out == "n1\n"
