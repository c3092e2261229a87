# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight on real machines: a sound site, then real faults, many at once, and never a trace of it on a node.

A node that another test has joined to the cluster, or left something on, is no sound site.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._shared import hostlist
from e2e import playing
from e2e.hosts import Hosts
from testbed import api

PLAYS = [
    playing.play("converged_nodes:converged_controllers", "share_preflight"),
    playing.play("converged_nodes", {"ansible.builtin.debug": {"msg": "the conversion begins"}}, become=False),
]
CONF = "/etc/slurm/slurm.conf"
# The bed's machine has cgroup v1, which a site has to allow.
# The bed's host of converged_kube has no Python package kubernetes, and no task here needs it.
SITE = {"node_kubelet_config": {"failCgroupV1": False}, "share_preflight_accept": ["python_client"]}
LISTEN = "import socket, time; s = socket.socket(); s.bind(('', 10250)); s.listen(); time.sleep(600)"
# None of these may be: tasks before Prolog has ended, too little time for it, and power saving.
FORBIDDEN = (
    "PrologFlags=NoHold\\nPrologEpilogTimeout=30\\n"
    "SuspendTime=86400\\nSuspendProgram=/bin/true\\nResumeProgram=/bin/true\\nSuspendExcNodes=n1\\n"
)
HOSTS = ("ctl", "n1", "n2")


class Report:
    """What the playbook said: by host, its verdict and its findings, one a line, in which the host is left out."""

    def __init__(self, rc: int, out: str) -> None:
        self.rc, self.out = rc, out
        self.words: dict[str, str] = {"(cluster)": "in order"}
        self.findings: dict[str, list[str]] = {}
        for line in out.splitlines():
            if found := re.fullmatch(r"(refuse|warn|note) (\[\w+\]) (\S+): (.*)", line):
                for host in hosts_of(found[3]):
                    self.findings.setdefault(host, []).append(f"{found[1]} {found[2]} {found[4]}")
            elif said := re.fullmatch(
                r"(refused|fit to be shared|fit for .*|left out of this run|not judged): (\S+)", line
            ):
                self.words.update(dict.fromkeys(hosts_of(said[2]), said[1]))

    def begun(self) -> bool:
        """Whether anything after preflight ran."""
        return "the conversion begins" in self.out

    def of(self, host: str, start: str) -> list[str]:
        return [line for line in self.findings.get(host, []) if line.startswith(start)]


def hosts_of(text: str) -> list[str]:
    """The hosts of a list such as (cluster),n[1-2]."""
    names = re.findall(r"\(cluster\)|[^,\[]+(?:\[[^\]]*\])?", text)
    return [host for name in names for host in ([name] if name == "(cluster)" else hostlist.expand(name))]


def preflight(bed: api.RunningBed, folder: Path, hosts: Mapping[str, Mapping[str, Any]], *options: str) -> Report:
    """The role as a site's playbook calls it; ``hosts`` are variables by host, or of ``all``."""
    site = playing.Site(bed, folder)
    site.set("all", **SITE)
    for where, variables in hosts.items():
        site.set(where, **variables)
    said = site.run(PLAYS, *options, check=False)
    return Report(said.rc, said.out)


def listings(bed: api.RunningBed, folder: Path) -> dict[str, Any]:
    """Everything on every host."""
    return {host: playing.Site(bed, folder).listing(host) for host in HOSTS}


def shell(bed: api.RunningBed, host: str, text: str) -> None:
    Hosts(bed).node(host, f"set -eu; {text}")


@contextlib.contextmanager
def appended(bed: api.RunningBed, hosts: tuple[str, ...], path: str, text: str, then: str = "true") -> Iterator[None]:
    """More lines in a file on some hosts, and afterwards the file as it was."""
    kept = f"/root/{Path(path).name}"
    for host in hosts:
        shell(bed, host, f"cp -p {path} {kept}; printf {shlex.quote(text)} >> {path}")
    try:
        shell(bed, hosts[0], then)
        yield
    finally:
        for host in hosts:
            shell(bed, host, f"cp -p {kept} {path}; rm {kept}")
        shell(bed, hosts[0], then)


@contextlib.contextmanager
def done(bed: api.RunningBed, host: str, before: str, after: str) -> Iterator[None]:
    shell(bed, host, before)
    try:
        yield
    finally:
        shell(bed, host, after)


