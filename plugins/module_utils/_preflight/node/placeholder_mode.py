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

from ... import _share_mode
from ..model import Findings, Machine, refuse, warn

_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?\Z", re.ASCII)


def placeholders(node: Machine) -> Findings:
    """Judge placeholders: the kubelet reads the directory that nodeshare writes, and no core is given twice."""
    mode = node.wanted.get("share_mode")
    yield from _one_word(str(mode), str(node.wanted.get("node_mode") or ""))
    yield from _labelled("share_mode", "converged_share_mode", node)
    if mode not in _share_mode.BESIDE:
        return
    yield from _directory(node)
    fence = node.wanted.get("fence")
    yield from _labelled("fence", "node_share_fence", node)
    if fence not in _share_mode.FENCES:
        text = f"node_share_fence {fence!r} is none of {', '.join(_share_mode.FENCES)}"
        yield refuse("fence", text, "set one of them")
    elif fence == "split":
        yield from _split(node)
    elif fence == "cores" and node.kubelet_config.get("cpuManagerPolicy") == "static":
        text = "the kubelet's cpuManagerPolicy static gives containers cores of their own, which may be those of jobs"
        yield refuse("fence", text, "leave it at none, or set node_share_fence: split")


def _directory(node: Machine) -> Findings:
    """Judge where placeholders stand, by what the roles take for a variable that the site does not set."""
    so_far = str((node.found.get("kubelet_file") or {}).get("staticPodPath") or "")
    manifests = str(node.wanted.get("manifests") or _share_mode.placeholder_directory(so_far))
    given = node.kubelet_config.get("staticPodPath") or node.wanted.get("static_pods") or node.wanted.get("manifests")
    read = str(given or _share_mode.placeholder_directory(so_far))
    if posixpath.normpath(read) != posixpath.normpath(manifests):
        text = f"the kubelet is to read static pods in {read}, and placeholders stand in {manifests}"
        yield refuse("static_pods", text, "give node_share_manifests and node_kubelet_static_pods the same directory")
    elif posixpath.normpath(manifests) == _share_mode.PLACEHOLDERS_ON_DISK:
        text = f"placeholders stand on disk, in {manifests}: a job waits for a slow disk, and a full one keeps it out"
        yield warn("static_pods", text, "move them while the node has no job: docs/guides/day-2.md")


def _one_word(mode: str, of_nodeshare: str) -> Findings:
    """Judge both words for the share mode: label, controller and preflight read one, nodeshare the other."""
    if of_nodeshare and (of_nodeshare == "handover") != (mode == "handover"):
        text = f"node_share_mode is {of_nodeshare}, and the node's share mode {mode}"
        yield refuse("share_mode", text, "set converged_share_mode alone")


def _labelled(code: str, variable: str, node: Machine) -> Findings:
    """Judge a label: a Node has it from the inventory, and what a play says beside that reaches nodeshare alone."""
    said, labelled = (str(node.wanted.get(key) or "") for key in (code, f"inventory_{code}"))
    if labelled and labelled != said:
        text = f"{variable} is {said} here, and {labelled} in the inventory, by which the Node is labelled"
        yield refuse(code, text, f"set {variable} in the inventory alone")


def _split(node: Machine) -> Findings:
    pods, reserved = str(node.wanted.get("pod_cpus") or ""), str(node.kubelet_config.get("reservedSystemCPUs") or "")
    if not pods or not reserved:
        missing = "reservedSystemCPUs in node_kubelet_config" if pods else "node_share_pod_cpus"
        text = f"node_share_fence is split, and {missing} is not set"
        yield refuse("fence", text, "name the cores of pods in one, and those of jobs in the other")
        return
    try:
        both = cpus(pods) & cpus(reserved)
    except ValueError as error:
        yield refuse("fence", f"{error} is no list of cores", "write it as in 0-3,6")
        return
    if both:
        text = (
            f"core {min(both)} is in node_share_pod_cpus ({pods}) and in the kubelet's reservedSystemCPUs ({reserved})"
        )
        yield refuse("fence", text, "name each core in one of them")


def cpus(text: str) -> t.Set[int]:
    """Read a cpuset as the kernel writes it: `0-3,6`."""
    found: t.Set[int] = set()
    for word in text.split(","):
        match = _RANGE.match(word.strip())
        run = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
        if not run:
            raise ValueError(ascii(text[:40]))
        found.update(run)
    return found
