# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of names: one machine is one node in the inventory, in Slurm and in Kubernetes, by whatever name. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import typing as t

from .. import _share_mode
from .._kube import cluster
from .._kube.errors import KubeError
from .._shared import hostlist
from .model import JSON, Finding, Findings, refuse, shown, warn


def share_mode(wanted: JSON, wlm: str) -> Findings:
    """Judge the share mode: one that there is, and that is served beside this batch system."""
    mode, modes = wanted.get("share_mode"), _share_mode.MODES
    served = _share_mode.SERVED.get(wlm, modes[:1])
    if mode in served:
        return
    systems = " and ".join(system for system, those in _share_mode.SERVED.items() if mode in those)
    said = f"is served with {systems} only, and not with {wlm} yet" if systems else f"is none of {', '.join(modes)}"
    yield refuse("share_mode", f"share mode {mode!r} {said}", f"set converged_share_mode: {' or '.join(served)}")


def backed(wanted: JSON) -> Findings:
    """Judge share mode backed: pods that are jobs need a queue for these, which the hook leaves alone."""
    if wanted.get("share_mode") == _share_mode.BACKED and not wanted.get("backed_queue"):
        text = "share mode is backed, and no queue is: the hook would count each pod's job beside the pod"
        yield refuse("backed_queue", text, "set pbs_share_queue and pbs_share_queue_users, for all hosts")


def in_batch_system(name: str, known: t.Iterable[str], system: str) -> Findings:
    """Judge the host's name among those of Slurm or PBS."""
    names = list(known)
    if name in names:
        return
    alike = [one for one in names if one.lower() == name.lower()]
    if alike:
        text = f"the inventory says {name}, and {system} {alike[0]}"
        yield refuse("name_case", text, f"set converged_wlm_node: {alike[0]}")
    else:
        advice = "correct converged_wlm_node, or take the host out of converged_nodes"
        yield refuse(f"unknown_to_{system.lower()}", f"{system} has no node {name!a}", advice)


def same_machine(name: str, batch_hostname: str, hostname: str, system: str) -> Findings:
    """Judge the batch system's host of a node and the machine that the inventory reaches."""
    if batch_hostname.partition(".")[0].lower() != hostname.partition(".")[0].lower():
        text = f"{system}'s {name} is the machine {batch_hostname}, and the inventory reaches {hostname}"
        yield refuse("other_machine", text, "correct ansible_host or converged_wlm_node")


def in_kubernetes(name: str, nodes: JSON, found: JSON) -> Findings:
    """Judge the name in Kubernetes: one it takes, not another machine's, and this machine's only one."""
    try:
        cluster.check_names([name])
    except KubeError as error:
        yield refuse("kube_name", str(error), f"set converged_kube_node: {name.lower()}")
        return
    mine = {address for one in found["addresses"].values() for address in one}
    taken = nodes.get(name)
    if taken and mine and taken["addresses"] and not mine & set(taken["addresses"]):
        yield refuse(
            "kube_name",
            f"Kubernetes has a node {name} at {shown(taken['addresses'])}, which is another machine",
            "set converged_kube_node to a name of its own, or delete the stale Node object",
        )
    for other in sorted(other for other, node in nodes.items() if other != name and mine & set(node["addresses"])):
        yield warn(
            "kube_name",
            f"Kubernetes knows this machine's address as node {other} already, and the inventory says {name}",
            f"set converged_kube_node: {other}, or delete that Node object",
        )


def twice(names: t.Mapping[str, str], what: str) -> t.Dict[str, Finding]:
    """Return by host that another host has the same name."""
    found = {}
    for host, name in names.items():
        others = [other for other, one in names.items() if one == name and other != host]
        if others:
            found[host] = refuse("name_twice", f"{what} is {name}, as of {shown(others)}", "correct one of them")
    return found


def excepted(written: t.Sequence[str]) -> t.Tuple[t.Set[str], t.List[Finding]]:
    """Return the nodes of all host lists, and what is wrong with those that cannot be read."""
    names: t.Set[str] = set()
    wrong = []
    for text in written:
        try:
            names |= set(hostlist.expand(text))
        except hostlist.HostlistError as error:
            wrong.append(refuse("hostlist", f"excepted nodes: {error}", "correct the host list"))
    return names, wrong
