# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guide that a test follows as it is written: its inventory, its commands, and what each should say.

Only names of hosts are changed, and what a test bed lacks of a site is added.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from e2e.playing import IN_CONTAINERS, Said
from e2e.site_of import ConvertedSite

GUIDES = Path(__file__).resolve().parents[2] / "docs/guides"
# How this machine reaches the hosts, and where the cluster's administrator is here.
OF_THE_BED = (
    *("ansible_user", "ansible_ssh_private_key_file", "ansible_ssh_common_args", "ansible_python_interpreter"),
    *("converged_api_server", "converged_kubeconfig", "converged_kubectl", "converged_record_copy_dir"),
)
_LOOKS = re.compile(r"^ *\| on \| command \| should say \|\n *\|[-|]+\|\n((?: *\|.*\|\n)+)", re.MULTILINE)
_ROW = re.compile(r"^ *\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")


class Look(NamedTuple):
    """A row of the guide's table: on which host, with which commands, and what they should say."""

    on: str
    commands: list[str]
    says: str

    def words(self) -> list[str]:
        """Return what must stand in the answer word for word."""
        return _CODE.findall(self.says)


class Guide:
    """A page of docs/guides, with the names of the bed's hosts."""

    def __init__(self, page: str, names: Mapping[str, str]) -> None:
        """Read the page, and replace each of the names."""
        self.text = (GUIDES / page).read_text(encoding="utf-8")
        for name, here in names.items():
            self.text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", here, self.text)

    def inventory(self) -> dict[str, Any]:
        """Return the inventory that the guide writes."""
        (block,) = re.findall(r"```yaml\n(\s*# hosts\.yml\n.*?)```", self.text, re.DOTALL)
        found: dict[str, Any] = yaml.safe_load(block)
        return found

    def runs(self, playbook: str) -> list[str]:
        """Return the options of each command that runs a playbook of the collection."""
        command = rf"ansible-playbook -i hosts\.yml ([^`\n]*converged\.hpc\.{playbook}\b[^`\n]*)"
        found: list[str] = re.findall(command, self.text)
        assert found, f"the guide does not run {playbook}"
        return found

    def looks(self) -> list[Look]:
        """Return the rows of the guide's table of what to look at."""
        (rows,) = _LOOKS.findall(self.text)
        return [Look(on, _CODE.findall(do), says) for on, do, says in _ROW.findall(rows)]


def take_inventory(site: ConvertedSite, guide: Guide, groups: Mapping[str, str]) -> dict[str, Any]:
    """Give the site the guide's inventory; return the variables that the guide writes for all hosts.

    `groups` names the group of the bed's inventory by which each host is reached.
    """
    written = guide.inventory()
    here = site.hosts["all"]
    reached = {host: here["children"][group]["hosts"][host] for host, group in groups.items()}
    reached["kube"] = here["children"]["converged_kube"]["hosts"]["localhost"]
    children = {name: group for name, group in written.items() if name != "all"}
    variables: dict[str, Any] = written["all"]["vars"]
    given = {name: here["vars"][name] for name in OF_THE_BED if name in here["vars"]}
    site.hosts = {"all": {"vars": {**variables, **given}, "children": {**children, "bed": {"hosts": reached}}}}
    lacks = {name: value for name, value in IN_CONTAINERS.items() if name != "node_runtime_pod_cidr"}
    site.set("converged_nodes", **lacks)
    return variables


def as_written(site: ConvertedSite, words: str, **variables: Any) -> Said:
    """Run a command of the guide, whatever its outcome is."""
    options = shlex.split(words)
    (playbook,) = [word for word in options if word.startswith("converged.hpc.")]
    options.remove(playbook)
    return site.run(playbook, *options, check=False, **variables)
