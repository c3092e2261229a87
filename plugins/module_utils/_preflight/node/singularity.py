# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of nodes whose pods Singularity-CRI is to run, through a bridge: what refuses it, and its limits. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

from ... import _runtime, _share_mode
from ..model import Findings, Machine, refuse, release, warn

BRIDGE = "converged-cri-bridge.service"
# 1.37 takes the cgroup driver from the runtime alone, which the bridge says. What later ones ask is not known.
_LAST_KUBELET = (1, 37)
_LIMITS = (
    "Singularity-CRI was archived in 2020 and has no maintainer. Its restart ends all pods of the node. A container of"
    " root keeps three capabilities whatever it drops. There are no user namespaces, image volumes or huge pages, and"
    " kubectl exec loses the exit status. About 20 pods run on a node"
)


def is_wanted(node: Machine) -> bool:
    """Return whether the inventory wants Singularity-CRI on this node."""
    return str(node.wanted.get("runtime") or "") == _runtime.SINGULARITY_CRI


def kind_of_node(node: Machine) -> Findings:
    """Refuse nodes on which Singularity-CRI behind the bridge cannot run, or has never been seen to."""
    if not is_wanted(node):
        return
    if node.found["cgroup"] != "v1":
        yield refuse(
            "cri_cgroup",
            f"cgroup {node.found['cgroup']}, and Singularity-CRI has been seen to run with cgroup v1 alone",
            "set converged_runtime: containerd, or boot with systemd.unified_cgroup_hierarchy=0",
        )
    mode = str(node.wanted.get("share_mode") or "")
    if mode in _share_mode.BESIDE:
        text = f"converged_share_mode is {mode}, and Singularity-CRI is served where pods and jobs take turns"
        yield refuse("cri", text, "set converged_share_mode: handover, or converged_runtime: containerd")
    if release(node.kubelet) > _LAST_KUBELET:
        last = ".".join(map(str, _LAST_KUBELET))
        text = f"kubelet {node.kubelet}, and the bridge has what kubelets up to {last} need of a runtime"
        yield refuse("cri", text, "set converged_runtime: containerd, or keep the older kubelet")


def limits(node: Machine) -> Findings:
    """Tell the site what it gets, in every run."""
    if is_wanted(node):
        yield warn("cri_limits", _LIMITS, "prefer containerd; see docs/guides/singularity-cri.md")
