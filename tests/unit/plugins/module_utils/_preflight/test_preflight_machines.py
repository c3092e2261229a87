# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's verdicts about names and machines: one thing wrong at a time."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import CLUSTER
from unit.plugins.module_utils._preflight.spoiled_site import (
    GIB,
    OWN,
    SYCRI,
    Site,
    a_third,
    said,
    setting,
    settled,
    several,
    unread,
)

LINE = {"path": "/e.sh", "line": 7, "text": "pkill -u $U", "why": "kills all processes of a user", "anyone": False}


def renamed(name: str) -> t.Callable[[Site], None]:
    return setting("wanted", "wlm_node", name)


CRIO = several(
    setting("wanted", "runtime_manage", False),
    setting("wanted", "socket", "unix:///run/crio/crio.sock"),
    setting("found", "socket", True),
)
FENCED = setting("wanted", "services", ["kubelet.service", "containerd.service"])

CASES = [
    # other runtimes, add-ons, distributions and clusters
    (
        "CRI-O with containerd fenced",
        several(CRIO, FENCED),
        "n1",
        "refuse",
        "services",
        "the kubelet's runtime is crio",
    ),
    (
        "containerd of Docker fenced",
        several(FENCED, setting("found", "units", {"docker.service": "active"})),
        "n1",
        "refuse",
        "services",
        "Docker uses containerd too",
    ),
    ("a toolkit's edits", setting("found", "nvidia_in_config", True), "n1", "refuse", "runtime", "NVIDIA's toolkit"),
    ("a distribution of its own", setting("found", "family", ""), "n1", "refuse", "distribution", "does not know"),
    ("a cluster of k3s", setting("kube", "version", "v1.36.3+k3s1"), CLUSTER, "refuse", "cluster", "one of k3s"),
    ("a cluster of RKE2", setting("kube", "version", "v1.36.3+rke2r1"), CLUSTER, "refuse", "cluster", "one of RKE2"),
    ("a cluster of EKS", setting("kube", "version", "v1.36.3-eks-1ab"), CLUSTER, "refuse", "cluster", "Amazon EKS"),
    (
        "an RKE2 server",
        setting("found", "units", {"rke2-server.service": "active"}),
        "n1",
        "refuse",
        "kubernetes",
        "RKE2 runs here",
    ),
    # names
    ("an upper-case name", renamed("N1"), "n1", "refuse", "name_case", "the inventory says N1, and Slurm n1"),
    ("an unknown name", renamed("x1"), "n1", "refuse", "unknown_to_slurm", "no node 'x1'"),
    ("a list for a name", renamed("n[1-9999999]"), "n1", "refuse", "unknown_to_slurm", "n[1-9999999]"),
    ("one name twice", renamed("n2"), "n1", "refuse", "name_twice", "as of n2"),
    (
        "no range for pods",
        setting("wanted", "pod_cidr", "10.244.1.7/24"),
        "n1",
        "refuse",
        "pod_cidr",
        "has host bits set",
    ),
    ("another machine", setting("slurm_node", "hostname", "n7"), "n1", "refuse", "other_machine", "the machine n7"),
    ("no name for Kubernetes", setting("wanted", "kube_node", "N1"), "n1", "refuse", "kube_name", "lower-case"),
    (
        "a name that another machine has",
        setting("kube", "nodes", {"n1": {"addresses": ["10.0.0.77"]}}),
        "n1",
        "refuse",
        "kube_name",
        "10.0.0.77, which is another machine",
    ),
    ("not in the inventory", a_third, "n3", "refuse", "not_in_inventory", "Slurm has this node"),
    ("not reachable", unread, "n1", "refuse", "unreachable", "no route to host"),
    (
        "an excepted node",
        several(unread, settled(excepted=("n[1,9]",))),
        "n1",
        "note",
        "excepted",
        "it is drained in Slurm",
    ),
    ("a node that is listed and gone to", settled(listed=("n1",)), "n1", "refuse", "excepted", "this run goes there"),
    ("a node that is not judged", settled(unjudged=("n1",)), "n1", "note", "excepted", "it is not judged"),
    ("a list that is a bomb", settled(excepted=("n[1-9999999]",)), CLUSTER, "refuse", "hostlist", "longer than 65536"),
    ("an unknown share mode", setting("wanted", "share_mode", "all"), "n1", "refuse", "share_mode", "'all' is none of"),
    (
        "a share mode to come",
        setting("wanted", "share_mode", "backed"),
        "n1",
        "refuse",
        "share_mode",
        "is served with pbs only, and not with slurm yet",
    ),
    (
        "another name of this machine",
        setting("kube", "nodes", {"n1.site.org": {"addresses": ["10.0.0.1"]}}),
        "n1",
        "warn",
        "kube_name",
        "this machine's address as node n1.site.org",
    ),
    # the machine
    (
        "a clock far off",
        setting("host", "offset", [60.0, 60.4]),
        "n1",
        "refuse",
        "time",
        "at least 60 s off that of ctl",
    ),
    ("a clock a little off", setting("host", "offset", [-9.4, -9.0]), "n1", "warn", "time", "at least 9 s off"),
    ("swap", setting("found", "swap", ["/dev/sda2"]), "n1", "refuse", "swap", "/dev/sda2"),
    (
        "swap that is allowed",
        several(setting("found", "swap", ["/dev/sda2"]), setting("wanted", "kubelet_config", {"failSwapOn": False})),
        "n1",
        "note",
        "swap",
        "failSwapOn: false",
    ),
    ("cgroup v1", setting("found", "cgroup", "v1"), "n1", "refuse", "cgroup", "kubelet 1.36.3 does not start"),
    (
        "cgroup v1 that is allowed",
        several(setting("found", "cgroup", "v1"), setting("wanted", "kubelet_config", {"failCgroupV1": False})),
        "n1",
        "warn",
        "cgroup",
        "no longer improves",
    ),
    (
        "cgroup v1 with an older kubelet",
        several(setting("found", "cgroup", "v1"), settled(kubelet="1.34.1")),
        "n1",
        "warn",
        "cgroup",
        "no longer improves",
    ),
    (
        "pods without cgroups",
        setting("wanted", "kubelet_config", {"cgroupsPerQOS": False}),
        "n1",
        "warn",
        "kubelet_cgroups",
        "cgroupsPerQOS is false",
    ),
    (
        "pods below a cgroup of the site",
        several(
            setting("wanted", "kubelet_config", {"cgroupRoot": "/site"}), setting("wanted", "share_mode", "placeholder")
        ),
        "n1",
        "refuse",
        "kubelet_cgroups",
        "cgroupRoot is /site",
    ),
    (
        "a kubelet of the site without cgroups of pods",
        several(
            setting("found", "kubelet_file", {"cgroupsPerQOS": "false"}), setting("wanted", "share_mode", "backed")
        ),
        "n1",
        "refuse",
        "kubelet_cgroups",
        "cgroupsPerQOS is false",
    ),
    (
        "accelerators beside placeholders",
        several(setting("found", "devices", ["nvidia0", "nvidia1"]), setting("wanted", "share_mode", "placeholder")),
        "n1",
        "refuse",
        "devices",
        "/dev/nvidia0, nvidia1",
    ),
    (
        "accelerators beside backed pods",
        several(setting("found", "devices", ["kfd"]), setting("wanted", "share_mode", "backed")),
        "n1",
        "refuse",
        "devices",
        "in share mode backed",
    ),
    (
        "jobs that may use all memory",
        several(setting("found", "memory", 16 * GIB), setting("slurm_node", "memory_mebibytes", 16 * 1024 - 50)),
        "n1",
        "warn",
        "eviction",
        "all but 50 MiB of memory, and the kubelet ends pods when less than 100Mi is free",
    ),
    (
        "an eviction threshold as a part of memory",
        several(
            setting("found", "memory", 16 * GIB),
            setting("slurm_node", "memory_mebibytes", 15 * 1024),
            setting("wanted", "kubelet_config", {"evictionSoft": {"memory.available": "10%"}}),
        ),
        "n1",
        "warn",
        "eviction",
        "less than 10% is free",
    ),
    (
        "an eviction threshold that is no amount",
        several(
            setting("found", "memory", 16 * GIB),
            setting("slurm_node", "memory_mebibytes", 1024),
            setting("wanted", "kubelet_config", {"evictionHard": {"memory.available": "some"}}),
        ),
        "n1",
        "refuse",
        "kubelet_config",
        "some",
    ),
    ("Singularity-CRI", SYCRI, "n1", "refuse", "cri", "only CRI v1alpha2"),
    (
        "Singularity-CRI by another name",
        several(
            OWN,
            setting("wanted", "socket", "unix:///run/cri.sock"),
            setting("found", "units", {"sycri.service": "active"}),
        ),
        "n1",
        "refuse",
        "cri",
        "Singularity-CRI speaks only CRI v1alpha2, and kubelet 1.36.3 only v1",
    ),
    (
        "an old CRI-O",
        several(
            OWN,
            setting("wanted", "socket", "unix:///run/crio/crio.sock"),
            setting("found", "runtimes", {"crio": "1.19.7"}),
        ),
        "n1",
        "refuse",
        "cri",
        "crio 1.19.7 does not speak CRI v1",
    ),
    (
        "no runtime",
        setting("wanted", "runtime_manage", False),
        "n1",
        "refuse",
        "runtime",
        "no container runtime listens",
    ),
    (
        "an old containerd",
        several(OWN, setting("found", "runtimes", {"containerd": "1.5.9"})),
        "n1",
        "refuse",
        "cri",
        "containerd 1.5.9 does not speak CRI v1",
    ),
    (
        "a containerd too old for 1.37",
        several(setting("kube", "version", "v1.37.0"), setting("found", "runtimes", {"containerd": "1.7.22"})),
        "n1",
        "refuse",
        "cri",
        "RuntimeConfig",
    ),
    (
        "Docker's containerd",
        several(OWN, setting("found", "cri_disabled", True)),
        "n1",
        "refuse",
        "cri",
        "disabled_plugins",
    ),
    ("a kubelet too new", settled(kubelet="1.37.0"), "n1", "refuse", "kubelet_version", "the API server v1.36.3"),
    (
        "a kubelet too old",
        setting("found", "kubelet", "1.32.1"),
        "n1",
        "refuse",
        "kubelet_version",
        "installed is 1.32.1",
    ),
    ("a port that is taken", setting("found", "ports", {"10250": "nc"}), "n1", "refuse", "port", "taken by nc"),
    ("a full disk", setting("disk", "free", GIB), "n1", "refuse", "disk", "/ has 1.0 GiB free, and /var/lib/kubelet"),
    (
        "a full disk of its own",
        several(setting("disk", "mount", "/var/lib/kubelet"), setting("disk", "free", GIB)),
        "n1",
        "refuse",
        "disk",
        "/var/lib/kubelet has 1.0 GiB free",
    ),
    (
        "a nearly full disk",
        several(setting("disk", "mount", "/var/lib/kubelet"), setting("disk", "free", 10 * GIB)),
        "n1",
        "warn",
        "disk",
        "90 % full",
    ),
    ("a read-only disk", setting("disk", "read_only", True), "n1", "refuse", "disk", "read-only"),
    ("a root in memory", setting("disk", "type", "tmpfs"), "n1", "refuse", "stateless", "does not outlive a reboot"),
    ("a root on NFS", setting("disk", "type", "nfs4"), "n1", "refuse", "stateless", "(nfs4)"),
    (
        "a container",
        several(setting("disk", "type", "overlay"), setting("found", "container", "podman")),
        "n1",
        "note",
        "stateless",
        "is a container (podman)",
    ),
    (
        "two networks",
        setting("found", "addresses", {"eth0": ["10.0.0.1"], "ib0": ["10.1.0.1"]}),
        "n1",
        "refuse",
        "node_ip",
        "eth0 10.0.0.1, ib0 10.1.0.1",
    ),
    ("an address it lacks", setting("wanted", "node_ip", "10.9.9.9"), "n1", "refuse", "node_ip", "10.9.9.9"),
    ("no address", setting("wanted", "node_ip", "eth0"), "n1", "refuse", "node_ip", "eth0, which is no address"),
    ("docker", setting("found", "units", {"docker.service": "active"}), "n1", "warn", "service", "docker runs"),
    ("Puppet", setting("found", "units", {"puppet.service": "active"}), "n1", "note", "owner", "puppet.service runs"),
    ("firewalld", setting("found", "units", {"firewalld.service": "active"}), "n1", "warn", "service", "firewalld"),
    ("k3s", setting("found", "units", {"k3s-agent.service": "active"}), "n1", "refuse", "kubernetes", "k3s runs here"),
    (
        "a kubelet",
        setting("found", "units", {"kubelet.service": "active"}),
        "n1",
        "refuse",
        "kubernetes",
        "not by this",
    ),
    (
        "a node of another hand",
        setting("found", "kubernetes", ["/etc/kubernetes/kubelet.conf"]),
        "n1",
        "refuse",
        "kubernetes",
        "/etc/kubernetes/kubelet.conf",
    ),
    (
        "a node of ours",
        several(
            setting("found", "kubernetes", ["/etc/kubernetes/kubelet.conf"]),
            setting("found", "record", ["node_kubelet"]),
            setting("found", "ports", {"10250": "kubelet"}),
        ),
        "n1",
        "note",
        "kubernetes",
        "was joined by this collection",
    ),
    ("munge", setting("found", "munge", "munge: not running"), "n1", "refuse", "munge", "munge: not running"),
    ("SELinux", setting("found", "selinux", "1"), "n1", "warn", "selinux", "enforcing"),
    ("strict memory", setting("found", "overcommit", "2"), "n1", "warn", "overcommit", "memory is 2 here"),
    ("an old kernel", setting("found", "kernel", "3.10.0-1160.el7"), "n1", "warn", "kernel", "3.10.0"),
    (
        "another owner",
        setting("found", "owners", [{"path": "/etc/slurm/slurm.conf", "line": 1, "owner": "Puppet"}]),
        "n1",
        "warn",
        "owner",
        "/etc/slurm/slurm.conf line 1 says that it is Puppet's",
    ),
    ("a line against one user", setting("found", "killing", [LINE]), "n1", "warn", "kills", "/e.sh line 7 kills all"),
    (
        "the same line beside jobs",
        several(setting("found", "killing", [LINE]), setting("wanted", "share_mode", "placeholder")),
        "n1",
        "refuse",
        "kills",
        "/e.sh line 7",
    ),
    (
        "a line against all",
        setting("found", "killing", [{**LINE, "anyone": True}]),
        "n1",
        "refuse",
        "kills",
        "/e.sh line 7",
    ),
]


