# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of one machine by itself: whether a kubelet can live there, beside what is there already. Pure.

Absent facts are no findings, except where a comment says so.

PRIVATE to the collection.
"""

from __future__ import annotations

import ipaddress

from ... import _quantity, _share_mode
from ..model import Findings, Machine, note, refuse, release, shown, warn

_OTHER_KUBERNETES = {
    "k3s.service": "k3s",
    "k3s-agent.service": "k3s",
    "rke2-server.service": "RKE2",
    "rke2-agent.service": "RKE2",
    "k0scontroller.service": "k0s",
    "k0sworker.service": "k0s",
    "snap.microk8s.daemon-kubelite.service": "MicroK8s",
}
_AGENTS = ("puppet.service", "salt-minion.service", "cfengine3.service", "chef-client.service")
_IN_THE_WAY = {
    "docker.service": (
        "docker runs: it drops forwarded packets (iptables FORWARD) and its containers are nobody's pods",
        "stop it, or let forwarded packets of pods pass",
    ),
    "firewalld.service": (
        "firewalld filters packets",
        "let 10250/tcp in from the API server, and forwarded packets of pods pass",
    ),
    "ufw.service": (
        "ufw filters packets",
        "let 10250/tcp in from the API server, and forwarded packets of pods pass",
    ),
}
_CGROUP_V1_REFUSED_FROM = (1, 35)
_CGROUP_V1_FROZEN_FROM = (1, 31)
_OLDEST_KERNEL = (4, 19)
_CONTROLLER = "drain_access"  # the role in the record of a batch controller that has an identity at the API
_EVICTION = "100Mi"  # which a kubelet keeps free unless it is told otherwise


def swap(node: Machine) -> Findings:
    """Judge swap: the kubelet does not start with it, unless it is told to."""
    names = shown(node.found["swap"])
    if names and node.kubelet_config.get("failSwapOn", True):
        advice = "turn it off, or set failSwapOn: false in node_kubelet_config"
        yield refuse("swap", f"swap is on ({names}) and the kubelet does not start with it", advice)
    elif names:
        yield note("swap", f"swap is on ({names}), as failSwapOn: false allows")


def cgroup_mode(node: Machine) -> Findings:
    """Judge the cgroup version: from 1.35 on a kubelet refuses v1, unless it is told not to."""
    if node.found["cgroup"] != "v1" or not node.kubelet:
        return
    if release(node.kubelet) >= _CGROUP_V1_REFUSED_FROM and node.kubelet_config.get("failCgroupV1", True):
        yield refuse(
            "cgroup",
            f"cgroup v1, with which kubelet {node.kubelet} does not start",
            "boot with systemd.unified_cgroup_hierarchy=1, or set failCgroupV1: false in node_kubelet_config",
        )
    elif release(node.kubelet) >= _CGROUP_V1_FROZEN_FROM:
        yield warn("cgroup", f"cgroup v1, which Kubernetes {node.kubelet} still serves but no longer improves")


def kubelet_cgroups(node: Machine) -> Findings:
    """Judge the kubelet's cgroups: pods are kept off jobs' cores and limited by those below kubepods at the top.

    Without them a hand-over can still end all pods, but confines none of those that stay.
    """
    config = {**(node.found.get("kubelet_file") or {}), **node.kubelet_config}
    root, wrong = str(config.get("cgroupRoot") or "/"), {}
    if root != "/":
        wrong["cgroupRoot"] = f"is {root}, and pods are kept off jobs' cores in the cgroups below /"
    if str(config.get("cgroupsPerQOS", True)).lower() == "false":
        wrong["cgroupsPerQOS"] = "is false, so that pods have no cgroups by which they are kept off jobs"
    for field, text in wrong.items():
        # On a node that we have joined, a run takes out what the site has taken out of node_kubelet_config.
        goes = node.joined_by_us and field not in node.kubelet_config
        grave = node.wanted.get("share_mode") in _share_mode.BESIDE and not goes
        advice = f"leave {field} out of node_kubelet_config and of the cluster's kubelet-config"
        yield (refuse if grave else warn)("kubelet_cgroups", f"the kubelet's {field} {text}", advice)


def devices(node: Machine) -> Findings:
    """Judge accelerators beside jobs: they are counted, and only the batch system knows which of them a job has."""
    found, mode = node.found.get("devices") or [], node.wanted.get("share_mode")
    if found and mode in _share_mode.BESIDE:
        text = f"has accelerators (/dev/{shown(found)}), and in share mode {mode} a pod may get the one that a job has"
        yield refuse("devices", text, "use share mode handover there")


def eviction(node: Machine, given: int) -> Findings:
    """Judge eviction: a job that uses all it has may leave less than the kubelet keeps free. ``given`` is bytes."""
    memory = node.found.get("memory") or 0
    if not memory or not given:
        return
    config = node.kubelet_config
    wanted = [str((config.get("evictionHard") or {}).get("memory.available", _EVICTION))]
    wanted += [str(one) for one in [(config.get("evictionSoft") or {}).get("memory.available")] if one is not None]
    try:
        size, most = max((_threshold(text, memory), text) for text in wanted)
    except ValueError as error:
        yield refuse("kubelet_config", f"node_kubelet_config: {error}", "write it as the kubelet reads it")
        return
    if given + size > memory:
        left = max(memory - given, 0) >> 20
        text = (
            f"jobs may use all but {left} MiB of memory, and the kubelet ends pods when less than {most} is free:"
            " a large job costs the node the pods of its DaemonSets"
        )
        advice = "lower the memory that the batch system has, or evictionHard and evictionSoft in node_kubelet_config"
        yield warn("eviction", text, advice)


def _threshold(text: str, memory: int) -> int:
    """Return bytes of an eviction threshold, a quantity or a part of all memory."""
    if text.endswith("%"):
        return int(float(text[:-1]) * memory / 100)
    return _quantity.byte_count(text, "kubernetes")


def ports(node: Machine) -> Findings:
    """Judge the kubelet's ports, unless it is the kubelet that has them."""
    ours = {"kubelet"} if node.joined_by_us or node.found["kubernetes"] else set()
    for port, program in sorted(node.found["ports"].items()):
        if program not in ours:
            yield refuse("port", f"port {port}, the kubelet's, is taken by {program or 'the kernel'}", "free it")


