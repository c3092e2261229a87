# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of releases: whether kubelet, container runtime and API server speak with each other. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

from ..model import Findings, Machine, refuse, release, shown
from . import singularity

_CRI_V1_FROM = {"containerd": (1, 6), "crio": (1, 20), "cri-dockerd": (0, 3)}
_ONLY_CRI_V1_FROM = (1, 26)
_RUNTIME_CONFIG_FROM = (1, 37)
_CONTAINERD_WITH_RUNTIME_CONFIG = (2, 0)
_MOST_BEHIND = 3
_BY_SOCKET = (
    ("sycri", "sycri"),
    ("singularity", "sycri"),
    ("cri-dockerd", "cri-dockerd"),
    ("crio", "crio"),
    ("containerd", "containerd"),
)
_MADE_BY = (
    ("+k3s", "k3s"),
    ("+rke2", "RKE2"),
    ("+k0s", "k0s"),
    ("-eks-", "Amazon EKS"),
    ("-gke.", "Google GKE"),
    ("-aliyun", "Alibaba ACK"),
    ("-tke.", "Tencent TKE"),
    ("+vmware", "VMware Tanzu"),
    ("+IKS", "IBM IKS"),
)
_BY_UNIT = {"containerd.service": "containerd", "crio.service": "crio", "sycri.service": "sycri"}


def runtime_name(node: Machine) -> str:
    """Return the program behind the kubelet's socket, by the socket's name, or else by what alone runs there."""
    if singularity.is_wanted(node):
        return "sycri"
    if node.wanted.get("runtime_manage", True):
        return "containerd"
    path = str(node.wanted.get("socket") or "").lower()
    named = next((name for mark, name in _BY_SOCKET if mark in path), "")
    running = [_BY_UNIT[unit] for unit in node.active(*_BY_UNIT)]
    return named or (running[0] if len(running) == 1 else "")


def site_runtime(node: Machine) -> Findings:
    """Judge a runtime of the site's own: it has to be there."""
    if node.wanted.get("runtime_manage", True) or singularity.is_wanted(node):
        return
    if not node.found["socket"]:
        yield refuse(
            "runtime",
            f"no container runtime listens on {node.wanted.get('socket')}",
            "start the site's runtime, correct node_kubelet_socket, or leave node_runtime_manage at true",
        )
    if runtime_name(node) == "containerd" and node.found["cri_disabled"]:
        yield refuse(
            "cri",
            "containerd's CRI is in disabled_plugins of /etc/containerd/config.toml, as Docker's packages write it",
            "take it out of the list and restart containerd",
        )


def fenced_services(node: Machine) -> Findings:
    """Judge services that are stopped for a job: they are the kubelet's own runtime, and serve nothing else."""
    services = [str(name) for name in node.wanted.get("services") or ()]
    name = runtime_name(node)
    strange = [unit for unit, one in _BY_UNIT.items() if unit in services and name and one != name]
    if strange:
        right = next((unit for unit, one in _BY_UNIT.items() if one == name), f"{name}.service")
        right = f"{singularity.BRIDGE}, {right}" if singularity.is_wanted(node) else right
        text = f"node_share_services names {shown(strange)}, and the kubelet's runtime is {name}"
        yield refuse("services", text, f"set node_share_services: [kubelet.service, {right}]")
    elif "containerd.service" in services and node.active("docker.service"):
        text = "Docker uses containerd too, and node_share_services would have it stopped for a job"
        yield refuse("services", text, "set node_share_services: [kubelet.service]")


def runtime_is_containerd(node: Machine) -> bool:
    """Return whether node_runtime puts its containerd on this node."""
    return bool(node.wanted.get("runtime_manage", True)) and not singularity.is_wanted(node)


def toolkit(node: Machine) -> Findings:
    """Judge what an add-on has written into the configuration that we are going to write."""
    if runtime_is_containerd(node) and node.found.get("nvidia_in_config"):
        text = "/etc/containerd/config.toml has runtimes of NVIDIA's toolkit, which node_runtime would take out"
        advice = "let the toolkit (1.18, GPU operator 25.10 or newer) write /etc/containerd/conf.d, or set"
        yield refuse("runtime", text, f"{advice} node_runtime_manage: false")


def distribution(node: Machine) -> Findings:
    """Judge the distribution: packages are known for some families of them."""
    if runtime_is_containerd(node) and not node.found.get("family", "?"):
        text = "node_runtime does not know the packages of this distribution"
        yield refuse("distribution", text, "install a runtime yourself and set node_runtime_manage: false")


def cri_version(node: Machine) -> Findings:
    """Judge the version of CRI: a kubelet from 1.26 on speaks v1 only, which Singularity-CRI has never learned."""
    name = runtime_name(node)
    installed, floor = node.found["runtimes"].get(name, ""), _CRI_V1_FROM.get(name)
    if release(node.kubelet) < _ONLY_CRI_V1_FROM:
        return
    if singularity.is_wanted(node):
        return
    if name == "sycri":
        yield refuse(
            "cri",
            f"Singularity-CRI speaks only CRI v1alpha2, and kubelet {node.kubelet} only v1 (up to 1.25 it speaks both)",
            "use containerd or CRI-O for pods (Apptainer or SingularityCE keeps running SIF images in batch jobs), or"
            " set converged_runtime: singularity_cri, which puts a bridge between them",
        )
    elif installed and floor and release(installed) < floor:
        text = f"{name} {installed} does not speak CRI v1, and kubelet {node.kubelet} nothing else"
        yield refuse("cri", text, f"install {name} {floor[0]}.{floor[1]} or newer")
    elif name == "containerd" and installed and _lacks_runtime_config(node.kubelet, installed):
        text = f"containerd {installed} cannot tell kubelet {node.kubelet} its cgroup driver (RuntimeConfig)"
        yield refuse("cri", text, "install containerd 2.0 or newer")


def _lacks_runtime_config(kubelet: str, containerd: str) -> bool:
    return release(kubelet) >= _RUNTIME_CONFIG_FROM and release(containerd) < _CONTAINERD_WITH_RUNTIME_CONFIG


def made_by(server: str) -> Findings:
    """Judge a cluster that was not made by kubeadm, by the suffix of its API server's release."""
    name = next((name for mark, name in _MADE_BY if mark in server), "")
    if name:
        text = f"the cluster is one of {name} ({server}): nodes join by kubeadm, which such a cluster does not serve"
        yield refuse("cluster", text, "use a cluster that kubeadm or kubespray has made")


def kubelet_version(node: Machine) -> Findings:
    """Judge the kubelet's release: never newer than the API server, and at most three minor releases older."""
    kubelets = ((node.kubelet, "the kubelet that is wanted"), (node.found["kubelet"], "the kubelet that is installed"))
    for text, which in kubelets:
        (major, minor), (server_major, server_minor) = release(text), release(node.server)
        fits = major == server_major and 0 <= server_minor - minor <= _MOST_BEHIND
        if node.server and text and not fits:
            yield refuse(
                "kubelet_version",
                f"{which} is {text}, and the API server {node.server}",
                "a kubelet may be as old as three minor releases before the API server, and never newer",
            )
