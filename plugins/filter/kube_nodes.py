# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that say which Node objects the hosts of a play are, with the labels and taints that these must have."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.module_utils import _runtime, _share_mode

_HERE = ("localhost", "127.0.0.1", "::1")


def kube_nodes(hosts: t.Iterable[str], hostvars: t.Mapping[str, t.Any]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for host in hosts:
        known = hostvars[host]
        name = _name(known)
        if name in found:
            raise AnsibleFilterError(
                f"kube_nodes: host {host}: another host is node {name}, too: set converged_kube_node"
            )
        labels = dict(known.get("node_kubelet_labels") or {})
        found[name] = {
            **{str(key): str(value) for key, value in labels.items()},
            **_share_mode.labels(known),
            **_runtime.labels(known),
        }
    return found


def kube_taints(hosts: t.Iterable[str], hostvars: t.Mapping[str, t.Any]) -> dict[str, list[str]]:
    """Return, by the key of a taint of a share mode or a runtime, the nodes that must have it; others lose it."""
    those = [hostvars[host] for host in hosts]
    backed = [_name(known) for known in those if _share_mode.mode_of(known) == _share_mode.BACKED]
    limited = [_name(known) for known in those if _runtime.runtime_of(known) == _runtime.SINGULARITY_CRI]
    return {_share_mode.BACKED_TAINT: backed, _runtime.TAINT: limited}


def kube_reached(hosts: t.Iterable[str], hostvars: t.Mapping[str, t.Any], registered: str) -> list[str]:
    """Return the hosts with a registered result of this name that is no failure.

    Ansible counts a host with a rescued failure among those of the batch until all others are through.
    """
    results = {host: hostvars[host].get(registered) for host in hosts}
    return [host for host, result in results.items() if result and not result.get("failed")]


def kube_nodes_of_pods(pods: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the nodes of pods that are ready and are not being deleted, one for each pod, sorted."""
    return sorted(
        str(pod["spec"]["nodeName"])
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in pod["status"].get("conditions") or ()
        )
    )


def kube_become(hosts: t.Sequence[str], hostvars: t.Mapping[str, t.Any]) -> bool:
    """Return whether the API is asked as root: not from here, where the user who runs Ansible has the kubeconfig."""
    for host in hosts[:1]:
        here = "local" if host in _HERE else ""
        return bool(hostvars[host].get("ansible_connection", here) != "local")
    return True


def _name(known: t.Mapping[str, t.Any]) -> str:
    return str(known.get("converged_kube_node") or known["inventory_hostname_short"])


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "kube_become": kube_become,
            "kube_nodes": kube_nodes,
            "kube_nodes_of_pods": kube_nodes_of_pods,
            "kube_reached": kube_reached,
            "kube_taints": kube_taints,
        }
