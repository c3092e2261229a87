# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Ansible inventory of a bed: its groups, and how its hosts are reached."""

from __future__ import annotations

import json
from typing import Any

from testbed import controlplane, keys
from testbed.recipe import ADMINISTRATOR
from testbed.state import Bed, Host

GROUPS = {"node": "converged_nodes", "controller": "converged_controllers", "kube": "converged_kube"}


def inventory(bed: Bed) -> dict[str, Any]:
    """The inventory as data. Host names are those inside the bed."""
    groups = {
        group: {"hosts": {host.name: host_variables(host) for host in bed.hosts if host.role == role}}
        for role, group in GROUPS.items()
        if any(host.role == role for host in bed.hosts)
    }
    if bed.wlm != "none" and groups.get("converged_nodes"):
        groups["converged_shared"] = {"hosts": {host.name: {} for host in bed.hosts if host.role == "node"}}
    return {"all": {"vars": variables(bed), "children": groups}}


def host_variables(host: Host) -> dict[str, str]:
    """What differs from host to host."""
    return {"ansible_host": host.ip}


def variables(bed: Bed) -> dict[str, str]:
    """What all hosts share: the way in, and what the collection requires."""
    checks = f"-o UserKnownHostsFile={keys.known_hosts(bed)} -o GlobalKnownHostsFile=/dev/null"
    found = {
        "ansible_user": ADMINISTRATOR,
        "ansible_ssh_private_key_file": str(keys.identity(bed)),
        "ansible_ssh_common_args": f"-F /dev/null {checks} -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes",
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    if bed.wlm != "none":
        found["converged_wlm"] = bed.wlm
    if bed.kube:
        found["converged_kubeconfig"] = "/etc/kubernetes/admin.conf"
        found["converged_api_server"] = f"https://{controlplane.kube_host(bed).ip}:6443"
    return found


def to_yaml(data: dict[str, Any], *, indent: int = 0) -> str:
    """Nested mappings of strings as YAML; JSON strings are YAML strings, so no library is needed before the set-up."""
    lines = []
    for key, value in data.items():
        margin = "  " * indent
        if isinstance(value, dict):
            lines.append(f"{margin}{key}:\n{to_yaml(value, indent=indent + 1)}")
        else:
            lines.append(f"{margin}{key}: {json.dumps(value)}\n")
    return "".join(lines)
