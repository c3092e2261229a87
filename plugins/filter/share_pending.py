# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A filter that says which hosts a plan would change, from what the roles have registered in check mode.

A conversion plans on all hosts at once and then goes, batch by batch, only to those where something is to be done.
"""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.plugin_utils._planned import would_change

# What says by `changed`, or in a plan by `would_change`, that a host is not as it should be.
RESULTS = {
    "slurm": (
        *("__slurm_share_stubs", "__slurm_share_left_out"),
        *("__slurm_share_copy", "__slurm_share_conf", "__slurm_share_given_back", "__slurm_share_restart"),
    ),
    "pbs": ("__pbs_share_remembered", "__pbs_share_queue", "__pbs_share_hook"),
    "controller": (
        *("__drain_access_rights", "__drain_access_identity", "__drain_access_signed"),
        *("__node_share_controller", "__slurm_share_enabled", "__singularity_cri_policy"),
    ),
    "node": (
        *("__node_share_state", "__node_runtime_state", "__node_kubelet_state", "__node_kubelet_join"),
        *("__node_kubelet_configured", "__torque_share_state", "__node_runtime_restored"),
        *("__singularity_cri_state", "__singularity_cri_configured", "__singularity_cri_bridged"),
        *("__singularity_cri_bridge_restored", "__singularity_cri_restored"),
    ),
}
# One call for all nodes: these parts of its result name those that it would change.
NODES = {"__node_kubelet_labelled": "labelled", "__node_kubelet_admitted": "untainted"}


def share_pending(hostvars: t.Mapping[str, t.Any], hosts: t.Iterable[str], kind: str = "node") -> list[str]:
    """Those of the hosts on which something of this kind is to be done."""
    if kind not in RESULTS:
        raise AnsibleFilterError(f"share_pending: {kind!a}: expected one of {', '.join(RESULTS)}")
    return [host for host in hosts if _pending(hostvars[host], kind)]


def _pending(known: t.Mapping[str, t.Any], kind: str) -> bool:
    if any(would_change(known.get(name)) for name in RESULTS[kind]):
        return True
    if kind != "node":
        return False
    # Preflight has looked whether the batch system's scripts act there.
    if not ((known.get("__share_preflight_host") or {}).get("found") or {}).get("enabled"):
        return True
    node = str(known.get("converged_kube_node") or known["inventory_hostname_short"])
    return any(node in ((known.get(name) or {}).get(part) or ()) for name, part in NODES.items())


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"share_pending": share_pending}
