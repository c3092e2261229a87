# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A filter that says which Node objects the hosts of a play are, with the labels that they shall have."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

SHARE_MODE = "node-restriction.kubernetes.io/converged-share-mode"
DEFAULT_MODE = "handover"


def kube_nodes(hosts: t.Iterable[str], hostvars: t.Mapping[str, t.Any]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for host in hosts:
        known = hostvars[host]
        name = str(known.get("converged_kube_node") or known["inventory_hostname_short"])
        if name in found:
            raise AnsibleFilterError(
                f"kube_nodes: host {host}: another host is node {name}, too: set converged_kube_node"
            )
        labels = dict(known.get("node_kubelet_labels") or {})
        mode = str(known.get("converged_share_mode") or DEFAULT_MODE)
        found[name] = {**{str(key): str(value) for key, value in labels.items()}, SHARE_MODE: mode}
    return found


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"kube_nodes": kube_nodes}
