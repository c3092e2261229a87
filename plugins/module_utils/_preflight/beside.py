# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of a node's own settings where pods run beside jobs: what keeps them apart, where placeholders stand. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import posixpath
import re
import typing as t

from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import Findings, Machine, refuse

FENCES = ("cores", "split", "counts")
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?\Z", re.ASCII)


def placeholders(node: Machine) -> Findings:
    """The kubelet reads the directory that nodeshare writes, and neither of them gives a core away twice."""
    if node.wanted.get("share_mode") != "placeholder":
        return
    manifests = str(node.wanted.get("manifests", ""))
    read = str(node.kubelet_config.get("staticPodPath") or node.wanted.get("static_pods") or "")
    if posixpath.normpath(read) != posixpath.normpath(manifests):
        text = f"the kubelet is to read static pods in {read or 'no directory'}, and placeholders stand in {manifests}"
        yield refuse("static_pods", text, "give node_share_manifests and node_kubelet_static_pods the same directory")
    fence = node.wanted.get("fence")
    if fence not in FENCES:
        yield refuse("fence", f"node_share_fence {fence!r} is none of {', '.join(FENCES)}", "set one of them")
    elif fence == "split":
        yield from _split(node)
    elif fence == "cores" and node.kubelet_config.get("cpuManagerPolicy") == "static":
        text = "the kubelet's cpuManagerPolicy static gives containers cores of their own, which may be those of jobs"
        yield refuse("fence", text, "leave it at none, or set node_share_fence: split")


def _split(node: Machine) -> Findings:
    pods, reserved = str(node.wanted.get("pod_cpus") or ""), str(node.kubelet_config.get("reservedSystemCPUs") or "")
    if not pods or not reserved:
        missing = "reservedSystemCPUs in node_kubelet_config" if pods else "node_share_pod_cpus"
        text = f"node_share_fence is split, and {missing} is not set"
        yield refuse("fence", text, "name the cores of pods in one, and those of jobs in the other")
        return
    try:
        both = _cpus(pods) & _cpus(reserved)
    except ValueError as error:
        yield refuse("fence", f"{error} is no list of cores", "write it as in 0-3,6")
        return
    if both:
        text = (
            f"core {min(both)} is in node_share_pod_cpus ({pods}) and in the kubelet's reservedSystemCPUs ({reserved})"
        )
        yield refuse("fence", text, "name each core in one of them")


def _cpus(text: str) -> t.Set[int]:
    found: t.Set[int] = set()
    for word in text.split(","):
        match = _RANGE.match(word.strip())
        if match is None:
            raise ValueError(ascii(text[:40]))
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found
