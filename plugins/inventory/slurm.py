# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts and groups as Slurm knows them, so that nobody keeps a second list of nodes by hand."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm
short_description: Hosts and groups from a Slurm cluster
version_added: 0.1.0
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
# slurm.yml: every node of the partition batch may be converted
plugin: converged.hpc.slurm
command_prefix: [ssh, ops@slurmctl]
groups:
  converged_nodes: "'batch' in slurm_partitions | default([])"
  converged_controllers: slurm_controller is defined
"""

import re
import typing as t

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Constructable
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.converged.hpc.plugins.module_utils._slurm.answers import Node, Setting
from ansible_collections.converged.hpc.plugins.module_utils._slurm.client import Slurm
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import SlurmError

_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_CONTROLLER = re.compile(r"([^()\s]+)(?:\(([^()\s]+)\))?\Z")
# What people have written in Slurm must never be taken for a template.
_FREE_TEXT = frozenset(["slurm_reason", "slurm_features", "slurm_partitions"])


class Host(t.NamedTuple):
    """A host, the groups it is in, and its variables."""

    name: str
    groups: list[str]
    variables: dict[str, t.Any]


def node_host(node: Node) -> Host:
    """A node, in the group of each partition and feature."""
    groups = ["slurm_nodes"]
    groups += [group_name("partition", name) for name in node.partitions]
    groups += [group_name("feature", name) for name in node.features]
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
    return Host(_checked(node.name), groups, variables)


def controller_hosts(setting: Setting) -> list[Host]:
    """The controllers, from ``name`` or ``name(address)``."""
    found = []
    for text in setting if isinstance(setting, list) else []:
        match = _CONTROLLER.match(text)
        if match is None:
            raise SlurmError(f"SlurmctldHost {text!a}: expected name or name(address)")
        name = _checked(match.group(1))
        variables = {**_address(name, match.group(2) or name), "slurm_controller": True}
        found.append(Host(name, ["slurm_controllers"], variables))
    return found


def group_name(kind: str, name: str) -> str:
    return f"slurm_{kind}_{re.sub('[^A-Za-z0-9_]', '_', name)}"


def refuse_shared_groups(nodes: t.Iterable[Node]) -> None:
    """Two partitions in one group would convert the nodes of both where one is meant."""
    owners: dict[str, str] = {}
    for node in nodes:
        for kind, names in (("partition", node.partitions), ("feature", node.features)):
            for name in names:
                other = owners.setdefault(group_name(kind, name), name)
                if other != name:
                    raise SlurmError(f"{kind}s {other!a} and {name!a} would both be the group {group_name(kind, name)}")


def _address(name: str, address: str) -> dict[str, t.Any]:
    return {} if address == name else {"ansible_host": _checked(address)}


def _checked(name: str) -> str:
    """A name that begins with a dash or holds a space would be an option or several words to ssh."""
    if not _HOST.match(name.replace(":", ".")):
        raise SlurmError(f"{name!a} is no name or address of a host")
    return name


class InventoryModule(BaseInventoryPlugin, Constructable):
    """What Ansible calls."""

    NAME = "converged.hpc.slurm"

    def verify_file(self, path: str) -> bool:
        return super().verify_file(path) and path.endswith(("slurm.yml", "slurm.yaml"))

    def parse(self, inventory: t.Any, loader: t.Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        slurm = Slurm(
            prefix=self.get_option("command_prefix"),
            bin_dir=self.get_option("bin_dir"),
            conf_path=self.get_option("conf_path"),
            timeout=self.get_option("timeout"),
        )
        try:
            nodes = slurm.nodes()
            refuse_shared_groups(nodes)
            hosts = [*map(node_host, nodes), *controller_hosts(slurm.config().get("SlurmctldHost"))]
        except SlurmError as error:
            raise AnsibleParserError(f"{path}: {error}") from error
        for host in hosts:
            self._add(host)
        for host in hosts:
            self._construct(host.name)

    def _add(self, host: Host) -> None:
        self.inventory.add_host(host.name)
        for group in host.groups:
            self.inventory.add_group(group)
            self.inventory.add_child(group, host.name)
        for name, value in host.variables.items():
            self.inventory.set_variable(host.name, name, wrap_var(value) if name in _FREE_TEXT else value)

    def _construct(self, name: str) -> None:
        variables = self.inventory.get_host(name).get_vars()
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), variables, name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, name, strict=strict)
