# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts and groups as PBS knows them, so that no second list of nodes is kept by hand."""

from __future__ import annotations

DOCUMENTATION = r"""
name: pbs
short_description: Hosts and groups from a PBS cluster
version_added: 1.0.0
description:
  - Makes a host of every machine of a PBS cluster, with the states of its vnodes as variables, in the groups
    C(pbs_nodes) and C(pbs_queue_X).
  - A machine is in the group of each queue whose jobs may run there. That is the queue that one of its vnodes is bound
    to, or, where a vnode is bound to none, every execution queue that has no vnodes of its own.
  - Makes a host of the server, in the group C(pbs_servers).
  - In names of groups, other characters than letters, digits and underscores become underscores. Two queues whose
    groups would then have one name are an error.
  - Asks C(qstat) and C(pbsnodes) on the host that runs Ansible, or through a command such as C(ssh). Without a whole
    answer there is no inventory.
  - Uses a configuration file whose name ends in C(pbs.yml) or C(pbs.yaml).
author:
  - converged.hpc maintainers (@converged)
requirements:
  - OpenPBS 23.06
extends_documentation_fragment:
  - ansible.builtin.constructed
options:
  plugin:
    description:
      - Marks the file as one for this plugin.
    type: str
    required: true
    choices: [converged.hpc.pbs]
  command_prefix:
    description:
      - The words of a command that runs its arguments where PBS's programs are, for instance V([ssh, ops@pbs]).
    type: list
    elements: str
    default: []
  bin_dir:
    description:
      - The directory of PBS's programs there.
    type: str
    default: /opt/pbs/bin
  timeout:
    description:
      - Seconds after which an answer is no longer waited for.
    type: int
    default: 60
"""

EXAMPLES = r"""
# pbs.yml: every machine on which jobs of the queue workq run may be converted
plugin: converged.hpc.pbs
command_prefix: [ssh, ops@pbs]
groups:
  converged_nodes: "'workq' in pbs_queues | default([])"
  converged_shared: inventory_hostname in ['n1']
  converged_controllers: pbs_server is defined
"""

import typing as t

from ansible_collections.converged.hpc.plugins.module_utils._pbs.client import Pbs
from ansible_collections.converged.hpc.plugins.module_utils._pbs.errors import PbsError
from ansible_collections.converged.hpc.plugins.module_utils._pbs.parse import Node, Queue
from ansible_collections.converged.hpc.plugins.plugin_utils._inventory import (
    ClusterInventory,
    Host,
    InventoryError,
    checked,
    group_name,
    refuse_shared_groups,
)


def node_hosts(nodes: t.Sequence[Node], queues: t.Sequence[Queue]) -> list[Host]:
    """One host for all vnodes of a machine, in the group of each queue whose jobs may run there."""
    refuse_shared_groups("pbs_queue", "queue", (queue.name for queue in queues))
    bound = {node.queue for node in nodes} - {""}
    common = [queue.name for queue in queues if queue.execution and queue.name not in bound]
    vnodes: dict[str, list[Node]] = {}
    for node in nodes:
        vnodes.setdefault(checked(node.host), []).append(node)
    return [_host(name, of_host, common) for name, of_host in vnodes.items()]


def server_host(name: str) -> Host:
    """Make the host of the server."""
    return Host(checked(name), ["pbs_servers"], {"pbs_server": True})


def _host(name: str, nodes: t.Sequence[Node], common: t.Sequence[str]) -> Host:
    queues = sorted({queue for node in nodes for queue in ([node.queue] if node.queue else common)})
    comments = [node.comment for node in nodes if node.comment]
    variables = {
        "converged_wlm_node": name,
        "pbs_vnodes": [node.name for node in nodes],
        "pbs_states": sorted({state for node in nodes for state in node.states}),
        "pbs_comment": comments[0] if comments else "",
        "pbs_queues": queues,
        "pbs_ncpus": _sum(nodes, "ncpus"),
        "pbs_memory_bytes": _sum(nodes, "mem"),
    }
    return Host(name, ["pbs_nodes", *(group_name("pbs_queue", queue) for queue in queues)], variables)


def _sum(nodes: t.Iterable[Node], resource: str) -> int:
    amounts = (node.available.get(resource) for node in nodes)
    return sum(amount for amount in amounts if isinstance(amount, int))


class InventoryModule(ClusterInventory):
    """What Ansible calls."""

    NAME = "converged.hpc.pbs"
    suffixes = ("pbs.yml", "pbs.yaml")
    free_text = frozenset(["pbs_comment"])
    failures = (PbsError, InventoryError)

    def hosts(self) -> list[Host]:
        pbs = Pbs(**self.way())
        return [*node_hosts(pbs.nodes(), pbs.queues()), server_host(pbs.server_host())]
