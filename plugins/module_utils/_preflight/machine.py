# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of one machine by itself: whether a kubelet can live there, beside what is there already. Pure.

Each check takes what the inventory wants and what was found, and yields findings. Absent facts are no findings, except
where a comment says so.

PRIVATE to the collection.
"""

from __future__ import annotations

import typing as t

from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import (
    CORE_MODES,
    JSON,
    NOTE,
    REFUSE,
    WARN,
    Finding,
    release,
    shown,
)

Findings = t.Iterator[Finding]

GIB = 1024**3
_LOST_AT_REBOOT = {"tmpfs", "ramfs", "rootfs", "overlay", "nfs", "nfs4", "squashfs", "aufs"}
_OTHER_KUBERNETES = {
    "k3s.service": "k3s",
    "k3s-agent.service": "k3s",
    "rke2-agent.service": "RKE2",
    "snap.microk8s.daemon-kubelite.service": "MicroK8s",
}
_AGENTS = ("puppet.service", "salt-minion.service", "cfengine3.service", "chef-client.service")
_CRI_V1_FROM = {"containerd": (1, 6), "crio": (1, 20), "cri-dockerd": (0, 3)}
_CGROUP_V1_REFUSED_FROM = (1, 35)
_ONLY_CRI_V1_FROM = (1, 26)
_RUNTIME_CONFIG_FROM = (1, 37)


def swap(wanted: JSON, found: JSON) -> Findings:
    if not found["swap"]:
        return
    if (wanted.get("kubelet_config") or {}).get("failSwapOn", True):
        yield Finding(
            REFUSE,
            "swap",
            f"swap is on ({shown(found['swap'])}) and the kubelet does not start with it",
            "turn it off, or set failSwapOn: false in node_kubelet_config",
        )
    else:
        yield Finding(NOTE, "swap", f"swap is on ({shown(found['swap'])}), as failSwapOn: false allows")


def cgroup_mode(wanted: JSON, found: JSON, kubelet: str) -> Findings:
    if found["cgroup"] != "v1" or not kubelet:
        return
    config = wanted.get("kubelet_config") or {}
    if release(kubelet) >= _CGROUP_V1_REFUSED_FROM and config.get("failCgroupV1", True):
        yield Finding(
            REFUSE,
            "cgroup",
            f"cgroup v1, with which kubelet {kubelet} does not start",
            "boot with systemd.unified_cgroup_hierarchy=1, or set failCgroupV1: false in node_kubelet_config and"
            " SystemVerification in node_kubelet_ignore_preflight_errors",
        )
    elif release(kubelet) >= (1, 31):
        yield Finding(WARN, "cgroup", f"cgroup v1, which Kubernetes {kubelet} still serves but no longer improves")


def runtime(wanted: JSON, found: JSON, kubelet: str) -> Findings:
    """A kubelet from 1.26 on speaks CRI v1 only, and Singularity-CRI has never learned it."""
    name = runtime_name(wanted)
    installed = found["runtimes"].get(name, "")
    if name == "sycri":
        if release(kubelet) >= _ONLY_CRI_V1_FROM:
            yield Finding(
                REFUSE,
                "cri",
                f"Singularity-CRI speaks only CRI v1alpha2, and kubelet {kubelet} only v1 (up to 1.25 it speaks both)",
                "use containerd or CRI-O for pods (Apptainer keeps serving batch jobs), or a kubelet of 1.25 or older",
            )
        return
    if not wanted.get("runtime_manage", True):
        if not found["socket"]:
            yield Finding(
                REFUSE,
                "runtime",
                f"no container runtime listens on {wanted.get('socket')}",
                "start the site's runtime, correct node_kubelet_socket, or leave node_runtime_manage at true",
            )
        if name == "containerd" and found["cri_disabled"]:
            yield Finding(
                REFUSE,
                "cri",
                "containerd's CRI is in disabled_plugins of /etc/containerd/config.toml, as Docker's packages write it",
                "take it out of the list and restart containerd",
            )
    floor = _CRI_V1_FROM.get(name)
    if installed and floor and kubelet and release(kubelet) >= _ONLY_CRI_V1_FROM and release(installed) < floor:
        yield Finding(
            REFUSE,
            "cri",
            f"{name} {installed} does not speak CRI v1, and kubelet {kubelet} nothing else",
            f"install {name} {floor[0]}.{floor[1]} or newer",
        )
    if name == "containerd" and installed and release(kubelet) >= _RUNTIME_CONFIG_FROM and release(installed) < (2, 0):
        yield Finding(
            REFUSE,
            "cri",
            f"containerd {installed} cannot tell kubelet {kubelet} its cgroup driver (RuntimeConfig)",
            "install containerd 2.0 or newer",
        )


def runtime_name(wanted: JSON) -> str:
    """The program behind the socket that the kubelet is to use."""
    if wanted.get("runtime_manage", True):
        return "containerd"
    path = str(wanted.get("socket", "")).lower()
    marks = (("sycri", "sycri"), ("singularity", "sycri"), ("cri-dockerd", "cri-dockerd"), ("crio", "crio"))
    return next((name for mark, name in marks if mark in path), "containerd" if "containerd" in path else "")


def ports(wanted: JSON, found: JSON) -> Findings:
    ours = {"kubelet"} if "node_kubelet" in found["record"] or found["kubernetes"] else set()
    for port, program in sorted(found["ports"].items()):
        if program not in ours:
            yield Finding(
                REFUSE, "port", f"port {port}, the kubelet's, is taken by {program or 'the kernel'}", "free it"
            )


def disks(wanted: JSON, found: JSON, minimum: float) -> Findings:
    """Images and pods need room; of what lies in /etc and /usr there is little."""
    judged = set()
    for path, disk in sorted(found["disks"].items(), key=lambda item: (not item[0].startswith("/var/"), item[0])):
        needed = minimum if path.startswith("/var/") else min(minimum, 0.5)
        if disk["read_only"]:
            yield Finding(
                REFUSE, "disk", f"{path} lies on {disk['mount']}, which is read-only", "see the stateless guide"
            )
        if disk["mount"] in judged:
            continue
        judged.add(disk["mount"])
        free = disk["free"] / GIB
        if free < needed and not disk["read_only"]:
            yield Finding(
                REFUSE,
                "disk",
                f"{disk['mount']} has {free:.1f} GiB free, and {path} on it needs {needed:g}",
                "free some, or lower share_preflight_min_free",
            )
        elif disk["size"] and disk["free"] < 0.15 * disk["size"]:
            yield Finding(
                WARN,
                "disk",
                f"{disk['mount']} is {100 - 100 * disk['free'] / disk['size']:.0f} % full",
                "the kubelet evicts pods from 85 % (images) and 90 % on",
            )


def stateless(wanted: JSON, found: JSON) -> Findings:
    """Warewulf, xCAT and BCM boot a root that forgets."""
    lost = {
        disk["mount"]: disk["type"]
        for path, disk in sorted(found["disks"].items())
        if disk["type"] in _LOST_AT_REBOOT and path != "/usr"
    }
    names = shown([f"{mount} ({kind})" for mount, kind in sorted(lost.items())])
    if lost and found["container"] and set(lost.values()) == {"overlay"}:
        yield Finding(NOTE, "stateless", f"this node is a container ({found['container']}) on {names}")
    elif lost:
        yield Finding(
            REFUSE,
            "stateless",
            f"{names} does not outlive a reboot or is shared: programs, identity and record would be lost",
            "put /etc, /var/lib/kubelet, /var/lib/containerd and /var/lib/converged on a local disk",
        )


def addresses(wanted: JSON, found: JSON) -> Findings:
    pinned = wanted.get("node_ip", "")
    known = [address for one in found["addresses"].values() for address in one]
    if pinned and known and not set(str(pinned).split(",")) <= set(known):
        yield Finding(
            REFUSE, "node_ip", f"node_kubelet_node_ip is {pinned}, and this node has {shown(known)}", "correct it"
        )
    elif not pinned and len(found["addresses"]) > 1:
        seen = shown([f"{name} {one[0]}" for name, one in sorted(found["addresses"].items())])
        yield Finding(
            REFUSE,
            "node_ip",
            f"several networks ({seen}), of which the kubelet would choose one by itself",
            "say which in node_kubelet_node_ip",
        )


def services(wanted: JSON, found: JSON) -> Findings:
    active = {unit for unit, state in found["units"].items() if state in ("active", "activating", "reloading")}
    if "docker.service" in active:
        yield Finding(
            WARN,
            "service",
            "docker runs: it drops forwarded packets (iptables FORWARD) and its containers are nobody's pods",
            "stop it, or let forwarded packets of pods pass",
        )
    for unit in ("firewalld.service", "ufw.service"):
        if unit in active:
            yield Finding(
                WARN,
                "service",
                f"{unit} filters packets",
                "let 10250/tcp in from the API server, and forwarded packets of pods pass",
            )
    for unit in _AGENTS:
        if unit in active:
            yield Finding(
                NOTE,
                "owner",
                f"{unit} runs here and may put back what is changed",
                "tell it about the files in the plan",
            )


def kubernetes(wanted: JSON, found: JSON) -> Findings:
    if "node_kubelet" in found["record"]:
        yield Finding(NOTE, "kubernetes", f"was joined by this collection (kubelet {found['kubelet'] or 'of its own'})")
        return
    other = sorted({name for unit, name in _OTHER_KUBERNETES.items() if found["units"].get(unit) == "active"})
    if other:
        yield Finding(REFUSE, "kubernetes", f"{shown(other)} runs here", "take it off first: one kubelet for one node")
    elif found["kubernetes"] or found["units"].get("kubelet.service") == "active":
        parts = found["kubernetes"] or ["an active kubelet.service"]
        yield Finding(
            REFUSE,
            "kubernetes",
            f"is in a Kubernetes cluster already, not by this collection ({shown(parts)})",
            "take it out (kubeadm reset), or accept 'kubernetes' to take it as it is",
        )


def munge(wanted: JSON, found: JSON) -> Findings:
    if found["munge"]:
        yield Finding(
            REFUSE,
            "munge",
            f"munge does not make a credential: {found['munge']}",
            "repair it: no job starts without it",
        )


def killing(wanted: JSON, found: JSON) -> Findings:
    """In core modes pods run beside jobs; in handover mode only pods that stay are struck by a line about one user."""
    for line in found["killing"]:
        grave = line["anyone"] or wanted.get("share_mode") in CORE_MODES
        yield Finding(
            REFUSE if grave else WARN,
            "kills",
            f"{line['path']} line {line['line']} {line['why']} ({line['text']})",
            "confine it to the job's own cgroup (Slurm's proctrack/cgroup does that), or take it out",
        )


def owners(wanted: JSON, found: JSON) -> Findings:
    for one in found["owners"]:
        yield Finding(
            WARN,
            "owner",
            f"{one['path']} line {one['line']} says that it is {one['owner']}'s, which will put it back",
            "make the same change there, or exempt the file",
        )


def kernel(wanted: JSON, found: JSON) -> Findings:
    if release(found["kernel"]) < (4, 19):
        yield Finding(
            WARN,
            "kernel",
            f"kernel {found['kernel']} is older than 4.19, the oldest that Kubernetes tests",
            "update it",
        )
    if found["selinux"] == "1":
        yield Finding(
            WARN,
            "selinux",
            "SELinux is enforcing, and this collection has not been proved with it",
            "install container-selinux, and try one node first",
        )