@pytest.mark.parametrize(
    ("spoil", "where", "level", "code", "words"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_what_is_wrong_with_a_machine_is_named(
    spoil: t.Callable[[Site], None], where: str, level: str, code: str, words: str
) -> None:
    assert (level, code) in said(spoil, where, words)


@pytest.mark.parametrize(
    ("wanted", "devices", "memory", "given"),
    [
        ({}, ["nvidia0"], 0, 0),  # a hand-over proves them free
        ({"kubelet_config": {"cgroupRoot": "/", "cgroupsPerQOS": True}}, [], 0, 0),
        ({}, [], 16 * GIB, 16 * 1024 - 100),
        ({"kubelet_config": {"evictionHard": {"memory.available": "0%"}}}, [], 16 * GIB, 16 * 1024),
    ],
)
def test_what_a_hand_over_and_the_kubelet_can_live_with_is_no_finding(
    wanted: dict[str, t.Any], devices: list[str], memory: int, given: int
) -> None:
    site = Site()
    site.wanted.update(wanted)
    site.n1.update(devices=devices, memory=memory)
    site.slurm_nodes[0]["memory_mebibytes"] = given
    assert site.judge()["n1"].findings == ()


@pytest.mark.parametrize("fields", [{"cgroupsPerQOS": "false"}, {"cgroupRoot": "/site"}])
def test_what_a_run_may_take_out_of_a_kubelet_that_we_have_made_is_named_and_does_not_stop_that_run(
    fields: dict[str, str],
) -> None:
    site = Site()
    site.wanted.update(share_mode="placeholder")
    site.n1.update(kubelet_file=fields, record=["node_kubelet"])
    assert [one.level for one in site.judge()["n1"].findings if one.code == "kubelet_cgroups"] == ["warn"]