def addresses(node: Machine) -> Findings:
    """Judge addresses: on a machine with several networks the kubelet would choose one by itself."""
    pinned = [word.strip() for word in str(node.wanted.get("node_ip") or "").split(",") if word.strip()]
    known = [address for one in node.found["addresses"].values() for address in one]
    wrong = [word for word in pinned if not _is_address(word)]
    if wrong:
        yield refuse("node_ip", f"node_kubelet_node_ip is {shown(wrong)}, which is no address", "correct it")
    elif pinned and known and not set(pinned) <= set(known):
        text = f"node_kubelet_node_ip is {shown(pinned)}, and this node has {shown(known)}"
        yield refuse("node_ip", text, "correct it")
    elif not pinned and len(node.found["addresses"]) > 1:
        seen = shown([f"{name} {one[0]}" for name, one in sorted(node.found["addresses"].items())])
        text = f"several networks ({seen}), of which the kubelet would choose one by itself"
        yield refuse("node_ip", text, "say which in node_kubelet_node_ip")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def services(node: Machine) -> Findings:
    """Judge services that filter or drop pods' packets, or put back what we change."""
    for unit in node.active(*_IN_THE_WAY):
        yield warn("service", *_IN_THE_WAY[unit])
    for unit in node.active(*_AGENTS):
        yield note("owner", f"{unit} runs here and may put back what is changed", "tell it about the files in the plan")


def kubernetes(node: Machine) -> Findings:
    """Judge parts of a Kubernetes that is not ours: one machine has one kubelet."""
    if node.joined_by_us:
        yield note("kubernetes", f"was joined by this collection (kubelet {node.found['kubelet'] or 'of its own'})")
        return
    other = sorted({_OTHER_KUBERNETES[unit] for unit in node.active(*_OTHER_KUBERNETES)})
    parts = [*node.found["kubernetes"], *(f"an active {unit}" for unit in node.active("kubelet.service"))]
    if other:
        text = f"{shown(other)} runs here, with a kubelet inside its own program that cannot be stopped for a job"
        yield refuse("kubernetes", text, "take it off first: a shared node needs kubelet.service of a kubeadm cluster")
    elif parts:
        text = f"is in a Kubernetes cluster already, not by this collection ({shown(parts)})"
        yield refuse("kubernetes", text, "take it out (kubeadm reset), or accept 'kubernetes' to take it as it is")


def api(node: Machine) -> Findings:
    """Judge the way to the Kubernetes API, which kubelets and the controllers' service need.

    A host that has joined may have lost it for a while only, and jobs do not need it.
    """
    unreached = node.found.get("api_unreached")
    if unreached:
        yield (warn if node.joined_by_us or _CONTROLLER in node.found["record"] else refuse)(
            "api_reach",
            f"does not reach the Kubernetes API at {unreached}",
            "let the connection through, or say in converged_api_server at which address hosts reach the API",
        )


def munge(node: Machine) -> Findings:
    """Judge munge: Slurm's daemons believe no host without it."""
    if node.found["munge"]:
        text = f"munge does not make a credential: {node.found['munge']}"
        yield refuse("munge", text, "repair it: no job starts without it")


def killing(node: Machine) -> Findings:
    """Judge lines that kill: beside jobs they strike pods; in handover mode only pods that stay."""
    for line in node.found["killing"]:
        grave = line["anyone"] or node.wanted.get("share_mode") in _share_mode.BESIDE
        yield (refuse if grave else warn)(
            "kills",
            f"{line['path']} line {line['line']} {line['why']} ({line['text']})",
            "confine it to the job's own cgroup (Slurm's proctrack/cgroup does that), or take it out",
        )


def owners(node: Machine) -> Findings:
    """Judge files that we change and that another configuration management says are its own."""
    for one in node.found["owners"]:
        text = f"{one['path']} line {one['line']} says that it is {one['owner']}'s, which will put it back"
        yield warn("owner", text, "make the same change there, or exempt the file")


def kernel(node: Machine) -> Findings:
    """Judge the kernel: name those that are not tested."""
    if release(node.found["kernel"]) < _OLDEST_KERNEL:
        text = f"kernel {node.found['kernel']} is older than 4.19, the oldest that Kubernetes tests"
        yield warn("kernel", text, "update it")
    if node.found["selinux"] == "1":
        text = "SELinux is enforcing, and this collection has not been proved with it"
        yield warn("selinux", text, "install container-selinux, and try one node first")
    if node.found.get("overcommit") == "2":
        text = "vm.overcommit_memory is 2 here, and a kubelet runs with 1: the kernel will refuse jobs no memory"
        yield warn("overcommit", text, "have Slurm or PBS limit the memory of jobs by cgroups; restore sets 2 again")