def test_a_sound_site_passes_in_two_results_a_node_and_nothing_is_touched(bed: api.RunningBed, tmp_path: Path) -> None:
    before = listings(bed, tmp_path)
    plan = preflight(bed, tmp_path, {}, "--check", "--diff")
    report = preflight(bed, tmp_path, {})
    assert listings(bed, tmp_path) == before
    for seen in (plan, report):
        assert (seen.rc, seen.begun()) == (0, True), seen.out
        fit = {"n1": "fit to be shared", "n2": "fit to be shared", "ctl": "fit for the service of batch controllers"}
        assert seen.words == {"(cluster)": "in order", **fit}
    assert report.of("(cluster)", "note [prolog_flags] PrologFlags=Alloc will be Alloc,DeferBatch")
    assert report.of("(cluster)", "warn [timeouts] BatchStartTimeout is 10 s")
    assert report.of("n1", "note [stateless] this node is a container")
    assert bool(report.of("n2", "warn [cgroup] cgroup v1")) == has_cgroup_v1(bed)
    # Of n2 nothing but the role and the task of the second play.
    assert re.search(r"^n2 +: ok=3 +changed=0 ", report.out, re.MULTILINE), report.out


def has_cgroup_v1(bed: api.RunningBed) -> bool:
    return bed.exec("n2", ["stat", "-fc", "%T", "/sys/fs/cgroup"]).out.strip() != "cgroup2fs"


# In every change unit tests (module_utils/_preflight) have every finding of these, test_site_refusals those that stop a
# whole site, and test_site_kinds a node that cannot be reached.
@pytest.mark.soak
def test_what_is_wrong_in_the_inventory_is_named_all_at_once(bed: api.RunningBed, tmp_path: Path) -> None:
    wrong = {
        "all": {"share_preflight_excepted": ["n[1-9999999]"], "converged_kubeconfig": "/nowhere.conf"},
        "n1": {"converged_wlm_node": "N1"},
        "n2": {"converged_share_mode": "all", "ansible_port": 1},
    }
    report = preflight(bed, tmp_path, wrong)
    assert (report.rc != 0, report.begun()) == (True, False), report.out
    assert report.of("(cluster)", "refuse [hostlist]")
    assert report.of("(cluster)", "refuse [kube_api]")
    assert report.of("n1", "refuse [name_case] the inventory says N1, and Slurm n1: set converged_wlm_node: n1")
    assert report.of("n2", "refuse [unreachable] could not be read"), report.out
    assert report.words["ctl"] == "fit for the service of batch controllers"


@pytest.mark.soak
def test_what_is_wanted_of_a_node_and_cannot_be_is_named(bed: api.RunningBed, tmp_path: Path) -> None:
    wrong = {
        "all": {"share_preflight_min_free": 10**6, "node_kubelet_config": {}},
        "n1": {"converged_share_mode": "all", "node_kubelet_node_ip": "192.0.2.1", "converged_kube_node": "N_1"},
        "n2": {"node_runtime_manage": False, "node_kubelet_socket": "unix:///run/singularity.sock"},
    }
    before = listings(bed, tmp_path)
    report = preflight(bed, tmp_path, wrong)
    assert listings(bed, tmp_path) == before
    assert (report.rc != 0, report.begun()) == (True, False), report.out
    assert report.of("n1", "refuse [share_mode] share mode 'all' is none of handover")
    assert report.of("n1", "refuse [node_ip] node_kubelet_node_ip is 192.0.2.1, and this node has")
    assert report.of("n1", "refuse [kube_name] ")
    assert report.of("n1", "refuse [disk] ")
    assert report.of("n2", "refuse [runtime] no container runtime listens on unix:///run/singularity.sock")
    (sycri,) = report.of("n2", "refuse [cri] Singularity-CRI speaks only CRI v1alpha2")
    assert "use containerd or CRI-O for pods (Apptainer or SingularityCE keeps running SIF images" in sycri
    assert bool(report.of("n2", "refuse [cgroup] cgroup v1")) == has_cgroup_v1(bed)


@pytest.mark.soak
def test_a_node_that_slurm_knows_and_nobody_reaches_has_to_be_excepted(bed: api.RunningBed, tmp_path: Path) -> None:
    line = "NodeName=n3 NodeAddr=192.0.2.3 CPUs=1 State=UNKNOWN\\n"
    then = "systemctl restart slurmctld; for _ in $(seq 250); do scontrol ping | grep -q UP && exit; sleep 0.2; done"
    with appended(bed, HOSTS, "/etc/slurm/nodes.conf", line, then):
        forgotten = preflight(bed, tmp_path, {})
        excepted = preflight(bed, tmp_path, {"all": {"share_preflight_excepted": ["n[3,7]"]}})
    assert (forgotten.rc != 0, forgotten.begun()) == (True, False), forgotten.out
    assert [host for host, word in forgotten.words.items() if word == "refused"] == ["n3"]
    assert forgotten.of("n3", "refuse [not_in_inventory] Slurm has this node")
    assert (excepted.rc, excepted.begun()) == (0, True), excepted.out


