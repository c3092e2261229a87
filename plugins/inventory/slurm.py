# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts and groups as Slurm knows them, so that no second list of nodes is kept by hand."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm
short_description: Hosts and groups from a Slurm cluster
version_added: 1.0.0
description:
  - Makes a host of every node of a Slurm cluster, with its state as variables, in the groups C(slurm_nodes),
    C(slurm_partition_X) and C(slurm_feature_X).
  - Makes a host of every C(SlurmctldHost), in the group C(slurm_controllers), the primary first.
  - In names of groups, other characters than letters, digits and underscores become underscores. Two partitions or two
    features whose groups would then have one name are an error.
  - Asks C(scontrol) on the host that runs Ansible, or through a command such as C(ssh). Without a whole answer there is
    no inventory.
  - Uses a configuration file whose name ends in C(slurm.yml) or C(slurm.yaml).
author:
  - converged.hpc maintainers (@converged)
requirements:
  - Slurm 22.05 or newer
extends_documentation_fragment:
  - ansible.builtin.constructed
options:
  plugin:
    description:
      - Marks the file as one for this plugin.
    type: str
    required: true
    choices: [converged.hpc.slurm]
  command_prefix:
    description:
      - The words of a command that runs its arguments where C(scontrol) is, for instance V([ssh, ops@slurmctl]).
    type: list
    elements: str
    default: []
  bin_dir:
    description:
      - The directory of Slurm's programs there, where they are not on the search path.
    type: str
  conf_path:
    description:
      - The C(slurm.conf) there by which the programs find the cluster, where it is not in its usual place.
    type: str
  timeout:
    description:
      - Seconds after which an answer is no longer waited for.
    type: int
    default: 60
"""

EXAMPLES = r"""
# slurm.yml: all nodes of Slurm, of which those of the partition batch are to be shared
plugin: converged.hpc.slurm
command_prefix: [ssh, ops@slurmctl]
groups:
  converged_nodes: slurm_partitions is defined
  converged_shared: "'batch' in slurm_partitions | default([])"
  converged_controllers: slurm_controller is defined
"""

import re
import typing as t

from ansible_collections.converged.hpc.plugins.module_utils._slurm.client import Slurm
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import SlurmError
from ansible_collections.converged.hpc.plugins.module_utils._slurm.parse import Node, Setting
from ansible_collections.converged.hpc.plugins.plugin_utils._inventory import (
    ClusterInventory,
    Host,
    InventoryError,
    checked,
    group_name,
    refuse_shared_groups,
)

_CONTROLLER = re.compile(r"([^()\s]+)(?:\(([^()\s]+)\))?\Z")


def node_host(node: Node) -> Host:
    """Make the host of a node, in the group of each partition and feature."""
    groups = ["slurm_nodes"]
    groups += [group_name("slurm_partition", name) for name in node.partitions]
    groups += [group_name("slurm_feature", name) for name in node.features]
    variables = {
        **_address(node.name, node.address),
        "converged_wlm_node": node.name,
        "slurm_state": node.state,
        "slurm_flags": sorted(node.flags),
        "slurm_reason": node.reason,
        "slurm_partitions": list(node.partitions),
        "slurm_features": list(node.features),
        "slurm_cpus": node.cpus,
        "slurm_memory_mebibytes": node.memory_mebibytes,
    }
    return Host(checked(node.name), groups, variables)


def controller_hosts(setting: Setting) -> list[Host]:
    """Make the hosts of the controllers, from ``name`` or ``name(address)``. Raise SlurmError for another form."""
    found = []
    for text in setting if isinstance(setting, list) else []:
        match = _CONTROLLER.match(text)
        if match is None:
            raise SlurmError(f"SlurmctldHost {text!a}: expected name or name(address)")
        name = checked(match.group(1))
        variables = {**_address(name, match.group(2) or name), "slurm_controller": True}
        found.append(Host(name, ["slurm_controllers"], variables))
    return found


def _address(name: str, address: str) -> dict[str, t.Any]:
    return {} if address == name else {"ansible_host": checked(address)}


class InventoryModule(ClusterInventory):
    """What Ansible calls."""

    NAME = "converged.hpc.slurm"
    suffixes = ("slurm.yml", "slurm.yaml")
    free_text = frozenset(["slurm_reason", "slurm_features", "slurm_partitions"])
    failures = (SlurmError, InventoryError)

    def hosts(self) -> list[Host]:
        slurm = Slurm(
            prefix=self.get_option("command_prefix"),
            bin_dir=self.get_option("bin_dir"),
            conf_path=self.get_option("conf_path"),
            timeout=self.get_option("timeout"),
        )
        nodes = slurm.nodes()
        refuse_shared_groups("slurm_partition", "partition", (name for node in nodes for name in node.partitions))
        refuse_shared_groups("slurm_feature", "feature", (name for node in nodes for name in node.features))
        return [*map(node_host, nodes), *controller_hosts(slurm.config().get("SlurmctldHost"))]
