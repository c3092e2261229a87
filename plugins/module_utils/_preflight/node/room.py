# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether PBS gives away more of a node than its kubelet can show as taken, where pods run beside jobs. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import typing as t

from ... import _quantity, _share_mode
from ..model import JSON, Findings, Machine, note, refuse, warn
from . import placeholder_mode

_KEPT = ("systemReserved", "kubeReserved")
_EVICTION = "100Mi"  # which a kubelet keeps free unless it is told otherwise


def what_pbs_gives(vnodes: t.Sequence[JSON], node: Machine) -> Findings:
    """Judge cores and memory of all vnodes, against what the kubelet leaves of the machine."""
    if node.wanted.get("share_mode") not in _share_mode.BESIDE:
        return
    available = [one.get("available") or {} for one in vnodes]
    cores = sum(int(one.get("ncpus") or 0) for one in available)
    memory = sum(int(one.get("mem") or 0) for one in available)
    try:
        if node.wanted.get("fence") == "split":
            yield from _split(cores, node)
        elif node.found.get("cpus"):
            yield from _beyond("cores", cores, node.found["cpus"] - _kept_cores(node.kubelet_config), node)
        if node.found.get("memory"):
            left = (node.found["memory"] - _kept_memory(node.kubelet_config)) >> 20
            yield from _beyond("MiB of memory", memory >> 20, left, node)
    except ValueError as error:
        yield refuse("kubelet_config", f"node_kubelet_config: {error}", "write it as the kubelet reads it")


def _split(cores: int, node: Machine) -> Findings:
    """Judge a split: PBS has the cores that the kubelet keeps away from pods, and no other."""
    reserved = str(node.kubelet_config.get("reservedSystemCPUs") or "")
    if reserved and cores > len(placeholder_mode.cpus(reserved)):
        text = (
            f"PBS gives {cores} cores of it, and the kubelet keeps {reserved} for jobs: they run on cores of pods, too"
        )
        yield warn("room", text, f"set resources_available.ncpus = {len(placeholder_mode.cpus(reserved))} in PBS")


def _beyond(what: str, given: int, left: int, node: Machine) -> Findings:
    if given <= left:
        return
    text = f"PBS gives {given} {what} of it, and the kubelet has {left} for pods"
    if node.wanted.get("share_mode") == _share_mode.BACKED:
        text += ": where jobs and backed pods fill it, a placeholder takes the place of a pod that PBS has put there"
        yield warn("room", text, "lower what PBS has, or systemReserved and kubeReserved in node_kubelet_config")
    else:
        yield note("room", text + ": the placeholder of a job that has all of it is cut to that")


def _kept_cores(config: JSON) -> int:
    """Return the whole cores that are kept: with less than one kept, one cannot be given whole."""
    if config.get("reservedSystemCPUs"):
        return len(placeholder_mode.cpus(str(config["reservedSystemCPUs"])))
    kept = sum(_quantity.millicores(str(_kept(config, name).get("cpu", "0"))) for name in _KEPT)
    return -(-kept // 1000)


def _kept_memory(config: JSON) -> int:
    sizes = [str(_kept(config, name).get("memory", "0")) for name in _KEPT]
    eviction = str((config.get("evictionHard") or {}).get("memory.available", _EVICTION))
    sizes.append("0" if eviction.endswith("%") else eviction)
    return sum(_quantity.byte_count(size, "kubernetes") for size in sizes)


def _kept(config: JSON, name: str) -> JSON:
    kept: JSON = config.get(name) or {}
    return kept