Fault = Callable[[api.RunningBed], contextlib.AbstractContextManager[None]]
# What is wrong at the same time, and what is said of which host.
FAULTS: dict[str, tuple[list[Fault], dict[str, list[str]]]] = {
    "on nodes": (
        [
            lambda bed: appended(bed, ("n1",), "/etc/slurm/epilog.sh", "pkill -9 java\\n# Managed by Puppet\\n"),
            lambda bed: done(bed, "n1", "mv /etc/slurm/prolog.sh /root/", "mv /root/prolog.sh /etc/slurm/"),
            # Slurm may have called the node down meanwhile, and asks it again only after minutes.
            lambda bed: done(bed, "n1", "systemctl stop munge", "systemctl start munge; systemctl restart slurmd"),
            lambda bed: done(
                bed,
                "n1",
                "ip link add ib0 type veth peer name ib0-far; ip address add 10.77.0.1/24 dev ib0",
                "ip link delete ib0",
            ),
            lambda bed: done(
                bed,
                "n1",
                "mkdir /etc/kubernetes; echo other > /etc/kubernetes/kubelet.conf",
                "rm -r /etc/kubernetes",
            ),
            lambda bed: appended(bed, ("n2",), CONF, "# Managed by Puppet\\nKillWait=9\\n"),
            lambda bed: done(
                bed,
                "n2",
                "mkdir /etc/nhc; echo ' * || check_ps_unauth_users log syslog kill' > /etc/nhc/nhc.conf",
                "rm -r /etc/nhc",
            ),
            lambda bed: done(bed, "n2", "mount -t tmpfs tmpfs /var/lib/kubelet", "umount /var/lib/kubelet"),
            lambda bed: done(
                bed,
                "n2",
                f"systemd-run --quiet --unit=taken python3 -c {shlex.quote(LISTEN)}; sleep 1",
                "systemctl stop taken",
            ),
        ],
        {
            "n1": [
                "refuse [kills] /etc/slurm/epilog.sh line 5 kills processes of anybody",
                "refuse [script_missing] slurm.conf names /etc/slurm/prolog.sh",
                "refuse [munge] munge does not make a credential",
                "refuse [node_ip] several networks (eth0 ",
                "refuse [kubernetes] is in a Kubernetes cluster already, not by this collection",
            ],
            "n2": [
                "refuse [slurm_conf] /etc/slurm/slurm.conf says something else than that of ctl",
                "warn [owner] /etc/slurm",
                "refuse [kills] /etc/nhc/nhc.conf line 1 acts on processes of users without a job",
                "refuse [stateless] / (overlay), /var/lib/kubelet (tmpfs) does not outlive a reboot",
                "refuse [port] port 10250, the kubelet's, is taken by python3",
            ],
        },
    ),
    "in what Slurm is told": (
        [lambda bed: appended(bed, HOSTS, CONF, FORBIDDEN, "scontrol reconfigure")],
        {
            "(cluster)": [
                "refuse [prolog_flags] PrologFlags has NoHold",
                "refuse [timeouts] PrologEpilogTimeout is 30 s",
            ],
            "n2": ["refuse [power_saving] SuspendTime is 86400 s and SuspendExcNodes does not keep n2 on"],
        },
    ),
}


@pytest.mark.parametrize("where", ["on nodes", pytest.param("in what Slurm is told", marks=pytest.mark.soak)])
def test_real_faults_are_all_named_and_stop_the_conversion(bed: api.RunningBed, tmp_path: Path, where: str) -> None:
    faults, expected = FAULTS[where]
    with contextlib.ExitStack() as wrong:
        for fault in faults:
            wrong.enter_context(fault(bed))
        before = listings(bed, tmp_path)
        report = preflight(bed, tmp_path, {})
        assert listings(bed, tmp_path) == before
    Hosts(bed).until("ctl", 'test "$(sinfo -h -o %T | sort -u)" = idle')
    assert (report.rc != 0, report.begun()) == (True, False), report.out
    assert [start for host, said in expected.items() for start in said if not report.of(host, start)] == [], report.out
    assert {host for host, word in report.words.items() if word == "refused"} == set(expected)
