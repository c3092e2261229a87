# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory plugins share: hosts of a batch system, checked, as Ansible takes them.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import typing as t

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Constructable
from ansible.utils.unsafe_proxy import wrap_var

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


class InventoryError(Exception):
    """The cluster cannot be an inventory as it is; the text names what stands in the way."""


class Host(t.NamedTuple):
    """A host, the groups it is in, and its variables."""

    name: str
    groups: list[str]
    variables: dict[str, t.Any]


def checked(name: str) -> str:
    """Return the name or address. Refuse one with a leading dash or a space: to ssh it would be an option or several
    words.
    """
    if not _NAME.match(name.replace(":", ".")):
        raise InventoryError(f"{name!a} is no name or address of a host")
    return name


def group_name(kind: str, name: str) -> str:
    """``slurm_partition`` and ``a-b`` make ``slurm_partition_a_b``."""
    return f"{kind}_{re.sub('[^A-Za-z0-9_]', '_', name)}"


def refuse_shared_groups(kind: str, noun: str, names: t.Iterable[str]) -> None:
    """Two partitions in one group would convert the nodes of both where one is meant."""
    owners: dict[str, str] = {}
    for name in names:
        other = owners.setdefault(group_name(kind, name), name)
        if other != name:
            raise InventoryError(f"{noun}s {other!a} and {name!a} would both be the group {group_name(kind, name)}")


class ClusterInventory(BaseInventoryPlugin, Constructable):
    """An inventory plugin that asks a batch system; without a whole answer there is no inventory."""

    suffixes: tuple[str, ...] = ()
    # What people have written in the batch system must never be taken for a template.
    free_text: frozenset[str] = frozenset()
    failures: tuple[type[Exception], ...] = (InventoryError,)

    def hosts(self) -> list[Host]:
        raise NotImplementedError

    def way(self) -> dict[str, t.Any]:
        """Return how the options say that the programs of the batch system are reached."""
        return {
            "prefix": self.get_option("command_prefix"),
            "bin_dir": self.get_option("bin_dir"),
            "timeout": self.get_option("timeout"),
        }

    def verify_file(self, path: str) -> bool:
        return super().verify_file(path) and path.endswith(self.suffixes)

    def parse(self, inventory: t.Any, loader: t.Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        try:
            hosts = self.hosts()
        except self.failures as error:
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
            self.inventory.set_variable(host.name, name, wrap_var(value) if name in self.free_text else value)

    def _construct(self, name: str) -> None:
        variables = self.inventory.get_host(name).get_vars()
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), variables, name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, name, strict=strict)
