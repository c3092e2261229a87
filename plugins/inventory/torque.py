# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts and groups as Torque knows them, so that no second list of nodes is kept by hand."""

from __future__ import annotations

DOCUMENTATION = r"""
name: torque
short_description: Hosts and groups from a Torque cluster
version_added: 1.0.0
description:
  - Makes a host of every node of a Torque cluster, with its states as variables, in the groups C(torque_nodes) and
    C(torque_property_X), one for each of its properties.
  - Makes a host of the server, in the group C(torque_servers).
  - In names of groups, other characters than letters, digits and underscores become underscores. Two properties whose
    groups would then have one name are an error.
  - Asks C(pbsnodes) and C(qmgr) on the host that runs Ansible, or through a command such as C(ssh). Without a whole
    answer there is no inventory.
  - Uses a configuration file whose name ends in C(torque.yml) or C(torque.yaml).
author:
  - converged.hpc maintainers (@converged)
requirements:
  - Torque 6.1
extends_documentation_fragment:
  - ansible.builtin.constructed
options:
  plugin:
    description:
      - Marks the file as one for this plugin.
    type: str
    required: true
    choices: [converged.hpc.torque]
  command_prefix:
    description:
      - The words of a command that runs its arguments where Torque's programs are, for instance V([ssh, root@torque]).
    type: list
    elements: str
    default: []
  bin_dir:
    description:
      - The directory of Torque's programs there.
    type: str
    default: /usr/local/bin
  timeout:
    description:
      - Seconds after which an answer is no longer waited for.
    type: int
    default: 60
"""

EXAMPLES = r"""
# torque.yml: every node with the property "k8s" may be converted
plugin: converged.hpc.torque
command_prefix: [ssh, root@torque]
groups:
  converged_nodes: "'k8s' in torque_properties | default([])"
  converged_shared: inventory_hostname in ['n1']
  converged_controllers: torque_server is defined
"""

import typing as t

from ansible_collections.converged.hpc.plugins.module_utils._pbs.errors import PbsError
from ansible_collections.converged.hpc.plugins.module_utils._torque.client import Torque
from ansible_collections.converged.hpc.plugins.module_utils._torque.parse import Node
from ansible_collections.converged.hpc.plugins.plugin_utils._inventory import (
    ClusterInventory,
    Host,
    InventoryError,
    checked,
    group_name,
    refuse_shared_groups,
)


def node_hosts(nodes: t.Sequence[Node]) -> list[Host]:
    """One host for each node, in the group of each of its properties."""
    refuse_shared_groups("torque_property", "property", sorted({word for node in nodes for word in node.properties}))
    return [_host(node) for node in nodes]


def server_host(name: str) -> Host:
    """Make the host of the server."""
    return Host(checked(name), ["torque_servers"], {"torque_server": True})


def _host(node: Node) -> Host:
    variables = {
        "converged_wlm_node": node.name,
        "torque_states": sorted(node.states),
        "torque_note": node.note,
        "torque_properties": list(node.properties),
        "torque_slots": node.slots,
        "torque_gpus": node.gpus,
    }
    groups = [group_name("torque_property", word) for word in node.properties]
    return Host(checked(node.name), ["torque_nodes", *groups], variables)


class InventoryModule(ClusterInventory):
    """What Ansible calls."""

    NAME = "converged.hpc.torque"
    suffixes = ("torque.yml", "torque.yaml")
    free_text = frozenset(["torque_note"])
    failures = (PbsError, InventoryError)

    def hosts(self) -> list[Host]:
        torque = Torque(**self.way())
        return [*node_hosts(torque.nodes()), server_host(torque.server_host())]
