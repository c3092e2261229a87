# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site of which one node is a virtual machine: it reboots, loses its power, and answers by a kernel of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from e2e import workload
from e2e.beds import own_bed
from e2e.handover.sharing import Sharing
from e2e.playing import Site, until
from nodeshare.model.cpu_list import parse_cpus

NODE = "n1"
CGROUPS = "/sys/fs/cgroup"
# Everything in a machine takes twelve times as long as beside it.
MACHINE_SECONDS = 900.0
# All files with their kinds, modes and owners, and of those that people edit the contents as well.
FILES = r"""
find / -xdev \( -path /proc -o -path /run -o -path /tmp -o -path /var/log -o -path /var/cache -o -path /var/tmp \
    -o -path /root -o -path /home -o -path /var/lib/systemd -o -path /var/lib/slurm -o -path /var/lib/apt \
    -o -path /var/lib/dpkg -o -path /opt/testbed \) -prune -o -printf '%p %y %m %U:%G %l\n'
find /etc /usr/local -xdev -type f ! -name ld.so.cache -exec sha256sum {} +
"""
# What apt and systemd write for themselves, and the seed that munged writes when it stops, as at the reboot.
VOLATILE = (
    *("/etc/ld.so.cache", "/etc/.updated", "/var/.updated", "/var/lib/private", "/var/lib/containers"),
    "/var/lib/munge/munged.seed",
)
TIMES = {
    "node_share_linger": 2,
    "node_share_deadline": 20,
    "node_share_limit": 240,
    "node_share_repair_interval": 30,
    "node_share_controller_period": 5,
    "node_share_controller_deadline": 200,
    "slurm_share_wait": 220,
    "node_kubelet_timeout": 600,
    "node_kubelet_ready_timeout": 600,
}


class MachineHosts(Site):
    """An administrator's folder for a bed with a machine, the power of that machine, and the answers of its kernel."""

    def boot_id(self) -> str:
        """Return the identity of the kernel that runs now; empty while none answers."""
        return self.node(NODE, "cat /proc/sys/kernel/random/boot_id", check=False).strip()

    def await_boot_after(self, before: str) -> str:
        """Wait until another kernel than that one has started everything; return its identity."""
        until(lambda: self.boot_id() not in ("", before), "another kernel answers", MACHINE_SECONDS)
        states = ("running", "degraded")
        asked = "systemctl is-system-running"
        until(lambda: self.node(NODE, asked, check=False).strip() in states, "it has started", MACHINE_SECONDS)
        return self.boot_id()

    def reboot(self) -> str:
        """Have the node reboot as its administrator would; return the identity of the new kernel."""
        before = self.boot_id()
        self.node(NODE, "systemctl --no-block reboot", check=False)
        return self.await_boot_after(before)

    def cut_power(self) -> None:
        """Take the node's power away, now."""
        self.bed.power_cut(NODE)

    def give_power(self, before: str) -> str:
        """Give the power back and wait; return the identity of the new kernel."""
        self.bed.power_on(NODE)
        return self.await_boot_after(before)

    def modules(self) -> set[str]:
        """Return the kernel modules that are loaded."""
        return {line.split()[0] for line in self.node(NODE, "cat /proc/modules").splitlines()}

    def cpus(self, group: str) -> frozenset[int]:
        """Return the processors that a cgroup comes to by the kernel's own answer."""
        return parse_cpus(self.node(NODE, f"cat {CGROUPS}/{group}/cpuset.cpus.effective"))

    def allowed(self, group: str) -> set[frozenset[int]]:
        """Return what the processes of a cgroup, and of all below it, may run on by the kernel's own answer."""
        procs = f"find {CGROUPS}/{group} -name cgroup.procs -exec cat {{}} +"
        ask = f"for pid in $({procs}); do sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$pid/status; done"
        return {parse_cpus(line) for line in self.node(NODE, f"{ask}; true").splitlines()}

    def nodeshare(self, *words: str) -> str:
        """Call nodeshare's package on the node, without its launcher; return the line that says what came of it."""
        path = "import sys; sys.path.insert(0, '/usr/local/lib/converged'); sys.dont_write_bytecode = True"
        program = f"{path}; from nodeshare.run.cli import main; from nodeshare.host.real_host import RealHost; "
        run = "sys.exit(main(sys.argv[1:], make_world=RealHost))"
        return self.bed.exec(NODE, ["python3", "-c", program + run, *words]).err

    def pods_processes(self) -> list[str]:
        """Return the processes that pods have on the node."""
        find = f"find {CGROUPS}/kubepods.slice -name cgroup.procs -exec cat {{}} + 2>/dev/null; true"
        return self.node(NODE, find).split()

    def await_pod(self, app: str) -> None:
        """Wait until a pod of this name runs."""
        until(lambda: bool(workload.ready(self, app)), f"a pod of {app} runs", MACHINE_SECONDS)

    def look(self) -> dict[str, Any]:
        """Return what a conversion changes: modules, files with their contents below /etc, units, links."""
        files = self.node(NODE, FILES).splitlines()
        units = self.node(NODE, "systemctl list-unit-files --plain --no-legend").splitlines()
        links = self.node(NODE, "ip -o link | cut -d: -f2").split()
        return {"modules": self.modules(), "files": set(files), "units": set(units), "links": set(links)}

    def changes(self, before: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
        """Yield what a look differs in from one before, a line each, and whether it is there now."""
        after = self.look()
        for what in ("files", "units", "links"):
            for line in sorted(before[what] ^ after[what]):
                if not any(one in line for one in VOLATILE):
                    yield f"{what}: {line}", line in after[what]


class MachineSite(MachineHosts, Sharing):
    """A site that playbooks convert, with one machine as its node."""

    play_seconds = 3000.0

    def free(self, *nodes: str, seconds: float = MACHINE_SECONDS) -> None:
        super().free(*nodes, seconds=seconds)


@contextlib.contextmanager
def machine_site(
    request: pytest.FixtureRequest, folders: pytest.TempPathFactory, bed: str, *options: str
) -> Iterator[MachineSite]:
    """Take up a bed of one plain machine with Slurm, a batch controller, and a control plane; yield its site."""
    with own_bed(request, bed, "--vm", "--nodes", "1", *options) as running:
        site = MachineSite(running, folders.mktemp("vm"))
        site.set("all", **TIMES)
        yield site
